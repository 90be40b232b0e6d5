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

/// Time of the block requests of `process`, summed, in ns.
fn block_ns(process: &Process) -> u64 {
    process.block.iter().map(|entry| entry.stats.total_ns.sum).fold(0, u64::saturating_add)
}

/// Every process, most time in storage ops first, then by pid and start. Where only block requests were traced, it is
/// their time.
pub fn by_storage_time(trace: &Trace) -> Vec<&Process> {
    let time_ns = if trace.block_only() { block_ns } else { storage_ns };
    let mut processes: Vec<_> = trace.processes.iter().collect();
    processes.sort_by_cached_key(|p| (Reverse(time_ns(p)), p.pid, p.start_ns));
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
