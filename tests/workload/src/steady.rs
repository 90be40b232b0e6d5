//! Cached reads by one thread, timed by the thread itself: what one read, or one open, read and close, costs with or
//! without a tracer.
//!
//! Each line on stdin is a number of milliseconds: it reads that long and prints one JSON line,
//! `{"ns": median, "low": first decile, "reads": count}`, in nanoseconds a read over batches of reads. A batch in which
//! another program had the CPU is an outlier, so the median is that of undisturbed reads.

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cached::open_read_close;
use crate::scratch::Scratch;
use crate::sys;

/// Size of the file: small enough to stay cached.
const FILE_SIZE: usize = 1 << 20;
/// Reads between two looks at the clock: short against a time slice of the scheduler, long against a clock read.
const BATCH: u64 = 200;
/// Time between two batches' starts when paced.
const PACE: Duration = Duration::from_millis(1);

/// Makes a file of its own in `dir`, pins itself to `cpu`, and does what stdin says until it ends. With a `rate`, in
/// reads a second, it sleeps between batches. With `open` the file is of one read's size, and each read opens and closes
/// it.
pub fn run(dir: &Path, cpu: Option<usize>, size: usize, rate: Option<u64>, open: bool) -> Result<()> {
    ensure!(size > 0 && size <= FILE_SIZE, "a read of {size} bytes");
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let mut buffer = vec![0; size];
    if open {
        let scratch = Scratch::new(dir, "steady")?;
        scratch.file("small", size as u64)?;
        let path = scratch.at("small")?;
        return obey(rate, |_| {
            let read = open_read_close(&path, &mut buffer);
            assert_eq!(read.expect("open and close"), size, "read");
        });
    }
    let path = dir.join(format!("steady-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let mut file = file.with_context(|| path.display().to_string())?;
    std::fs::remove_file(&path)?;
    file.write_all(&vec![0xa5; FILE_SIZE])?;
    let blocks = (FILE_SIZE / size) as u64;
    obey(rate, |call| {
        let ret = sys::pread64(&file, &mut buffer, call % blocks * size as u64);
        assert_eq!(ret, size as isize, "pread64");
    })
}

/// Reads when told to, and tells. A read is told its number in the batch.
fn obey(rate: Option<u64>, mut read: impl FnMut(u64)) -> Result<()> {
    let batch = rate.map_or(BATCH, |rate| (rate / 1000).max(1));
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let millis = line.trim().parse().with_context(|| format!("not milliseconds: {line:?}"))?;
        let mut batches = read_for(Duration::from_millis(millis), batch, rate.is_some(), &mut read);
        ensure!(!batches.is_empty(), "no time to read");
        batches.sort_unstable();
        let at = |tenths: usize| batches[(batches.len() - 1) * tenths / 10] as f64 / batch as f64;
        let said = json!({"ns": at(5), "low": at(1), "reads": batches.len() as u64 * batch});
        println!("{said}");
    }
    Ok(())
}

/// Nanoseconds of each batch.
fn read_for(time: Duration, batch: u64, paced: bool, read: &mut impl FnMut(u64)) -> Vec<u64> {
    let mut batches = Vec::with_capacity(1 << 16);
    let start = Instant::now();
    let mut next = start;
    while start.elapsed() < time {
        let began = Instant::now();
        for call in 0..batch {
            read(call);
        }
        batches.push(began.elapsed().as_nanos() as u64);
        if paced {
            next += PACE;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    batches
}

fn pin(cpu: usize) -> Result<()> {
    // SAFETY: plain old data; the call reads a set of the size given.
    let ret = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    sys::check(ret).with_context(|| format!("cannot run on CPU {cpu} alone")).map(drop)
}
