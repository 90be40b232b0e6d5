//! Block requests: who owns one in flight, and the statistics of a set of them.

use crate::hist::BUCKETS;

/// Operation numbers in keys and masks.
pub const OP_READ: u32 = 0;
/// Writes, zone appends.
pub const OP_WRITE: u32 = 1;
/// Flushes without data.
pub const OP_FLUSH: u32 = 2;
/// Discards, secure erases, write-zeroes.
pub const OP_DISCARD: u32 = 3;

/// Flags of a key: REQ_SYNC.
pub const FLAG_SYNC: u8 = 1 << 0;
/// REQ_META.
pub const FLAG_META: u8 = 1 << 1;
/// REQ_RAHEAD.
pub const FLAG_READAHEAD: u8 = 1 << 2;

/// Which set a request belongs to.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockKey {
    /// Owning process, `process::OTHERS` for user processes that are no targets.
    pub process: u64,
    /// major << 20 | minor of the whole disk.
    pub dev: u32,
    /// `OP_*`.
    pub op: u8,
    /// `FLAG_*`.
    pub flags: u8,
    /// Marks a key in use, so that an all-zero slot matches none.
    pub used: u16,
}

/// One distribution shared by all CPUs: counts and sum are added to atomically.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SharedHist {
    /// Sum of the values.
    pub sum: u64,
    /// Largest value.
    pub max: u64,
    /// Largest value of (u64::MAX - value), i.e. the smallest value, stored so that 0 means "none yet".
    pub inverse_min: u64,
    /// Counts.
    pub counts: [u64; BUCKETS],
}

/// Statistics of one set. What every request writes comes first and together, what it seldom writes after that: requests
/// often end on another CPU than they began on, and each cache line written there has to travel.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BlockSlot {
    /// The set.
    pub key: BlockKey,
    /// Completed with an error.
    pub errors: u64,
    /// Started minus ended (completed, merged away, abandoned).
    pub in_flight: u64,
    /// Sums of the values of each distribution, by `SIZE`...
    pub sums: [u64; DISTRIBUTIONS],
    /// Largest values.
    pub max: [u64; DISTRIBUTIONS],
    /// Smallest values, as in [`SharedHist::inverse_min`].
    pub inverse_min: [u64; DISTRIBUTIONS],
    /// Counts.
    pub counts: [[u64; BUCKETS]; DISTRIBUTIONS],
}

/// Distributions of a [`BlockSlot`]: request sizes in bytes.
pub const SIZE: usize = 0;
/// Start to last issue, ns.
pub const QUEUE: usize = 1;
/// Last issue to completion, ns.
pub const DEVICE: usize = 2;
/// Start to completion, ns.
pub const TOTAL: usize = 3;
/// How many.
pub const DISTRIBUTIONS: usize = 4;

/// A started request. Requests are preallocated by the kernel, one a tag, so (device, hardware queue, tag) is a place
/// of its own in an array: looked up, never inserted or deleted.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct InFlight {
    /// Address of the request; 0: none in flight here.
    pub rq: u64,
    /// Start.
    pub start_ns: u64,
    /// Last issue; 0: not issued.
    pub issue_ns: u64,
    /// Size at the last issue.
    pub bytes: u32,
    /// Place in `BLOCK_STATS`.
    pub stats: u32,
    /// 1: lies in `IN_FLIGHT_OVERFLOW`.
    pub overflown: u32,
    /// 1: an error was reported.
    pub failed: u32,
}

/// Value of `DEVICES`, keyed by device number: where its requests lie in `IN_FLIGHT`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct DeviceLayout {
    /// First entry.
    pub base: u32,
    /// Driver tags a hardware queue.
    pub tags: u32,
    /// Scheduler tags a hardware queue.
    pub sched_tags: u32,
    /// Hardware queues.
    pub queues: u32,
    /// 1: chosen by `--device`.
    pub selected: u32,
    /// Padding.
    pub _pad: u32,
}

/// Value of `QUEUES`, indexed by `request_queue.id`: the layout of the queue's device, found once.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QueueEntry {
    /// Address of the queue; 0: not known yet.
    pub q: u64,
    /// major << 20 | minor.
    pub dev: u32,
    /// Padding.
    pub _pad: u32,
    /// Layout; `tags` 0: not known to the loader (hot-plugged), requests go to `IN_FLIGHT_OVERFLOW`.
    pub layout: DeviceLayout,
}

/// Entries of `QUEUES`.
pub const QUEUE_IDS: u32 = 8192;

const _: () =
    assert!(size_of::<BlockKey>() == 16 && size_of::<InFlight>() == 40 && size_of::<QueueEntry>() == 40);
const _: () = assert!(size_of::<BlockSlot>() == 32 + DISTRIBUTIONS * (24 + BUCKETS * 8));

crate::pod!(BlockKey, BlockSlot, InFlight, DeviceLayout, QueueEntry);
