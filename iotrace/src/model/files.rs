//! What the processes of a trace did with files. Times are ns, sizes bytes.

use std::collections::BTreeMap;

use iotrace_common::file::{CLASS_ENDS, CLASSES, FileTotals};

/// Files by size class, and the ones that stand out.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// Distinct files, by device and inode number.
    pub distinct: u64,
    /// Sessions: openings within the trace, and files that were open before.
    pub sessions: Sessions,
    /// Every number, by size class.
    pub classes: [Class; CLASSES],
    /// Files by wait, longest first.
    pub top: Vec<File>,
    /// Folders by wait, longest first.
    pub folders: Vec<Folder>,
    /// How many folders there are.
    pub folder_count: u64,
    /// Extensions by wait, longest first.
    pub extensions: Vec<Extension>,
    /// File systems touched.
    pub file_systems: Vec<FileSystem>,
    /// How many files were written like checkpoints.
    pub checkpoint_count: u64,
    /// The first of them.
    pub checkpoints: Vec<Checkpoint>,
    /// First failure of each kind, by process.
    pub failures: Vec<Failure>,
    /// Files told of whose records a full ring buffer dropped: the classes hold their numbers, the lists do not.
    pub records_lost: u64,
}

/// How sessions began and ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Opened within the trace.
    pub opened: u64,
    /// Seen to be closed by their last holder.
    pub closed: u64,
    /// Files that a process read or wrote and did not open within the trace: opened before, inherited or passed on. Counted
    /// once for each process.
    pub open_before: u64,
    /// Used within the trace, and still open at its end.
    pub open_at_end: u64,
    /// Read from start to end.
    pub whole_file: u64,
}

/// The files of one size class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Class {
    /// Distinct files.
    pub files: u64,
    /// Openings.
    pub opens: u64,
    /// Numbers.
    pub totals: FileTotals,
}

impl Class {
    /// Lowest size, and the first beyond the highest; `None` for the last class.
    pub fn bounds(index: usize) -> (u64, Option<u64>) {
        let low = index.checked_sub(1).map_or(0, |below| CLASS_ENDS[below]);
        (low, CLASS_ENDS.get(index).copied())
    }
}

/// What reads, writes, opens, fsyncs and faults of these totals waited, ns.
pub fn wait_ns(totals: &FileTotals) -> u64 {
    totals.read_wait_ns + totals.write_wait_ns + totals.open_wait_ns + totals.sync_ns + totals.fault_wait_ns
}

/// One file of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Path as its process has it; any bytes. A part that is not known is marked.
    pub path: Vec<u8>,
    /// No name leads to it any more.
    pub deleted: bool,
    /// `(major, minor)` of its file system.
    pub device: (u32, u32),
    /// Inode number.
    pub ino: u64,
    /// Last known size.
    pub size: u64,
    /// Openings.
    pub opens: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// See [`wait_ns`].
    pub wait_ns: u64,
    /// Process that used it first, by pid.
    pub pid: u32,
}

/// The files of one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folder {
    /// Path as the process that used it first has it.
    pub path: Vec<u8>,
    /// Distinct files.
    pub files: u64,
    /// Openings.
    pub opens: u64,
    /// Numbers of all its files.
    pub totals: FileTotals,
}

/// The files of one extension.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extension {
    /// From the last dot on, small letters; empty: none.
    pub extension: Vec<u8>,
    /// Distinct files.
    pub files: u64,
    /// Openings.
    pub opens: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// See [`wait_ns`].
    pub wait_ns: u64,
}

/// One file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// Where it is mounted, for the process that used it first.
    pub mount_point: Vec<u8>,
    /// Type, e.g. `ext4`, `fuse.s3fs`.
    pub fs_type: String,
    /// `block`, `memory`, `network`, `fuse`, `stacked`, or `unknown`.
    pub backing: &'static str,
    /// What is mounted, e.g. `/dev/nvme0n1p1`.
    pub source: Vec<u8>,
    /// `(major, minor)`.
    pub device: (u32, u32),
    /// Distinct files.
    pub files: u64,
    /// Openings.
    pub opens: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// A file that was written like a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Path at the end.
    pub path: Vec<u8>,
    /// Name it was written under, when it was renamed after.
    pub temporary: Option<Vec<u8>>,
    /// Rules that fired: `name`, `large write`, `rename`, `fsync`.
    pub rules: Vec<&'static str>,
    /// Process that wrote it.
    pub pid: u32,
    /// Bytes written.
    pub bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// fsync and kin.
    pub syncs: u64,
    /// First use to last, ns.
    pub duration_ns: u64,
    /// Time in its writes and fsyncs, ns.
    pub stall_ns: u64,
    /// Begin, ns after the start of the trace.
    pub began_ns: u64,
}

/// The first failure of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Process.
    pub pid: u32,
    /// Operation.
    pub op: &'static str,
    /// errno.
    pub errno: i32,
    /// How often it failed so.
    pub count: u64,
    /// Path of the first, as the program gave it.
    pub path: Vec<u8>,
}

/// What one process did with files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileUse {
    /// Distinct files.
    pub files: u64,
    /// Openings.
    pub opens: u64,
    /// Sessions that read a file from start to end.
    pub whole_file: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// Statistics of an operation that moves no data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaStats {
    /// Calls that returned, failed ones included.
    pub count: u64,
    /// Failed calls by errno.
    pub errors: BTreeMap<i32, u64>,
    /// Calls by system call.
    pub forms: Vec<(&'static str, u64)>,
    /// Calls that waited.
    pub waited: u64,
    /// How long, ns.
    pub wait_ns: u64,
    /// Bytes brought into the page cache (page faults).
    pub cached_bytes: u64,
    /// Time from entry to return.
    pub latency_ns: super::Histogram,
}
