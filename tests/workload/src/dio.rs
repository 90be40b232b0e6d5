//! Sequential O_DIRECT transfers on a file or a block device, by one child named `dio`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cli::Direction;
use crate::tally::Tally;
use crate::{child, sys, truth};

/// Moves `count` blocks of `size` bytes, each thread with one transfer in flight and every `threads`-th block.
pub fn run(path: &Path, direction: Direction, count: u64, size: usize, threads: u64) -> Result<()> {
    let told = child::run(b"dio", || {
        let file = OpenOptions::new()
            .read(direction == Direction::Read)
            .write(direction == Direction::Write)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .with_context(|| path.display().to_string())?;
        let work = |thread: u64| transfer(&file, direction, (thread..count).step_by(threads as usize), size);
        let tallies: Vec<Result<Tally>> = if threads == 1 {
            vec![work(0)]
        } else {
            std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
                handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
            })
        };
        ensure!(tallies.len() as u64 == threads, "a thread panicked");
        let mut total = Tally::default();
        for tally in tallies {
            total.merge(&tally?);
        }
        let metadata = file.metadata()?;
        if !metadata.file_type().is_block_device() {
            total.file_sizes = vec![metadata.len()];
        }
        Ok(total)
    })?;
    truth::print("dio", &[told], json!({"count": count, "size": size}))
}

fn transfer(
    file: &File,
    direction: Direction,
    blocks: impl Iterator<Item = u64>,
    size: usize,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut buffer = Aligned::new(size)?;
    for block in blocks {
        let offset = block * size as u64;
        let ret = match direction {
            Direction::Read => sys::pread64(file, buffer.bytes(), offset),
            Direction::Write => sys::pwrite64(file, buffer.bytes(), offset),
        };
        ensure!(ret == size as isize, "block {block} returned {ret}");
        match direction {
            Direction::Read => tally.read.add("pread64", size, ret),
            Direction::Write => tally.write.add("pwrite64", size, ret),
        }
    }
    Ok(tally)
}

/// A page-aligned buffer, as O_DIRECT wants it.
pub struct Aligned(*mut u8, Layout);

impl Aligned {
    /// A buffer of `size` bytes, all 0.
    pub fn new(size: usize) -> Result<Self> {
        ensure!(size > 0, "a transfer of 0 bytes");
        let layout = Layout::from_size_align(size, 4096)?;
        // SAFETY: the size is not 0.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Self(at, layout))
    }

    /// Where it lies, for the kernel to fill while nothing else looks.
    pub fn address(&self) -> *mut u8 {
        self.0
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated with this size, zeroed, and borrowed mutably through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1.size()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.0, self.1) };
    }
}
