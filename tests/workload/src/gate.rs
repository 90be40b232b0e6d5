//! A gate between a parent and its forked children: a futex in shared memory, so that waiting at it is no read of a
//! pipe and opening it no close.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::shared::{Atomics, zeroed};

/// The gate, mapped before the forks. Children hold the same pages.
pub struct Gate(&'static Shared);

struct Shared {
    arrived: AtomicU32,
    open: AtomicU32,
}

// SAFETY: two atomics.
unsafe impl Atomics for Shared {}

impl Gate {
    /// A gate, shut or already open.
    pub fn new(open: bool) -> Result<Self> {
        let shared: &'static Shared = zeroed()?;
        shared.open.store(u32::from(open), Ordering::SeqCst);
        Ok(Self(shared))
    }

    /// Sleeps until the gate is open.
    pub fn pass(&self) {
        self.0.arrived.fetch_add(1, Ordering::SeqCst);
        while self.0.open.load(Ordering::SeqCst) == 0 {
            futex(&self.0.open, libc::FUTEX_WAIT, 0);
        }
    }

    /// Waits until `count` children sleep at the gate, or are about to.
    ///
    /// # Errors
    /// When a child ends before.
    pub fn wait_for_arrival(&self, count: u32) -> Result<()> {
        while self.0.arrived.load(Ordering::SeqCst) < count {
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            // SAFETY: all zeroes is a valid siginfo_t.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: a live struct. WNOWAIT leaves the child to be waited for.
            let ret = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) };
            // SAFETY: waitid succeeded, so the field is set: to 0 if no child has ended.
            if ret == 0 && unsafe { info.si_pid() } != 0 {
                bail!("a child ended before it was ready");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets everyone through.
    pub fn open(&self) {
        self.0.open.store(1, Ordering::SeqCst);
        futex(&self.0.open, libc::FUTEX_WAKE, i32::MAX as u32);
    }
}

fn futex(word: &AtomicU32, op: libc::c_int, value: u32) {
    // SAFETY: a live word; no timeout. Waking early is harmless: the caller looks again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, value, 0usize) };
}
