//! Many small files: each costs an open, however little is read of it.

use iotrace_common::op::OP_STAT;

use super::{Pattern, SmallFiles, at_least, pids, places};
use crate::model::{Class, Trace};

/// Files below this are small: on common storage the open costs about as much as the read.
const SMALL_BYTES: u64 = 128 << 10;
/// With fewer openings of small files it does not matter.
const LEAST_OPENS: u64 = 100;
/// Share of files and of openings, in per cent, from which small ones are the rule.
const MOST_PERCENT: u64 = 50;

/// Finds it.
pub fn find(trace: &Trace) -> Option<Pattern> {
    let mut found = SmallFiles::default();
    for (index, class) in trace.files.classes.iter().enumerate() {
        let Class { files, opens, totals } = class;
        found.files += files;
        found.opens += opens;
        found.bytes += totals.read_bytes + totals.written_bytes;
        if Class::bounds(index).1.is_none_or(|high| high > SMALL_BYTES) {
            continue;
        }
        found.small_files += files;
        found.small_opens += opens;
        found.small_bytes += totals.read_bytes + totals.written_bytes;
        found.small_reads += totals.reads;
        found.small_open_ns += totals.open_ns;
        found.small_open_wait_ns += totals.open_wait_ns;
        found.small_read_ns += totals.read_ns;
        found.small_read_wait_ns += totals.read_wait_ns;
    }
    for process in &trace.processes {
        found.stat_ns += process.of_meta(OP_STAT, |stats| stats.latency_ns.sum);
        found.stat_wait_ns += process.of_meta(OP_STAT, |stats| stats.wait_ns);
    }
    let many = found.small_opens >= LEAST_OPENS
        && at_least(found.small_files, MOST_PERCENT, found.files)
        && at_least(found.small_opens, MOST_PERCENT, found.opens);
    let of = |process: &crate::model::Process| process.files.as_ref().map_or(0, |of| of.opens);
    many.then(|| {
        Pattern::new(found, pids(trace, of), places::place(&trace.files.folders, |folder| folder.opens))
    })
}
