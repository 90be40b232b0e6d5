//! Files that are mapped instead of read: page faults load them.

use iotrace_common::op::OP_MMAP_FAULT;

use super::{MmapLoading, Pattern, at_least, pids, places};
use crate::model::{Process, Trace};

/// Less is programs and libraries that start.
const LEAST_CACHED_BYTES: u64 = 16 << 20;
/// Of all wait, in per cent ...
const WAIT_PERCENT: u64 = 5;
/// ... and at least so long.
const LEAST_WAIT_NS: u64 = 10_000_000;

/// Finds it.
pub fn find(trace: &Trace) -> Option<Pattern> {
    let mut found = MmapLoading::default();
    for process in &trace.processes {
        found.all_wait_ns += process.wait_ns();
        if let Some(stats) = process.meta(OP_MMAP_FAULT) {
            found.faults += stats.count;
            found.waited_faults += stats.waited;
            found.wait_ns += stats.wait_ns;
            found.cached_bytes += stats.cached_bytes;
        }
    }
    let waits = found.wait_ns >= LEAST_WAIT_NS && at_least(found.wait_ns, WAIT_PERCENT, found.all_wait_ns);
    let part = |p: &Process| p.of_meta(OP_MMAP_FAULT, |stats| stats.wait_ns + stats.cached_bytes);
    (waits || found.cached_bytes >= LEAST_CACHED_BYTES).then(|| {
        let place = places::place(&trace.files.folders, |folder| folder.totals.fault_wait_ns);
        Pattern::new(found, pids(trace, part), place)
    })
}
