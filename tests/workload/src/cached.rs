//! Many small cached files, each opened, read by one call and closed: nothing that is not file work, and no clock
//! between the calls.
//!
//! A first line says that the files are there. Each line on stdin is a pass, in which new workers share all files and
//! read each once; then the truth is told, with `ns`, the time from the first fork until all workers have ended.

use std::ffi::CStr;
use std::io::BufRead;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::scratch::{Scratch, make_file};
use crate::stage::{Stage, Start};
use crate::sys::{self, path};
use crate::tally::Tally;
use crate::truth;

/// Files a folder.
const PER_FOLDER: u64 = 1000;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the files: a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Files.
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Bytes a file.
    #[arg(long, default_value_t = 16384)]
    size: usize,
    /// Worker processes of a pass.
    #[arg(long, default_value_t = 8)]
    workers: usize,
}

/// Makes the files and has them read as often as stdin says.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.workers > 0, "nobody reads");
    let scratch = Scratch::new(&args.dir, "cached")?;
    let mut paths = Vec::new();
    for number in 0..args.files {
        let folder = scratch.path().join(format!("{:04}", number / PER_FOLDER));
        if number % PER_FOLDER == 0 {
            std::fs::create_dir(&folder)?;
        }
        let path = folder.join(format!("{number:06}"));
        make_file(&path, args.size as u64)?;
        paths.push(crate::counted::c_path(&path)?);
    }
    truth::print("cached", &[], json!({"ready": true}))?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let start = Instant::now();
        let mut stage = Stage::new("cached", &Start { hold: false })?;
        for worker in 0..args.workers {
            stage.add(b"reader", || read(paths.iter().skip(worker).step_by(args.workers), args.size))?;
        }
        let told = stage.run()?;
        let ns = start.elapsed().as_nanos() as u64;
        stage.tell(&told, json!({"files": args.files, "size": args.size, "ns": ns}))?;
    }
    Ok(())
}

fn read(paths: impl Iterator<Item = impl AsRef<CStr>>, size: usize) -> Result<Tally> {
    let mut buffer = vec![0; size];
    let mut files = 0;
    for path in paths {
        let moved = open_read_close(path.as_ref(), &mut buffer)?;
        ensure!(moved == size, "a read of {moved} bytes");
        files += 1;
    }
    let mut tally = Tally::default();
    tally.read.add_many("read", size as u64, files);
    for (op, form) in [("open", "openat"), ("close", "close")] {
        let calls = tally.meta.entry(op).or_default();
        calls.count = files;
        calls.forms.insert(form, files);
    }
    Ok(tally)
}

/// Opens a file, fills as much of `buffer` as one read does, and closes it. Returns the bytes.
pub fn open_read_close(path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let fd = path::open("openat", path, libc::O_RDONLY | libc::O_CLOEXEC);
    ensure!(fd >= 0, "openat of {path:?} returned {fd}");
    let moved = sys::read(&(fd as RawFd), buffer);
    let closed = path::close(fd as RawFd);
    ensure!(moved >= 0 && closed == 0, "read returned {moved}, close {closed}");
    Ok(moved as usize)
}
