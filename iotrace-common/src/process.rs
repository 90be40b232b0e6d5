//! Identity of processes.
//!
//! A process is (tgid, start time): a key of 64 bits with the tgid in the top 22 (PID_MAX_LIMIT is 2^22) and the start
//! time in units of 2^20 ns below, so a reused pid is another process and no id has to be handed out.

/// Owner of block requests made by user processes that are no targets.
pub const OTHERS: u64 = 0;

/// Bits of the start time in a key.
pub const START_BITS: u32 = 42;
/// ns per unit of start time, as a power of two (1.05 ms).
pub const START_SHIFT: u32 = 20;

/// The key of a process.
#[inline(always)]
pub const fn key(tgid: u32, start_ns: u64) -> u64 {
    ((tgid as u64) << START_BITS) | ((start_ns >> START_SHIFT) & ((1 << START_BITS) - 1))
}

/// The tgid of a key.
pub const fn tgid_of(key: u64) -> u32 {
    (key >> START_BITS) as u32
}

/// A kernel thread.
pub const KERNEL_THREAD: u32 = 1 << 0;

/// Its last thread has ended.
pub const EXITED: u32 = 1 << 1;

/// Value of the map `TARGETS`, keyed by tgid.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Target {
    /// Key; 0 until the process is first seen in the kernel.
    pub key: u64,
    /// `KERNEL_THREAD`, `EXITED`.
    pub flags: u32,
    /// Padding.
    pub _pad: u32,
    /// Asynchronous transfers in flight by operation (`op::OP_READ`, `OP_WRITE`; fsyncs in the last).
    pub in_flight: [u64; 3],
}

const _: () = assert!(size_of::<Target>() == 40);

crate::pod!(Target);
