//! One slot per thread of a target that uses files: the call in progress, the files it works on, and the thread's own
//! statistics of reads and writes. Only the thread itself writes its slot, so nothing in it is atomic.

use crate::{
    file::{FileSlot, SessionRecord, WAYS},
    hist::BUCKETS,
    op::{DATA_FORMS, META_FORMS, SETS},
};

/// What a descriptor stands for.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No such side in this form.
    Absent = 0,
    /// Regular file on a file system that stores data.
    Regular,
    /// Block device.
    BlockDevice,
    /// Pipe or FIFO.
    Pipe,
    /// Socket.
    Socket,
    /// Character device.
    Char,
    /// Regular file of procfs, sysfs, cgroupfs and their kin.
    Pseudo,
    /// Anything else, a bad descriptor included.
    Other,
}

/// Number of kinds.
pub const KINDS: usize = 8;

/// Names by number; the first three are not counted apart.
pub const KIND_NAMES: [&str; KINDS] = ["", "regular", "block", "pipe", "socket", "char", "pseudo", "other"];

/// A request for an unknown number of bytes: an io vector longer than the programs follow.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// Statistics of reads, or of writes, of one thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpSlot {
    /// Calls that returned.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that moved less than asked, but something.
    pub short: u64,
    /// Calls that moved nothing though something was asked.
    pub eof: u64,
    /// Sum, smallest and largest latency.
    pub latency_sum_ns: u64,
    /// Smallest latency; valid when `count` > 0.
    pub latency_min_ns: u64,
    /// Largest latency.
    pub latency_max_ns: u64,
    /// Smallest transfer; valid when `count` > `errors`.
    pub size_min: u64,
    /// Largest transfer.
    pub size_max: u64,
    /// Calls that went off the CPU for something else than another thread's turn.
    pub waited: u64,
    /// How long they were off it.
    pub wait_ns: u64,
    /// Bytes they moved.
    pub waited_bytes: u64,
    /// Bytes that calls brought into the page cache.
    pub cached_bytes: u64,
    /// Calls by form.
    pub forms: [u64; DATA_FORMS],
    /// Latencies.
    pub latency: [u64; BUCKETS],
    /// Transfer sizes.
    pub size: [u64; BUCKETS],
}

/// Statistics of another operation of a whole process: shared, so added to atomically.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpSet {
    /// Whose.
    pub key: OpKey,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that went off the CPU.
    pub waited: u64,
    /// How long they were off it.
    pub wait_ns: u64,
    /// Bytes brought into the page cache (page faults).
    pub cached_bytes: u64,
    /// Calls by form, from the first form of the operation on.
    pub forms: [u64; META_FORMS],
    /// Latencies.
    pub latency: crate::block::SharedHist,
}

/// Key of `OP_SETS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpKey {
    /// Process.
    pub process: u64,
    /// `op::OP_*`.
    pub op: u32,
    /// 1, so that no key is all zero.
    pub used: u32,
}

/// Calls and bytes by kind.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ApartSlot {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a descriptor was found to stand for.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// Address of the open file.
    pub file: u64,
    /// Address of the inode.
    pub inode: u64,
    /// Inode number.
    pub ino: u64,
    /// Position of the open file, when asked for.
    pub position: u64,
}

/// "No way": the side is absent.
pub const NO_WAY: u32 = u32::MAX;

/// A slot.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadSlot {
    /// Process the thread belongs to.
    pub process: u64,
    /// Thread id; 0: free.
    pub tid: u32,
    /// [`crate::op::Form`] of the call in progress; 0: none.
    pub form: u32,
    /// Entry of the call in progress.
    pub enter_ns: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Where in the file it begins, or `UNKNOWN_POSITION`; of other calls their first argument that the end needs.
    pub position: u64,
    /// Second argument that the end needs.
    pub argument: u64,
    /// When the thread went off the CPU within the call; 0: it is on it, or was preempted.
    pub off_ns: u64,
    /// Time off the CPU within the call.
    pub wait_ns: u64,
    /// Bytes brought into the page cache by the call.
    pub cached_bytes: u64,
    /// [`Kind`] of each side of the call in progress: read, write.
    pub kinds: [u32; 2],
    /// Their places in `files`.
    pub ways: [u32; 2],
    /// Place in `OP_STATS` plus one, by operation; 0: not known yet.
    pub sets: [u32; SETS],
    /// Its own place in `THREAD_SLOTS`.
    pub index: u32,
    /// 1: the call is on a file that `--path` and `--fstype` choose.
    pub chosen: u64,
    /// The descriptor looked up last.
    pub seen: Seen,
    /// Files it works on.
    pub files: [FileSlot; WAYS],
    /// What is not storage: by side, then kind.
    pub apart: [[ApartSlot; KINDS]; 2],
    /// Read, write.
    pub ops: [OpSlot; 2],
    /// A record in the making.
    pub record: SessionRecord,
}

/// Key of `ERRNOS`, whose values are counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ErrnoKey {
    /// Process.
    pub process: u64,
    /// `op::OP_*`.
    pub op: u32,
    /// Positive errno.
    pub errno: u32,
}

const _: () = assert!(SETS % 2 == 1, "the padding of ThreadSlot");
const _: () = assert!(size_of::<OpSlot>() == (14 + DATA_FORMS + 2 * BUCKETS) * 8);

crate::pod!(ThreadSlot, ErrnoKey, OpSet, OpKey);
