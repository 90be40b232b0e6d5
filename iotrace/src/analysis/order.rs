//! In which order files are read.

use super::{AccessOrder, Pattern, WholeFiles, at_least, pids};
use crate::model::{FileUse, Process, Trace};

/// Fewer reads have no order.
const LEAST_READS: u64 = 100;
/// A process whose share of any order differs by so many per cent of its reads is told apart.
const DIFFERENT_PERCENT: u64 = 20;
/// So many processes at most, those with most reads.
const MOST_PROCESSES: usize = 4;

/// The order of all reads together, and of each process that has another.
pub fn orders(trace: &Trace) -> Vec<Pattern> {
    let mut each: Vec<_> = trace.processes.iter().map(|p| (of(p), p.pid)).collect();
    let mut all = AccessOrder::default();
    for (of, _) in &each {
        all.reads += of.reads;
        all.sequential_reads += of.sequential_reads;
        all.strided_reads += of.strided_reads;
        all.random_reads += of.random_reads;
    }
    if all.reads < LEAST_READS {
        return Vec::new();
    }
    each.retain(|(of, _)| of.reads >= LEAST_READS && differs(of, &all));
    each.sort_by_key(|&(of, pid)| (std::cmp::Reverse(of.reads), pid));
    let mut found = vec![Pattern::new(all, pids(trace, |p| of(p).reads), None)];
    found.extend(each.into_iter().take(MOST_PROCESSES).map(|(of, pid)| Pattern::new(of, vec![pid], None)));
    found
}

fn of(process: &Process) -> AccessOrder {
    let Some(of) = &process.files else { return AccessOrder::default() };
    let (sequential_reads, strided_reads, random_reads) =
        (of.totals.sequential_reads, of.totals.strided_reads, of.totals.random_reads);
    AccessOrder {
        reads: sequential_reads + strided_reads + random_reads,
        sequential_reads,
        strided_reads,
        random_reads,
    }
}

fn differs(a: &AccessOrder, b: &AccessOrder) -> bool {
    let share = |part: u64, whole: u64| part * 100 / whole.max(1);
    let far = |of: fn(&AccessOrder) -> u64| {
        share(of(a), a.reads).abs_diff(share(of(b), b.reads)) >= DIFFERENT_PERCENT
    };
    far(|o| o.sequential_reads) || far(|o| o.strided_reads) || far(|o| o.random_reads)
}

/// Fewer are configuration files.
const LEAST_WHOLE: u64 = 10;
/// Of a process's openings, in per cent.
const WHOLE_PERCENT: u64 = 50;

/// Finds processes most of whose openings read the file from start to end.
pub fn whole_files(trace: &Trace) -> Option<Pattern> {
    let mut found = WholeFiles::default();
    for of in trace.processes.iter().filter_map(whole) {
        found.whole_file += of.whole_file;
        found.opens += of.opens;
    }
    let who = |p: &Process| whole(p).map_or(0, |of| of.whole_file);
    (found.whole_file > 0).then(|| Pattern::new(found, pids(trace, who), None))
}

/// What `process` did with files, if it did this.
fn whole(process: &Process) -> Option<&FileUse> {
    let of = process.files.as_deref()?;
    (of.whole_file >= LEAST_WHOLE && at_least(of.whole_file, WHOLE_PERCENT, of.opens)).then_some(of)
}
