//! The order of processes, and what they did in sum.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::model::{BlockEntry, BlockOp, BlockStats, Process, Trace};

/// Time in read and write calls, summed over the threads of `process`, in ns.
pub fn storage_ns(process: &Process) -> u64 {
    process.read.latency_ns.sum.saturating_add(process.write.latency_ns.sum)
}

/// Whether `process` made a read or write call on storage or owns a block request.
pub fn touched_storage(process: &Process) -> bool {
    process.read.count + process.write.count > 0 || process.block.iter().any(|entry| entry.stats.count > 0)
}

/// Every process, most time in storage ops first, then by pid and start.
pub fn by_storage_time(trace: &Trace) -> Vec<&Process> {
    let mut processes: Vec<_> = trace.processes.iter().collect();
    processes.sort_by_cached_key(|p| (Reverse(storage_ns(p)), p.pid, p.start_ns));
    processes
}

/// Block requests summed by operation; operations without requests are left out.
pub fn by_op<'a>(entries: impl IntoIterator<Item = &'a BlockEntry>) -> BTreeMap<BlockOp, BlockStats> {
    let mut ops: BTreeMap<BlockOp, BlockStats> = BTreeMap::new();
    for entry in entries {
        ops.entry(entry.op).or_default().merge(&entry.stats);
    }
    ops.retain(|_, stats| stats.count > 0);
    ops
}
