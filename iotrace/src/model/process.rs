//! Sums over the operations of a process. Times are ns.

use iotrace_common::op::OP_NAMES;

use super::{FileSizes, Histogram, MetaStats, Process};

impl Process {
    /// Statistics of an operation that moves no data (`op::OP_*`); `None`: it did not happen.
    pub fn meta(&self, op: u32) -> Option<&MetaStats> {
        self.meta.iter().find(|(name, _)| *name == OP_NAMES[op as usize]).map(|(_, stats)| stats)
    }

    /// One number of such an operation; 0 when it did not happen.
    pub fn of_meta(&self, op: u32, number: impl Fn(&MetaStats) -> u64) -> u64 {
        self.meta(op).map_or(0, number)
    }

    /// Sizes of the files it used.
    pub fn file_sizes(&self) -> &FileSizes {
        static NONE: FileSizes =
            FileSizes { all: Histogram::EMPTY, read: Histogram::EMPTY, written: Histogram::EMPTY };
        self.file_sizes.as_deref().unwrap_or(&NONE)
    }

    /// Calls on storage that move no data.
    pub fn other_calls(&self) -> u64 {
        self.meta.iter().map(|(_, stats)| stats.count).sum()
    }

    /// Calls on storage.
    pub fn calls(&self) -> u64 {
        self.read.count + self.write.count + self.other_calls()
    }

    /// Time in all operations on storage, summed over threads.
    pub fn storage_ns(&self) -> u64 {
        let others = self.meta.iter().map(|(_, stats)| stats.latency_ns.sum);
        others.fold(self.read.latency_ns.sum, u64::saturating_add).saturating_add(self.write.latency_ns.sum)
    }

    /// Of [`Process::storage_ns`] the time asleep.
    pub fn wait_ns(&self) -> u64 {
        let others: u64 = self.meta.iter().map(|(_, stats)| stats.wait_ns).sum();
        self.read.wait_ns + self.write.wait_ns + others
    }
}
