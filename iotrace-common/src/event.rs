//! Rare facts, sent through the ring buffer. Every record begins with its kind; records are 8-byte aligned.

/// [`ProcessSeen`]: a target was seen for the first time.
pub const PROCESS_SEEN: u32 = 1;
/// [`ProcessSeen`]: a target became another program.
pub const PROCESS_EXEC: u32 = 2;
/// [`ProcessExit`].
pub const PROCESS_EXIT: u32 = 3;
/// [`ThreadExit`].
pub const THREAD_EXIT: u32 = 4;
/// [`crate::file::SessionRecord`].
pub const SESSION: u32 = 5;
/// [`crate::file::FolderRecord`].
pub const FOLDER: u32 = 6;
/// [`crate::file::PathRecord`] of a rename.
pub const RENAMED: u32 = 7;
/// [`crate::file::PathRecord`] of the first failure with an errno, by process and operation.
pub const FAILED: u32 = 8;
/// [`crate::file::NameRecord`].
pub const NAME: u32 = 9;

/// Bytes of the command line kept.
pub const ARGS_BYTES: usize = 256;
/// Room for a short command line, so that thousands of processes at once do not fill the ring buffer with nothing.
pub const SHORT_ARGS_BYTES: usize = 64;

/// A target appeared or executed a program. `ARGS` is the room for its arguments.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcessSeen<const ARGS: usize> {
    /// `PROCESS_SEEN`, `PROCESS_EXEC`.
    pub kind: u32,
    /// Parent's tgid.
    pub ppid: u32,
    /// Key.
    pub process: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// Pid in its innermost namespace.
    pub ns_pid: u32,
    /// `process::KERNEL_THREAD`.
    pub flags: u32,
    /// Command name of the thread group leader.
    pub comm: [u8; 16],
    /// Bytes used of `args`.
    pub args_len: u32,
    /// Padding.
    pub _pad: u32,
    /// Arguments, each ended by NUL, cut at `ARGS_BYTES`.
    pub args: [u8; ARGS],
}

/// The last thread of a target ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcessExit {
    /// `PROCESS_EXIT`.
    pub kind: u32,
    /// Status as wait(2) has it.
    pub exit_code: u32,
    /// Key.
    pub process: u64,
    /// Last command name.
    pub comm: [u8; 16],
}

/// A thread with a slot ended; the slot is user space's until it is pushed back to the free list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadExit {
    /// `THREAD_EXIT`.
    pub kind: u32,
    /// Slot.
    pub slot: u32,
}

const _: () = assert!(size_of::<ProcessSeen<0>>() == 56 && size_of::<ProcessExit>() == 32);
const _: () = assert!(size_of::<ThreadExit>() == 8);
