//! Transfers kept in flight by one thread: io_uring, and the kernel's own AIO (io_submit), by one child named as the
//! subcommand. Each transfer's latency is taken here, from just before its submission to its being reaped.

mod aio;
mod failing;
mod uring;

use std::ffi::CStr;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::RawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::counted::c_path;
use crate::dio::Aligned;
use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::sys;
use crate::tally::Tally;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the file, which holds reads x size bytes and is dropped from memory; a folder of its own is made
    /// inside and removed.
    #[arg(long, required_unless_present = "file")]
    dir: Option<PathBuf>,
    /// File or block device to use instead, from its start; begun again where it ends.
    #[arg(long, conflicts_with = "dir")]
    file: Option<PathBuf>,
    /// Transfers.
    #[arg(long, default_value_t = 1000)]
    reads: u64,
    /// Bytes a transfer.
    #[arg(long, default_value_t = 16384)]
    size: usize,
    /// Transfers in flight.
    #[arg(long, default_value_t = 8)]
    depth: usize,
    /// Past the page cache (O_DIRECT).
    #[arg(long)]
    direct: bool,
    /// Write instead of read.
    #[arg(long)]
    write: bool,
    /// So many reads of each kind that fails, and as many that do not, one at a time, instead of --reads.
    #[arg(long, conflicts_with_all = ["write", "file"])]
    failing: Option<u64>,
    #[command(flatten)]
    start: Start,
}

/// Which interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// io_uring.
    Uring,
    /// io_setup, io_submit, io_getevents.
    Aio,
}

/// One of the interfaces, set up. A slot is the number of a transfer in flight.
trait Queue {
    /// Prepares a transfer in `slot`, which is free until then, and again once the transfer is reaped.
    ///
    /// # Safety
    /// Until then the buffer lives and nothing else uses it, unless the kernel refuses its address.
    unsafe fn push(&mut self, slot: usize, transfer: Transfer) -> Result<()>;
    /// Submits what was prepared, waits for at least one transfer, and hands each one's slot and result to `done`.
    fn submit_and_reap(&mut self, done: &mut dyn FnMut(usize, isize)) -> Result<()>;
    /// System calls made so far, by name.
    fn calls(&self) -> serde_json::Value;
}

/// What to move.
#[derive(Clone, Copy)]
struct Transfer {
    fd: RawFd,
    write: bool,
    address: *mut u8,
    bytes: usize,
    offset: u64,
}

/// The file, and a buffer for each slot. The buffers outlive every transfer: the queue is dropped before them.
struct Target {
    fd: RawFd,
    write: bool,
    size: usize,
    buffers: Vec<Aligned>,
}

/// Why an interface cannot be had here.
struct Lacking(&'static str, std::io::Error);

/// Makes the transfers and tells.
pub fn run(interface: Interface, args: &Args) -> Result<()> {
    ensure!(args.depth > 0 && args.size > 0, "no transfer fits in");
    let scratch = args.dir.as_deref().map(|dir| Scratch::new(dir, interface.name())).transpose()?;
    let path = match (&args.file, &scratch) {
        (Some(file), _) => file.clone(),
        (None, Some(scratch)) => {
            let path = scratch.file("data", args.reads * args.size as u64)?;
            let file = File::open(&path)?;
            file.sync_all()?;
            sys::drop_cache(&file)?;
            path
        }
        (None, None) => unreachable!("clap requires one"),
    };
    let (end, at) = (End::of(&path)?, c_path(&path)?);
    ensure!(end.bytes >= args.size as u64, "{} holds no {} bytes", path.display(), args.size);
    let mut stage = Stage::new(interface.name(), &args.start)?;
    stage.add(interface.name().as_bytes(), || match args.failing {
        Some(rounds) => failing::work(interface, &at, end.bytes, args.direct, rounds),
        None => work(interface, &at, end, args),
    })?;
    let told = stage.run()?;
    let extra = json!({
        "path": path, "count": args.reads, "size": args.size, "depth": args.depth, "direct": args.direct,
        "op": if args.write { "write" } else { "read" },
    });
    stage.tell(&told, extra)
}

impl Interface {
    fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Aio => "aio",
        }
    }

    /// What a transfer is counted as.
    fn form(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Aio => "aio",
        }
    }

    /// Sets it up for `depth` transfers in flight.
    fn queue(self, depth: usize) -> Result<Box<dyn Queue>, Lacking> {
        Ok(match self {
            Self::Uring => Box::new(uring::Ring::new(depth)?),
            Self::Aio => Box::new(aio::Context::new(depth)?),
        })
    }
}

