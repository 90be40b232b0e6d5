//! Cached preads at full rate: processes of threads, for a given time.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::tally::Tally;
use crate::{child, sys, truth};

/// Size of each process's file: small enough to stay cached, sparse, so that nothing is read from a device.
const FILE_SIZE: u64 = 1 << 20;

/// Forks `procs` children named `reader-N` whose `threads` threads read `size` bytes at a time for `seconds`.
pub fn run(dir: &Path, procs: u64, threads: u64, seconds: f64, size: usize) -> Result<()> {
    ensure!(size > 0 && size as u64 <= FILE_SIZE, "a read of {size} bytes");
    let until = Instant::now() + Duration::try_from_secs_f64(seconds)?;
    let read_all = |number: u64| -> Result<Tally> {
        let path = dir.join(format!("reader-{number}"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        file.set_len(FILE_SIZE)?;
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let handles: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| read_until(&file, size, until))).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
        });
        ensure!(counts.len() as u64 == threads, "a thread failed");
        let mut tally = Tally::default();
        tally.read.add_many("pread64", size as u64, counts.iter().sum());
        tally.file_sizes = vec![FILE_SIZE];
        Ok(tally)
    };
    let mut readers = Vec::new();
    for number in 0..procs {
        readers.push(child::fork(format!("reader-{number}").as_bytes(), || read_all(number))?);
    }
    let told = readers.into_iter().map(child::Child::join).collect::<Result<Vec<_>>>()?;
    truth::print("readers", &told, json!({"seconds": seconds, "size": size}))
}

/// Reads until the time is over and returns how often; every read moves all it asked for.
fn read_until(file: &File, size: usize, until: Instant) -> u64 {
    let mut buffer = vec![0; size];
    let blocks = FILE_SIZE / size as u64;
    let mut count = 0;
    while Instant::now() < until {
        for _ in 0..256 {
            let ret = sys::pread64(file, &mut buffer, count % blocks * size as u64);
            assert_eq!(ret, size as isize, "pread64");
            count += 1;
        }
    }
    count
}
