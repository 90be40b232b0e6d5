//! From the counters of the kernel side to the model's.

use std::collections::BTreeMap;

use iotrace_common::{
    block::{self, BlockKey, BlockSlot, FLAG_META, FLAG_READAHEAD, FLAG_SYNC, SharedHist},
    tally::Tally,
};

use crate::{
    kernel::devices::Disk,
    model::{BlockCounts, BlockEntry, BlockOp, BlockStats, Device, Histogram, ProgramCost},
    probes::plan::AGAIN,
};

/// Kernel device number to (major, minor).
pub const fn device_number(dev: u32) -> (u32, u32) {
    (dev >> 20, dev & 0xf_ffff)
}

/// (major, minor) to the kernel's number.
pub const fn kernel_number(number: (u32, u32)) -> u32 {
    number.0 << 20 | number.1
}

/// A set of block requests.
pub fn block_entry(key: &BlockKey, slot: &BlockSlot) -> BlockEntry {
    let op = match key.op as u32 {
        block::OP_READ => BlockOp::Read,
        block::OP_FLUSH => BlockOp::Flush,
        block::OP_DISCARD => BlockOp::Discard,
        _ => BlockOp::Write,
    };
    let of = |which| distribution(slot, which);
    BlockEntry {
        device: device_number(key.dev),
        op,
        sync: key.flags & FLAG_SYNC != 0,
        meta: key.flags & FLAG_META != 0,
        readahead: key.flags & FLAG_READAHEAD != 0,
        stats: BlockStats {
            count: of(block::SIZE).count,
            bytes: slot.sums[block::SIZE],
            errors: slot.errors,
            size_bytes: of(block::SIZE),
            queue_ns: of(block::QUEUE),
            device_ns: of(block::DEVICE),
            total_ns: of(block::TOTAL),
        },
    }
}

/// One distribution of a set of block requests.
fn distribution(slot: &BlockSlot, which: usize) -> Histogram {
    let min = u64::MAX - slot.inverse_min[which];
    Histogram::from_parts(&slot.counts[which], slot.sums[which], min, slot.max[which])
}

/// A shared distribution.
pub fn histogram(shared: &SharedHist) -> Histogram {
    Histogram::from_parts(&shared.counts, shared.sum, u64::MAX - shared.inverse_min, shared.max)
}

/// Block-layer counts; `in_flight` is what the sets say.
pub fn block_counts(tally: &Tally, in_flight: u64) -> BlockCounts {
    BlockCounts {
        started: tally.block_started,
        issued: tally.block_issued,
        requeued: tally.block_requeued,
        merged_bios: tally.block_merged_bios,
        merged_requests: tally.block_merged_requests,
        completed: tally.block_completed,
        errors: tally.block_errors,
        completed_without_start: tally.block_completed_without_start,
        abandoned: tally.block_ended_unseen,
        in_flight_at_end: in_flight,
        flush_issued: tally.block_flush_issued,
    }
}

/// Runs that were skipped and that nothing made up for: at a place with two copies of a program, at most what the one that
/// was skipped less often missed; of starts of requests, those not taken at the issue.
pub fn lost_runs(programs: &[ProgramCost], tally: &Tally) -> u64 {
    let of = |name: &str| programs.iter().find(|p| p.name == name).map(|p| p.runs_skipped);
    let mut lost = 0;
    for ProgramCost { name, runs_skipped: count, .. } in programs {
        let second = AGAIN.iter().find(|(_, first)| first == name).and_then(|(again, _)| of(again));
        lost += match name.as_str() {
            again if AGAIN.iter().any(|(second, _)| *second == again) => 0,
            "block_io_start" | "account_start_fentry" | "account_start_kprobe" => {
                count.saturating_sub(tally.block_started_at_issue)
            }
            _ => second.map_or(*count, |second| second.min(*count)),
        };
    }
    lost
}

/// Losses by cause.
pub fn losses(tally: &Tally, undecoded: u64, missed_runs: u64) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("threads_without_slot", tally.lost_thread_slots + tally.lost_thread_map),
        ("processes", tally.lost_target_map),
        ("process_and_file_records", tally.lost_ring + undecoded),
        ("block_requests", tally.lost_block_sets + tally.lost_in_flight),
        ("asynchronous_transfers", tally.lost_async),
        ("calls_without_set", tally.lost_op_sets),
        ("threads_without_ledger", tally.lost_ledgers),
        ("errno_counts", tally.lost_errnos),
        ("unreadable_descriptors", tally.lost_reads),
        ("program_runs_skipped", missed_runs),
    ])
}

/// A device by number, with its totals still empty.
pub fn device(number: (u32, u32), disks: &[Disk]) -> Device {
    let Some(disk) = disks.iter().find(|disk| disk.number == number) else {
        return Device {
            number,
            name: format!("{}:{}", number.0, number.1),
            issue_time_source: "probe",
            ..Device::default()
        };
    };
    Device {
        number,
        name: disk.name.clone(),
        alias: disk.alias.clone(),
        rotational: disk.rotational,
        scheduler: disk.scheduler.clone(),
        nr_requests: disk.nr_requests,
        hardware_queues: Some(disk.hardware_queues),
        issue_time_source: "probe",
        totals: BTreeMap::new(),
    }
}
