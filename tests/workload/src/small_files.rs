//! Many small files of lognormal size (the sizes of ImageNet), read cold by forked workers the way an image loader
//! reads them: open, fstat, two lseeks, a read of 4 KiB, a read of the rest, a read that returns 0.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::rng::Rng;
use crate::tally::Tally;
use crate::{child, sys, truth};

/// Median and sigma of the file sizes in bytes: ImageNet's.
const MEDIAN: f64 = 94_000.0;
const SIGMA: f64 = 0.55;
/// Files a folder, as a data set has its classes.
const PER_FOLDER: u64 = 250;
/// First read of a buffered reader, in bytes.
const FIRST: usize = 4096;

/// What to create and read.
pub struct Plan {
    /// Files.
    pub files: u64,
    /// Worker processes.
    pub workers: u64,
    /// Seed of the sizes and of the order.
    pub seed: u64,
}

/// Creates the files if absent, drops them from the cache, has the workers read them all once, and tells.
pub fn run(dir: &Path, plan: &Plan, prepare_only: bool) -> Result<()> {
    let prepared = child::run(b"prepare", || prepare(dir, plan))?;
    if prepare_only {
        return truth::print("small-files", &[prepared], json!({"files": plan.files}));
    }
    let workers = start_workers(dir, plan, b"pt_data_worker")?;
    let mut told = workers.into_iter().map(child::Child::join).collect::<Result<Vec<_>>>()?;
    told.push(prepared);
    truth::print("small-files", &told, json!({"files": plan.files, "bytes": sizes(plan).iter().sum::<u64>()}))
}

/// Creates what is missing of the files, writes everything to the device and drops it from the cache.
pub fn prepare(dir: &Path, plan: &Plan) -> Result<Tally> {
    let mut tally = Tally::default();
    let sizes = sizes(plan);
    let buffer = vec![0x5a; sizes.iter().copied().max().unwrap_or(0) as usize];
    let paths = paths(dir, plan);
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for (path, &size) in paths.iter().zip(&sizes) {
        if fs::metadata(path).is_ok_and(|metadata| metadata.len() == size) {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        let mut file = File::create(path).with_context(|| path.display().to_string())?;
        file.write_all(&buffer[..size as usize])?;
        tally.write.add("write", size as usize, size as isize);
        tally.file_sizes.push(size);
    }
    sys::sync_fs(&File::open(dir)?)?;
    for path in &paths {
        sys::drop_cache(&File::open(path)?)?;
    }
    Ok(tally)
}

/// Forks the workers; each reads its share of the files in shuffled order.
pub fn start_workers(dir: &Path, plan: &Plan, name: &[u8]) -> Result<Vec<child::Child>> {
    let mut paths = paths(dir, plan);
    Rng::new(plan.seed ^ 0x5eed).shuffle(&mut paths);
    let work = |worker: u64| -> Result<Tally> {
        let mut tally = Tally::default();
        for path in paths.iter().skip(worker as usize).step_by(plan.workers as usize) {
            read_whole(path, &mut tally).with_context(|| path.display().to_string())?;
        }
        Ok(tally)
    };
    (0..plan.workers).map(|worker| child::fork(name, || work(worker))).collect()
}

fn read_whole(path: &Path, tally: &mut Tally) -> Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.stream_position()?;
    file.rewind()?;
    let mut first = [0; FIRST];
    let ret = sys::read(&file, &mut first);
    tally.read.add("read", FIRST, ret);
    // One byte more than is left, as a reader does that wants to see the end.
    let mut rest = vec![0; (size.saturating_sub(FIRST as u64) + 1) as usize];
    loop {
        let ret = sys::read(&file, &mut rest);
        ensure!(ret >= 0, "read returned {ret}");
        tally.read.add("read", rest.len(), ret);
        if ret == 0 {
            break;
        }
    }
    tally.file_sizes.push(size);
    Ok(())
}

fn sizes(plan: &Plan) -> Vec<u64> {
    let mut rng = Rng::new(plan.seed);
    (0..plan.files).map(|_| rng.lognormal(MEDIAN, SIGMA) as u64).collect()
}

fn paths(dir: &Path, plan: &Plan) -> Vec<PathBuf> {
    let path =
        |number: u64| dir.join(format!("class-{:03}", number / PER_FOLDER)).join(format!("{number:06}.jpg"));
    (0..plan.files).map(path).collect()
}
