//! io_uring: one ring, no polling thread, IORING_OP_READ and IORING_OP_WRITE (5.6).

use anyhow::{Context, Result, anyhow};
use io_uring::{IoUring, opcode, types};
use serde_json::{Value, json};

use super::{Lacking, Queue, Target};

/// A ring over one target.
pub struct Ring<'a> {
    ring: IoUring,
    target: &'a Target,
    enters: u64,
}

impl<'a> Ring<'a> {
    /// A ring with an entry for each buffer of the target.
    pub fn new(target: &'a Target) -> Result<Self, Lacking> {
        let ring = IoUring::new(target.buffers.len() as u32);
        let ring = ring.map_err(|error| Lacking("io_uring_setup", error))?;
        Ok(Self { ring, target, enters: 0 })
    }
}

impl Queue for Ring<'_> {
    fn push(&mut self, slot: usize, offset: u64) -> Result<()> {
        let (fd, at) = (types::Fd(self.target.fd), self.target.address(slot));
        let size = u32::try_from(self.target.size)?;
        let entry = if self.target.write {
            opcode::Write::new(fd, at, size).offset(offset).build()
        } else {
            opcode::Read::new(fd, at, size).offset(offset).build()
        };
        // SAFETY: the file and the buffer of the slot live as long as the target, which outlives the ring; no other
        // transfer uses the buffer, because a slot is free until its transfer is reaped.
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
