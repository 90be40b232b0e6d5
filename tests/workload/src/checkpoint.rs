//! One large file written as a checkpoint is: by writev of a few MiB, with fsync now and then and at the end.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::tally::Tally;
use crate::{child, sys, truth};

/// Bytes a writev: four buffers of 1 MiB.
const PIECE: usize = 4 << 20;
/// Bytes between fsyncs.
const SYNC_EVERY: u64 = 64 << 20;

/// Writes `mib` MiB to `path` in one child and tells.
pub fn run(path: &Path, mib: u64) -> Result<()> {
    let told = child::run(b"checkpoint", || write(path, mib))?;
    truth::print("checkpoint", &[told], json!({"bytes": mib << 20}))
}

/// Writes `mib` MiB to `path`, replacing it.
pub fn write(path: &Path, mib: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let buffer = vec![0xc4; PIECE];
    let total = mib << 20;
    let (mut left, mut unsynced, mut fsyncs) = (total, 0, 0u64);
    while left > 0 {
        let piece = &buffer[..PIECE.min(left as usize)];
        let quarters: Vec<&[u8]> = piece.chunks(piece.len().div_ceil(4)).collect();
        let ret = sys::writev(&file, &quarters);
        tally.write.add("writev", piece.len(), ret);
        ensure!(ret > 0, "writev returned {ret}");
        left -= ret as u64;
        unsynced += ret as u64;
        if unsynced >= SYNC_EVERY || left == 0 {
            file.sync_all()?;
            fsyncs += 1;
            unsynced = 0;
        }
    }
    tally.file_sizes = vec![total];
    tally.extra.insert("fsyncs".into(), fsyncs.into());
    Ok(tally)
}
