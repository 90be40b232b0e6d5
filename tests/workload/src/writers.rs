//! Concurrent buffered writers, each to a file of its own, which wait for the device: one fsync at the end, or
//! O_DSYNC at every write.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::tally::Tally;
use crate::{child, sys, truth};

/// Forks `procs` children named `writer-N` that write `mib` MiB each in writes of `size` bytes.
pub fn run(dir: &Path, procs: u64, mib: u64, size: usize, dsync: bool) -> Result<()> {
    let bytes = mib << 20;
    ensure!(bytes.is_multiple_of(size as u64), "{size} does not divide {mib} MiB");
    let write_one = |number: u64| -> Result<Tally> {
        let mut tally = Tally::default();
        let path = dir.join(format!("writer-{number}"));
        let flags = if dsync { libc::O_DSYNC } else { 0 };
        let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        let buffer = vec![number as u8; size];
        for _ in 0..bytes / size as u64 {
            let ret = sys::write(&file, &buffer);
            ensure!(ret == size as isize, "write returned {ret}");
            tally.write.add("write", size, ret);
        }
        if !dsync {
            file.sync_all()?;
        }
        tally.file_sizes = vec![bytes];
        Ok(tally)
    };
    let mut writers = Vec::new();
    for number in 0..procs {
        writers.push(child::fork(format!("writer-{number}").as_bytes(), || write_one(number))?);
    }
    let told = writers.into_iter().map(child::Child::join).collect::<Result<Vec<_>>>()?;
    truth::print("writers", &told, json!({"bytes": procs * bytes, "size": size}))
}
