//! The kernel's AIO by its raw calls, as libaio makes them. Without O_DIRECT a transfer is done when io_submit returns.

use std::io;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Lacking, Queue, Transfer};

/// `struct iocb` of linux/aio_abi.h, little-endian.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64);

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<Event>() == 32);

/// IOCB_CMD_PREAD and IOCB_CMD_PWRITE.
const READ: u16 = 0;
const WRITE: u16 = 1;

/// An AIO context. Each slot has a control block of its own, by whose address an event tells which transfer it ends.
pub struct Context {
    id: u64,
    blocks: Vec<Iocb>,
    prepared: Vec<usize>,
    events: Vec<Event>,
    submits: u64,
    waits: u64,
}

impl Context {
    /// A context for `depth` transfers in flight.
    pub fn new(depth: usize) -> Result<Self, Lacking> {
        let mut id = 0u64;
        // SAFETY: the kernel writes the id into a live variable.
        if unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut id) } < 0 {
            return Err(Lacking("io_setup", io::Error::last_os_error()));
        }
        let (blocks, events) = (vec![Iocb::default(); depth], vec![Event::default(); depth]);
        Ok(Self { id, blocks, prepared: Vec::with_capacity(depth), events, submits: 0, waits: 0 })
    }
}

impl Queue for Context {
    unsafe fn push(&mut self, slot: usize, transfer: Transfer) -> Result<()> {
        self.blocks[slot] = Iocb {
            data: slot as u64,
            opcode: if transfer.write { WRITE } else { READ },
            fd: transfer.fd as u32,
            buffer: transfer.address as u64,
            bytes: transfer.bytes as u64,
            offset: transfer.offset as i64,
            ..Iocb::default()
        };
        self.prepared.push(slot);
        Ok(())
    }

    fn submit_and_reap(&mut self, done: &mut dyn FnMut(usize, isize)) -> Result<()> {
        let mut left = self.prepared.as_slice();
        while !left.is_empty() {
            let list: Vec<*const Iocb> =
                left.iter().map(|&slot| std::ptr::from_ref(&self.blocks[slot])).collect();
            // SAFETY: live control blocks, which the kernel copies; who pushed them vouches for the buffers.
            let ret = unsafe { libc::syscall(libc::SYS_io_submit, self.id, list.len(), list.as_ptr()) };
            self.submits += 1;
            ensure!(ret > 0, "io_submit: {}", io::Error::last_os_error());
            left = &left[ret as usize..];
        }
        self.prepared.clear();
        let (room, none) = (self.events.len(), std::ptr::null::<libc::timespec>());
        // SAFETY: room for as many events as are asked for; no timeout.
        let ret = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.id, 1usize, room, self.events.as_mut_ptr(), none)
        };
        self.waits += 1;
        let count = usize::try_from(ret).ok().context("io_getevents failed")?;
        for event in &self.events[..count] {
            done(event.data as usize, event.result as isize);
        }
        Ok(())
    }

    fn calls(&self) -> Value {
        json!({"io_setup": 1, "io_submit": self.submits, "io_getevents": self.waits})
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: set up by `new`; waits for what is in flight, so that no buffer is written to afterwards.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}
