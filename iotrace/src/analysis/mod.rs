//! What stands out in a trace. Pure functions of the model: no kernel, no clock, no I/O.
//!
//! A pattern is a measured fact with its numbers, not a cause. Each has thresholds, as named constants with their reason;
//! below them, or with too little to judge by, there is no pattern.

use crate::model::{Process, Trace};

mod cache;
mod checkpoints;
mod evidence;
mod mapped;
mod names;
mod order;
mod places;
mod remote;
mod repeated;
pub mod roles;
mod small_files;
mod syncs;
mod tiny_reads;

#[cfg(test)]
mod tests;

pub use evidence::*;

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// What was measured.
    pub evidence: Evidence,
    /// Processes that have most part in it, the greatest part first; 8 at most.
    pub pids: Vec<u32>,
    /// The file or folder where most of it happened; `None`: not known, or everywhere.
    pub path: Option<Vec<u8>>,
    /// A word that the numbers need: a type of file system, the rules of a checkpoint; mostly empty.
    pub detail: String,
}

impl Pattern {
    fn new(evidence: impl Into<Evidence>, pids: Vec<u32>, path: Option<Vec<u8>>) -> Self {
        Self { evidence: evidence.into(), pids, path, detail: String::new() }
    }
}

/// More lost than this share of all calls, in per cent, and what is left may be another story (docs/design.md).
const MOST_LOST_PERCENT: u64 = 1;

/// Every pattern of `trace`: what costs first, what only describes last. None when too much was lost to judge.
pub fn patterns(trace: &Trace) -> Vec<Pattern> {
    if too_much_lost(trace) {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(remote::find(trace));
    found.extend(checkpoints::find(trace));
    found.extend(syncs::find(trace));
    found.extend(small_files::find(trace));
    found.extend(cache::cold_or_warm(trace));
    found.extend(mapped::find(trace));
    found.extend(cache::readahead(trace));
    found.extend(names::missing(trace));
    found.extend(names::stats(trace));
    found.extend(names::scans(trace));
    found.extend(tiny_reads::find(trace));
    found.extend(repeated::find(trace));
    found.extend(order::orders(trace));
    found.extend(order::whole_files(trace));
    found
}

/// Whether so many events are missing that shares of the rest say nothing.
pub fn too_much_lost(trace: &Trace) -> bool {
    let lost: u64 = trace.lost.values().sum();
    let calls: u64 = trace.processes.iter().map(Process::calls).sum();
    lost > 0 && lost * 100 > calls * MOST_LOST_PERCENT
}

/// At least `percent` of `whole`, which must not be nothing.
fn at_least(part: u64, percent: u64, whole: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Processes named with a pattern.
const MOST_PIDS: usize = 8;
/// A smaller share of the whole, in per cent, is not worth a name.
const LEAST_PART_PERCENT: u64 = 5;

/// The processes that have a part of at least 5 %, the greatest first.
fn pids(trace: &Trace, part: impl Fn(&Process) -> u64) -> Vec<u32> {
    let whole = trace.processes.iter().map(&part).sum();
    let mut parts: Vec<_> = trace.processes.iter().map(|p| (part(p), p.pid)).collect();
    parts.retain(|&(part, _)| part > 0 && at_least(part, LEAST_PART_PERCENT, whole));
    parts.sort_by_key(|&(part, pid)| (std::cmp::Reverse(part), pid));
    parts.into_iter().take(MOST_PIDS).map(|(_, pid)| pid).collect()
}
