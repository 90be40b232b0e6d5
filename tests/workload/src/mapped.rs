//! A mapped file read page by page, by one child named `mapped`: bytes that no read(2) ever moves. The file is dropped
//! from memory before, so that the faults wait for the device.

use std::fs::File;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::sys;
use crate::tally::Tally;

const PAGE: usize = 4096;

/// What madvise is told of the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Advice {
    /// Nothing: no madvise.
    None,
    /// MADV_SEQUENTIAL: reads far ahead.
    Sequential,
    /// MADV_RANDOM: reads nothing ahead, so that every page is a major fault.
    Random,
}

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the file; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    /// MiB of the file.
    #[arg(long, default_value_t = 64)]
    mib: u64,
    /// Advice on the mapping.
    #[arg(long, default_value = "none")]
    advise: Advice,
    /// Leave the file in memory: no major faults.
    #[arg(long)]
    warm: bool,
    #[command(flatten)]
    start: Start,
}

/// Makes the file, has it read, and tells.
pub fn run(args: &Args) -> Result<()> {
    let scratch = Scratch::new(&args.dir, "mapped")?;
    let path = scratch.file("model.safetensors", args.mib << 20)?;
    let file = File::open(&path)?;
    file.sync_all()?;
    if !args.warm {
        sys::drop_cache(&file)?;
    }
    let metadata = file.metadata()?;
    drop(file);
    let c_path = scratch.at("model.safetensors")?;
    let mut stage = Stage::new("mapped", &args.start)?;
    stage.add(b"mapped", || {
        let mut tally = Tally::default();
        let fd = tally.open(&c_path, libc::O_RDONLY | libc::O_CLOEXEC)?;
        let mapping = Mapping::new(fd, metadata.len() as usize)?;
        mapping.advise(args.advise)?;
        let cached = mapping.cached_pages()?;
        let (before, start) = (faults()?, Instant::now());
        let pages = mapping.touch();
        let (ns, after) = (start.elapsed().as_nanos() as u64, faults()?);
        drop(mapping);
        tally.close(fd)?;
        let touched = json!({
            "pages": pages, "major_faults": after.0 - before.0, "minor_faults": after.1 - before.1,
            "cached_pages_before": cached, "ns": ns,
        });
        tally.extra.insert("mapped".into(), touched);
        Ok(tally)
    })?;
    let told = stage.run()?;
    let (dev, inode) = (metadata.dev(), metadata.ino());
    let extra = json!({
        "path": path, "bytes": metadata.len(), "pages": metadata.len().div_ceil(PAGE as u64), "inode": inode,
        "dev": format!("{}:{}", libc::major(dev), libc::minor(dev)),
    });
    stage.tell(&told, extra)
}

/// Major and minor page faults of this process.
fn faults() -> Result<(i64, i64)> {
    // SAFETY: all zeroes is a valid rusage, and getrusage fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a live struct.
    sys::check(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }).context("getrusage")?;
    Ok((usage.ru_majflt, usage.ru_minflt))
}

/// A whole file, mapped shared and for reading.
struct Mapping {
    at: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn new(fd: RawFd, length: usize) -> Result<Self> {
        ensure!(length > 0, "a file of no size");
        // SAFETY: a fresh mapping, no address asked for.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
        ensure!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Ok(Self { at, length })
    }

    fn advise(&self, advice: Advice) -> Result<()> {
        let advice = match advice {
            Advice::None => return Ok(()),
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::Random => libc::MADV_RANDOM,
        };
        // SAFETY: the whole of a live mapping; the advice changes no contents.
        sys::check(unsafe { libc::madvise(self.at, self.length, advice) }).context("madvise").map(drop)
    }

    /// Pages that are in memory already.
    fn cached_pages(&self) -> Result<usize> {
        let mut pages = vec![0u8; self.length.div_ceil(PAGE)];
        // SAFETY: a live mapping, and a byte for each of its pages.
        sys::check(unsafe { libc::mincore(self.at, self.length, pages.as_mut_ptr()) }).context("mincore")?;
        Ok(pages.iter().filter(|&&page| page & 1 == 1).count())
    }

    /// Reads one byte of each page, in order, and returns how many.
    fn touch(&self) -> usize {
        let offsets = (0..self.length).step_by(PAGE);
        for offset in offsets.clone() {
            // SAFETY: inside the mapping, and nobody shortens the file.
            unsafe { self.at.cast::<u8>().add(offset).read_volatile() };
        }
        offsets.len()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.at, self.length) };
    }
}
