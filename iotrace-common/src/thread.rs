//! One slot per thread of a target that reads or writes: the call in progress, and the thread's own statistics.
//! Only the thread itself writes its slot, so nothing in it is atomic.

use crate::hist::BUCKETS;

/// `read` in [`ThreadSlot::ops`] and in masks.
pub const OP_READ: u32 = 0;
/// `write`.
pub const OP_WRITE: u32 = 1;

/// System calls that move data. The order is part of the interface: [`FORM_NAMES`].
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the system calls' own names")]
pub enum Form {
    Read = 1,
    Pread64,
    Readv,
    Preadv,
    Preadv2,
    Write,
    Pwrite64,
    Writev,
    Pwritev,
    Pwritev2,
    Sendfile,
    Splice,
    CopyFileRange,
}

/// Number of forms plus one: form 0 is "not such a call".
pub const FORMS: usize = 14;

/// Names by number.
pub const FORM_NAMES: [&str; FORMS] = [
    "",
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "sendfile",
    "splice",
    "copy_file_range",
];

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

/// Statistics of one op of one thread.
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
    /// Calls by form.
    pub forms: [u64; FORMS],
    /// Latencies.
    pub latency: [u64; BUCKETS],
    /// Transfer sizes.
    pub size: [u64; BUCKETS],
}

/// The regular file a thread last read (or wrote).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FileRef {
    /// Inode number; 0: none.
    pub ino: u64,
    /// Size when last seen.
    pub size: u64,
    /// Size last reported to user space.
    pub noted_size: u64,
    /// `s_dev`: major << 20 | minor.
    pub dev: u32,
    /// Padding.
    pub _pad: u32,
}

/// The file of one side (read or write) of the call in progress, or of the last call that had that side.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Pending {
    /// Address of the open file; 0 when it was not needed.
    pub file: u64,
    /// Address of the inode.
    pub inode: u64,
    /// Inode number.
    pub ino: u64,
    /// Size at entry.
    pub size: u64,
    /// `s_dev`.
    pub dev: u32,
    /// [`Kind`].
    pub kind: u32,
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

/// A slot.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadSlot {
    /// Process the thread belongs to.
    pub process: u64,
    /// Thread id; 0: free.
    pub tid: u32,
    /// [`Form`] of the call in progress; 0: none.
    pub form: u32,
    /// Entry of the call in progress.
    pub enter_ns: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// [`Kind`] of each side of the call in progress: read, write.
    pub kinds: [u32; 2],
    /// Their files.
    pub pending: [Pending; 2],
    /// Files last read, last written.
    pub file: [FileRef; 2],
    /// What is not storage: by side, then kind.
    pub apart: [[ApartSlot; KINDS]; 2],
    /// Read, write.
    pub ops: [OpSlot; 2],
}

/// Key of `ERRNOS`, whose values are counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ErrnoKey {
    /// Process.
    pub process: u64,
    /// `OP_READ`, `OP_WRITE`.
    pub op: u32,
    /// Positive errno.
    pub errno: u32,
}

/// Key of `FILES_SEEN`: files already reported, so that a file read in turns is not reported each time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileKey {
    /// Process.
    pub process: u64,
    /// Inode number.
    pub ino: u64,
    /// `s_dev`.
    pub dev: u32,
    /// `OP_READ`, `OP_WRITE`.
    pub op: u32,
}

const _: () = assert!(size_of::<OpSlot>() == 80 + FORMS * 8 + 2 * BUCKETS * 8);
const _: () = assert!(size_of::<FileRef>() == 32 && size_of::<Pending>() == 40);
const _: () = assert!(size_of::<ThreadSlot>() == 40 + 80 + 64 + 2 * KINDS * 16 + 2 * size_of::<OpSlot>());

crate::pod!(ThreadSlot, ErrnoKey, FileKey);
