//! The order of processes, and what they did in sum.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use iotrace_common::op::{OP_NAMES, OP_READ, OP_WRITE};

use crate::model::{BlockEntry, BlockOp, BlockStats, Histogram, Process, Trace};

/// Whether `process` made a call on storage or owns a block request.
pub fn touched_storage(process: &Process) -> bool {
    process.calls() > 0 || process.block.iter().any(|entry| entry.stats.count > 0)
}

/// One operation, of one process or of many.
#[derive(Debug, Default)]
pub struct OpSum {
    /// Its name.
    pub name: &'static str,
    /// Calls that returned, failed ones included.
    pub count: u64,
    /// Failed calls.
    pub failed: u64,
    /// Bytes moved; `None`: it moves none.
    pub bytes: Option<u64>,
    /// Calls that waited.
    pub waited: u64,
    /// How long, ns.
    pub wait_ns: u64,
    /// Time from entry to return, ns.
    pub latency_ns: Histogram,
}

/// The operations that `processes` performed, each summed, in the order of their kinds.
pub fn operations(processes: &[&Process]) -> Vec<OpSum> {
    let mut sums: Vec<OpSum> = OP_NAMES.iter().map(|&name| OpSum { name, ..OpSum::default() }).collect();
    for process in processes {
        for (op, stats) in [(OP_READ, &process.read), (OP_WRITE, &process.write)] {
            let sum = &mut sums[op as usize];
            sum.bytes = Some(sum.bytes.unwrap_or(0) + stats.bytes);
            sum.failed += stats.errors.values().sum::<u64>();
            sum.add(stats.count, stats.waited, stats.wait_ns, &stats.latency_ns);
        }
        for (name, stats) in &process.meta {
            let Some(sum) = sums.iter_mut().find(|sum| sum.name == *name) else { continue };
            sum.failed += stats.errors.values().sum::<u64>();
            sum.add(stats.count, stats.waited, stats.wait_ns, &stats.latency_ns);
        }
    }
    sums.retain(|sum| sum.count > 0);
    sums
}

impl OpSum {
    fn add(&mut self, count: u64, waited: u64, wait_ns: u64, latency_ns: &Histogram) {
        self.count += count;
        self.waited += waited;
        self.wait_ns += wait_ns;
        self.latency_ns.merge(latency_ns);
    }
}

/// Time of the block requests of `process`, summed, in ns.
fn block_ns(process: &Process) -> u64 {
    process.block.iter().map(|entry| entry.stats.total_ns.sum).fold(0, u64::saturating_add)
}

/// Every process, most time in storage ops first, then by pid and start. Where only block requests were traced, it is
/// their time.
pub fn by_storage_time(trace: &Trace) -> Vec<&Process> {
    let time_ns = if trace.block_only() { block_ns } else { Process::storage_ns };
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
