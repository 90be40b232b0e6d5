//! Large files read in tiny pieces: each is a system call, whether or not its data is in memory.

use super::{Pattern, TinyReads, at_least, pids, places};
use crate::model::{Class, Process, Trace};

/// Smaller files have no room for larger reads.
const LARGE_BYTES: u64 = 1 << 20;
/// Fewer are headers and indexes.
const LEAST_READS: u64 = 1_000;
/// Of the reads of large files, in per cent.
const TINY_PERCENT: u64 = 10;

/// Finds it. Of which process and folder the tiny reads are, is told for files of every size together.
pub fn find(trace: &Trace) -> Option<Pattern> {
    let mut found = TinyReads::default();
    for (index, class) in trace.files.classes.iter().enumerate() {
        if Class::bounds(index).0 >= LARGE_BYTES {
            found.tiny_reads += class.totals.tiny_reads;
            found.reads += class.totals.reads;
            found.read_bytes += class.totals.read_bytes;
            found.read_ns += class.totals.read_ns;
        }
    }
    let tiny = |p: &Process| p.files.as_ref().map_or(0, |of| of.totals.tiny_reads);
    let many = found.tiny_reads >= LEAST_READS && at_least(found.tiny_reads, TINY_PERCENT, found.reads);
    many.then(|| {
        let place = places::place(&trace.files.folders, |folder| folder.totals.tiny_reads);
        Pattern::new(found, pids(trace, tiny), place)
    })
}
