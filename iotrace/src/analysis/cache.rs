//! Memory or storage: whether reads found their data in the page cache, and whether readahead put it there in time.

use super::{ColdReads, Pattern, ReadaheadUnused, ReadaheadUsed, WarmReads, at_least, pids, places};
use crate::model::{Process, Trace};

/// Fewer reads say nothing.
const LEAST_READS: u64 = 100;
/// From this share of the bytes read, in per cent, that waited or were brought in, reads are cold: a tenth from a disk
/// that is ten times slower than memory doubles the time.
const COLD_PERCENT: u64 = 10;
/// Up to this share of reads and of bytes they are warm.
const WARM_PERCENT: u64 = 1;

/// Finds that reads are cold, or that they are warm; between the two is neither.
pub fn cold_or_warm(trace: &Trace) -> Option<Pattern> {
    let sum = |number: fn(&Process) -> u64| trace.processes.iter().map(number).sum::<u64>();
    let reads = sum(|p| p.read.count);
    let waited_reads = sum(|p| p.read.waited);
    let read_bytes = sum(|p| p.read.bytes);
    let waited_bytes = sum(|p| p.read.waited_bytes);
    let cached_bytes = sum(|p| p.read.cached_bytes);
    if reads < LEAST_READS || read_bytes == 0 {
        return None;
    }
    // What readahead brought in before it was asked for waited for nobody, and was not in memory either.
    if at_least(waited_bytes.max(cached_bytes), COLD_PERCENT, read_bytes) {
        let read_ns = sum(|p| p.read.latency_ns.sum);
        let read_wait_ns = sum(|p| p.read.wait_ns);
        let cold =
            ColdReads { reads, waited_reads, read_bytes, waited_bytes, cached_bytes, read_ns, read_wait_ns };
        let who = pids(trace, |p| p.read.wait_ns);
        return Some(Pattern::new(cold, who, places::place(&trace.files.folders, |f| f.totals.read_wait_ns)));
    }
    let few = |part, whole| u128::from(part) * 100 <= u128::from(whole * WARM_PERCENT);
    let warm = few(waited_reads, reads) && few(waited_bytes.max(cached_bytes), read_bytes);
    warm.then(|| {
        let found = WarmReads { reads, waited_reads, read_bytes, waited_bytes, cached_bytes };
        Pattern::new(found, pids(trace, |p| p.read.count), None)
    })
}

/// Less brought in says nothing about readahead: a window is at most some MiB.
const LEAST_CACHED_BYTES: u64 = 16 << 20;
/// Brought in this many times what was read: at least half of it was not read.
const UNUSED_TIMES: u64 = 2;
/// Readahead works when at most this share of reads, in per cent, waits for what ...
const USED_WAITED_PERCENT: u64 = 10;
/// ... came for the most part from storage.
const USED_CACHED_PERCENT: u64 = 50;

/// Finds readahead that is used, and readahead that is not, each over the processes of which it is true.
pub fn readahead(trace: &Trace) -> Vec<Pattern> {
    let brought_in = |p: &Process| p.read.cached_bytes >= LEAST_CACHED_BYTES;
    let unused = |p: &Process| brought_in(p) && p.read.cached_bytes >= UNUSED_TIMES * p.read.bytes;
    let used = |p: &Process| {
        brought_in(p)
            && !unused(p)
            && at_least(p.read.cached_bytes, USED_CACHED_PERCENT, p.read.bytes)
            && !at_least(p.read.waited, USED_WAITED_PERCENT, p.read.count)
    };
    let mut found = Vec::new();
    if let Some([reads, waited_reads, read_bytes, cached_bytes]) = of(trace, &unused) {
        let numbers = ReadaheadUnused { reads, waited_reads, read_bytes, cached_bytes };
        let who = pids(trace, |p| if unused(p) { p.read.cached_bytes } else { 0 });
        found.push(Pattern::new(numbers, who, None));
    }
    if let Some([reads, waited_reads, read_bytes, cached_bytes]) = of(trace, &used) {
        let numbers = ReadaheadUsed { reads, waited_reads, read_bytes, cached_bytes };
        let who = pids(trace, |p| if used(p) { p.read.cached_bytes } else { 0 });
        found.push(Pattern::new(numbers, who, None));
    }
    found
}

/// Reads, those that waited, bytes, and bytes brought in, of the processes that `are`; `None`: there is none.
fn of(trace: &Trace, are: &dyn Fn(&Process) -> bool) -> Option<[u64; 4]> {
    let mut sum = None;
    for process in trace.processes.iter().filter(|p| are(p)) {
        let sum = sum.get_or_insert([0; 4]);
        let read = &process.read;
        for (sum, number) in sum.iter_mut().zip([read.count, read.waited, read.bytes, read.cached_bytes]) {
            *sum += number;
        }
    }
    sum
}
