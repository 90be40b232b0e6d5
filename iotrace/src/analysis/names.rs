//! Calls about names: files that do not exist, stats without end, folders that are read for long.

use iotrace_common::op::{OP_GETDENTS, OP_NAMES, OP_OPEN, OP_STAT};

use super::{DirectoryScans, MissingFiles, Pattern, StatStorm, at_least, pids};
use crate::model::{Process, Trace};

const ENOENT: i32 = 2;

/// Fewer misses happen in every program: a shell looks through PATH, Python through its import path.
const LEAST_MISSES: u64 = 100;
/// Misses a second of the trace: below that they take no time that shows.
const LEAST_MISSES_PER_SECOND: u64 = 10;
/// Of a process's opens and stats, in per cent.
const MISSES_PERCENT: u64 = 10;

/// Finds that names are looked up that do not exist. The path is the first that the process with most of them missed.
pub fn missing(trace: &Trace) -> Option<Pattern> {
    let failed = |p: &Process| {
        [OP_OPEN, OP_STAT]
            .iter()
            .map(|&op| p.of_meta(op, |s| s.errors.get(&ENOENT).copied().unwrap_or(0)))
            .sum()
    };
    let calls = |p: &Process| [OP_OPEN, OP_STAT].iter().map(|&op| p.of_meta(op, |s| s.count)).sum::<u64>();
    let often = |p: &&Process| failed(p) >= LEAST_MISSES && at_least(failed(p), MISSES_PERCENT, calls(p));
    let who: Vec<_> = trace.processes.iter().filter(often).collect();
    let all = who.iter().map(|p| failed(p)).sum();
    let per_second = per_second(all, trace.meta.duration_ns);
    if all == 0 || per_second < LEAST_MISSES_PER_SECOND {
        return None;
    }
    let pids = pids(trace, |p| if often(&p) { failed(p) } else { 0 });
    let names = [OP_NAMES[OP_OPEN as usize], OP_NAMES[OP_STAT as usize]];
    let first = trace.files.failures.iter().find(|of| {
        of.errno == ENOENT && names.contains(&of.op) && pids.first() == Some(&of.pid) && !of.path.is_empty()
    });
    let path = first.map(|of| of.path.clone());
    let calls = who.iter().map(|p| calls(p)).sum();
    Some(Pattern::new(MissingFiles { failed: all, calls, failed_per_second: per_second }, pids, path))
}

/// Fewer are the start of a program.
const LEAST_STATS: u64 = 1_000;
/// Stats a second of the trace.
const LEAST_STATS_PER_SECOND: u64 = 100;
/// Of a process's calls, in per cent: one stat beside an open, some reads and a close is below it.
const STATS_PERCENT: u64 = 25;

/// Finds a storm of stats.
pub fn stats(trace: &Trace) -> Option<Pattern> {
    let stats = |p: &Process| p.of_meta(OP_STAT, |s| s.count);
    let stormy = |p: &&Process| stats(p) >= LEAST_STATS && at_least(stats(p), STATS_PERCENT, p.calls());
    let mut found = StatStorm::default();
    for process in trace.processes.iter().filter(stormy) {
        found.stats += stats(process);
        found.calls += process.calls();
        found.stat_ns += process.of_meta(OP_STAT, |s| s.latency_ns.sum);
        found.stat_wait_ns += process.of_meta(OP_STAT, |s| s.wait_ns);
    }
    found.stats_per_second = per_second(found.stats, trace.meta.duration_ns);
    (found.stats > 0 && found.stats_per_second >= LEAST_STATS_PER_SECOND)
        .then(|| Pattern::new(found, pids(trace, |p| if stormy(&p) { stats(p) } else { 0 }), None))
}

/// Shorter is no matter.
const LEAST_SCAN_NS: u64 = 10_000_000;
/// Of a process's storage time, in per cent.
const SCAN_PERCENT: u64 = 10;

/// Finds processes that spend their storage time reading folders.
pub fn scans(trace: &Trace) -> Option<Pattern> {
    let time = |p: &Process| p.of_meta(OP_GETDENTS, |s| s.latency_ns.sum);
    let long = |p: &&Process| time(p) >= LEAST_SCAN_NS && at_least(time(p), SCAN_PERCENT, p.storage_ns());
    let mut found = DirectoryScans::default();
    for process in trace.processes.iter().filter(long) {
        found.calls += process.of_meta(OP_GETDENTS, |s| s.count);
        found.scan_ns += time(process);
        found.scan_wait_ns += process.of_meta(OP_GETDENTS, |s| s.wait_ns);
        found.storage_ns += process.storage_ns();
    }
    (found.calls > 0).then(|| Pattern::new(found, pids(trace, |p| if long(&p) { time(p) } else { 0 }), None))
}

/// Events a second, to the nearest.
fn per_second(events: u64, duration_ns: u64) -> u64 {
    if duration_ns == 0 {
        return 0;
    }
    ((u128::from(events) * 1_000_000_000 + u128::from(duration_ns) / 2) / u128::from(duration_ns)) as u64
}
