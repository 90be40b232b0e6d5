//! io_uring: one ring, no polling thread, IORING_OP_READ and IORING_OP_WRITE (5.6).

use anyhow::{Context, Result, anyhow};
use io_uring::{IoUring, opcode, types};
use serde_json::{Value, json};

use super::{Lacking, Queue, Transfer};

/// A ring.
pub struct Ring {
    ring: IoUring,
    enters: u64,
}

impl Ring {
    /// A ring with `depth` entries.
    pub fn new(depth: usize) -> Result<Self, Lacking> {
        let ring = IoUring::new(depth as u32).map_err(|error| Lacking("io_uring_setup", error))?;
        Ok(Self { ring, enters: 0 })
    }
}

impl Queue for Ring {
    unsafe fn push(&mut self, slot: usize, transfer: Transfer) -> Result<()> {
        let (fd, at) = (types::Fd(transfer.fd), transfer.address);
        let size = u32::try_from(transfer.bytes)?;
        let entry = if transfer.write {
            opcode::Write::new(fd, at, size).offset(transfer.offset).build()
        } else {
            opcode::Read::new(fd, at, size).offset(transfer.offset).build()
        };
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) }
            .map_err(|error| anyhow!("{error}"))
    }

    fn submit_and_reap(&mut self, done: &mut dyn FnMut(usize, isize)) -> Result<()> {
        self.ring.submit_and_wait(1).context("io_uring_enter")?;
        self.enters += 1;
        for entry in self.ring.completion() {
            done(entry.user_data() as usize, entry.result() as isize);
        }
        Ok(())
    }

    fn calls(&self) -> Value {
        json!({"io_uring_setup": 1, "io_uring_enter": self.enters})
    }
}