impl Lacking {
    /// Tells it in the place of what would have been done.
    fn tell(self, tally: &mut Tally) {
        let Self(call, error) = self;
        tally.unsupported.insert(call);
        tally.extra.insert("reason".into(), format!("{call}: {error}").into());
    }
}

fn work(interface: Interface, path: &CStr, end: End, args: &Args) -> Result<Tally> {
    let mut tally = Tally::default();
    let access = if args.write { libc::O_WRONLY } else { libc::O_RDONLY };
    let direct = if args.direct { libc::O_DIRECT } else { 0 };
    let fd = tally.open(path, access | direct | libc::O_CLOEXEC)?;
    let buffers = (0..args.depth).map(|_| Aligned::new(args.size)).collect::<Result<_>>()?;
    let target = Target { fd, write: args.write, size: args.size, buffers };
    if !end.device {
        tally.file_sizes = vec![end.bytes];
    }
    match interface.queue(args.depth) {
        Ok(mut queue) => {
            let blocks = end.bytes / args.size as u64;
            transfer(interface, queue.as_mut(), &target, args.reads, blocks, &mut tally)?;
            // Nothing is in flight. The process's end closes the ring: a close of the library's is not counted.
            std::mem::forget(queue);
        }
        Err(lacking) => lacking.tell(&mut tally),
    }
    tally.close(fd)?;
    Ok(tally)
}

/// How far the target reaches.
#[derive(Clone, Copy)]
struct End {
    bytes: u64,
    device: bool,
}

impl End {
    fn of(path: &Path) -> Result<Self> {
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        let device = file.metadata()?.file_type().is_block_device();
        Ok(Self { bytes: file.seek(SeekFrom::End(0))?, device })
    }
}

fn transfer(
    interface: Interface,
    queue: &mut dyn Queue,
    target: &Target,
    count: u64,
    blocks: u64,
    tally: &mut Tally,
) -> Result<()> {
    let depth = target.buffers.len();
    let mut free: Vec<usize> = (0..depth).collect();
    let mut started = vec![Instant::now(); depth];
    let (mut next, mut done, mut latency) = (0, 0, Latency::default());
    while done < count {
        while next < count
            && let Some(slot) = free.pop()
        {
            started[slot] = Instant::now();
            // SAFETY: the buffer of the slot lives as long as the target, which outlives the queue; no other transfer
            // uses it, because a slot is free only before its transfer and once that is reaped.
            unsafe { queue.push(slot, target.transfer(slot, next % blocks))? };
            next += 1;
        }
        let op = if target.write { &mut tally.write } else { &mut tally.read };
        queue.submit_and_reap(&mut |slot, ret| {
            latency.add(started[slot].elapsed().as_nanos() as u64);
            op.add(interface.form(), target.size, ret);
            free.push(slot);
            done += 1;
        })?;
        ensure!(op.errors.is_empty() && op.short == 0 && op.eof == 0, "a transfer failed: {:?}", op.errors);
    }
    tally.extra.insert("latency".into(), latency.json());
    tally.extra.insert("calls".into(), queue.calls());
    Ok(())
}

impl Target {
    /// Of one block with the buffer of `slot`.
    fn transfer(&self, slot: usize, block: u64) -> Transfer {
        Transfer {
            fd: self.fd,
            write: self.write,
            address: self.buffers[slot].address(),
            bytes: self.size,
            offset: block * self.size as u64,
        }
    }
}

/// Latencies in nanoseconds.
#[derive(Default)]
struct Latency {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Latency {
    fn add(&mut self, ns: u64) {
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum += ns;
    }

    fn json(&self) -> serde_json::Value {
        let mean = self.sum.checked_div(self.count).unwrap_or(0);
        json!({"count": self.count, "min_ns": self.min, "mean_ns": mean, "max_ns": self.max})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_latency_is_that_of_a_transfer() {
        let mut latency = Latency::default();
        for ns in [30, 10, 20] {
            latency.add(ns);
        }
        assert_eq!(latency.json(), json!({"count": 3, "min_ns": 10, "mean_ns": 20, "max_ns": 30}));
    }
}
