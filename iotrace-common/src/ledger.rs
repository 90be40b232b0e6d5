//! The wait ledger: one of each thread of a target, in which every nanosecond of its life is in exactly one account.

/// On a CPU, in user or kernel mode.
pub const RUNNING: u32 = 0;
/// Could run, but another thread does: woken and not yet on a CPU, or preempted.
pub const RUNNABLE: u32 = 1;
/// Asleep until a read of storage goes on.
pub const IO_READ: u32 = 2;
/// Asleep in a write to storage, the throttling of those who write faster than the disk included.
pub const IO_WRITE: u32 = 3;
/// Asleep in fsync and its kin.
pub const IO_FSYNC: u32 = 4;
/// Asleep in a call on names or attributes of files: open, stat, getdents, rename and their kin.
pub const IO_META: u32 = 5;
/// Asleep in a page fault on a mapped file, or on one that was swapped out.
pub const IO_FAULT: u32 = 6;
/// Asleep until one of several descriptors is ready, or an event is there.
pub const WAIT_POLL: u32 = 7;
/// Asleep on a lock or a condition of the program's own.
pub const WAIT_FUTEX: u32 = 8;
/// Asleep on a pipe or a socket.
pub const WAIT_PIPE_SOCKET: u32 = 9;
/// Asleep in a driver of a GPU.
pub const WAIT_GPU: u32 = 10;
/// Asleep for a time the program asked for.
pub const SLEEP: u32 = 11;
/// Anything else: waiting for a child, for memory, for a lock of the kernel, stopped.
pub const OTHER: u32 = 12;

/// Number of accounts.
pub const ACCOUNTS: usize = 13;

/// Names by number.
pub const ACCOUNT_NAMES: [&str; ACCOUNTS] = [
    "running",
    "runnable",
    "io_read",
    "io_write",
    "io_fsync",
    "io_meta",
    "io_fault",
    "wait_poll",
    "wait_futex",
    "wait_pipe_socket",
    "wait_gpu",
    "sleep",
    "other",
];

/// State of a thread that was found ready: running or waiting for its turn, its next step will tell.
pub const READY: u32 = ACCOUNTS as u32;

/// A thread's ledger. Its thread is asleep, or on a CPU, or on the way from one to the other under the lock of a run queue:
/// one program writes at a time. User space may read meanwhile, and tells by the two versions: written are first `version`
/// at the end, then all else, then `version_seen` at the beginning, and it is copied from the beginning to the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// `version` once all else is written.
    pub version_seen: u64,
    /// Process the thread belongs to.
    pub process: u64,
    /// Thread id; 0: never used.
    pub tid: u32,
    /// Account that time goes to now, or `READY`.
    pub state: u32,
    /// Account that time went to before.
    pub before: u32,
    /// Place in `THREAD_SLOTS` plus one; 0: none.
    pub slot: u32,
    /// Since when it goes to `state`.
    pub since_ns: u64,
    /// When the ledger was opened.
    pub born_ns: u64,
    /// When the thread ended; 0: it lives.
    pub ended_ns: u64,
    /// Name of the thread, once it has ended.
    pub comm: [u8; 16],
    /// Time by account, up to `since_ns`.
    pub accounts: [u64; ACCOUNTS],
    /// Number of changes.
    pub version: u64,
}

/// Ledgers in a value of the map: read at once.
pub const BLOCK: usize = 16;

/// Value of the map `LEDGERS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LedgerBlock {
    /// Neighbours.
    pub ledgers: [Ledger; BLOCK],
}

/// What a thread that sleeps in a system call waits for, by the number of the call.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallClass {
    /// None of the others.
    Other = 0,
    /// Reads the file of its first descriptor.
    Read,
    /// Reads the file of its second descriptor.
    ReadSecond,
    /// Writes to the file of its first descriptor.
    Write,
    /// Makes data durable.
    Fsync,
    /// On names or attributes of files.
    Meta,
    /// For any of several descriptors; the first argument points to them.
    PollList,
    /// For any of several descriptors.
    Poll,
    /// On a lock of the program's own.
    Futex,
    /// On a socket.
    Socket,
    /// For a time.
    Sleep,
    /// Whatever the driver of its first descriptor does.
    Ioctl,
    /// For asynchronous transfers.
    Async,
}

const _: () = assert!(size_of::<Ledger>() == 8 * (9 + ACCOUNTS + 1));

crate::pod!(Ledger, LedgerBlock);
