//! Small writes, each made safe by itself.

use super::{Pattern, SmallSyncedWrites, pids, places};
use crate::model::{FileUse, Folder, Process, Trace};

/// Fewer are the end of some files.
const LEAST_SYNCS: u64 = 20;
/// Bytes to an fsync: a disk of 100 MB/s writes them in well under 1 ms, less than its flush takes.
const SMALL_BYTES: u64 = 64 << 10;
/// Writes to an fsync.
const FEW_WRITES: u64 = 8;

/// Finds processes that sync after every few small writes.
pub fn find(trace: &Trace) -> Option<Pattern> {
    let mut found = SmallSyncedWrites::default();
    for of in trace.processes.iter().filter_map(small) {
        found.syncs += of.totals.syncs;
        found.writes += of.totals.writes;
        found.written_bytes += of.totals.written_bytes;
        found.sync_ns += of.totals.sync_ns;
    }
    let weight = |folder: &Folder| if folder.totals.writes > 0 { folder.totals.sync_ns } else { 0 };
    (found.syncs > 0).then(|| {
        let who = pids(trace, |p| small(p).map_or(0, |of| of.totals.sync_ns));
        Pattern::new(found, who, places::place(&trace.files.folders, weight))
    })
}

/// What `process` did with files, if it did this.
fn small(process: &Process) -> Option<&FileUse> {
    let of = process.files.as_deref()?;
    let totals = &of.totals;
    let few = totals.writes > 0
        && totals.syncs >= LEAST_SYNCS
        && totals.written_bytes < SMALL_BYTES * totals.syncs
        && totals.writes <= FEW_WRITES * totals.syncs;
    few.then_some(of)
}
