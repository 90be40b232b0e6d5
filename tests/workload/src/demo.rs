//! A small training job to look at: loader workers read small files cold while a checkpoint is written. Says what it
//! does on stderr; stdout stays empty, it is the report's.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::small_files::{self, Plan};
use crate::{checkpoint, child};

/// Creates the files in a process named `prepare` if absent, then runs `workers` loader workers named
/// `pt_data_worker` over them beside one process named `checkpoint`.
pub fn run(dir: &Path, files: u64, workers: u64, checkpoint_mib: u64) -> Result<()> {
    let plan = Plan { files, workers, seed: 1 };
    let data = dir.join("train");
    let start = Instant::now();
    child::run(b"prepare", || small_files::prepare(&data, &plan))?;
    let prepared = start.elapsed();
    let mut children = small_files::start_workers(&data, &plan, b"pt_data_worker")?;
    let path = dir.join("checkpoint.pt");
    children.push(child::fork(b"checkpoint", || checkpoint::plain(&path, checkpoint_mib << 20))?);
    for running in children {
        running.join()?;
    }
    eprintln!(
        "demo job: {workers} workers read {files} files, 1 process wrote {checkpoint_mib} MiB with fsync, in {:.1} s (after {:.1} s of preparing)",
        (start.elapsed() - prepared).as_secs_f64(),
        prepared.as_secs_f64(),
    );
    Ok(())
}
