//! A folder of one run's own inside `--dir`, removed with all it holds when the run is over.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::counted::c_path;

/// The folder `NAME-PID`, or one named like it. Forked children end without destructors, so only the process that made it removes it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    pub fn new(dir: &Path, name: &str) -> Result<Self> {
        let dir = dir.canonicalize().with_context(|| dir.display().to_string())?;
        let pid = std::process::id();
        // Two pid namespaces that share the folder may have the same pid.
        for attempt in 0.. {
            let path = dir.join(if attempt == 0 {
                format!("{name}-{pid}")
            } else {
                format!("{name}-{pid}-{attempt}")
            });
            match fs::create_dir(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                result => {
                    result.with_context(|| path.display().to_string())?;
                    return Ok(Self(path));
                }
            }
        }
        unreachable!("one of the names is free")
    }

    /// Its path, absolute.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of `name` inside, for a system call.
    pub fn at(&self, name: &str) -> Result<CString> {
        c_path(&self.0.join(name))
    }

    /// Makes a file of `size` bytes inside, all written, and returns its path.
    pub fn file(&self, name: &str, size: u64) -> Result<PathBuf> {
        let path = self.0.join(name);
        make_file(&path, size)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("iotrace-workload: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Writes a file of `size` bytes, by writes of at most 1 MiB.
pub fn make_file(path: &Path, size: u64) -> Result<()> {
    use std::io::Write;
    let mut file = fs::File::create(path).with_context(|| path.display().to_string())?;
    let block = vec![0x5a; size.min(1 << 20) as usize];
    let mut left = size as usize;
    while left > 0 {
        let piece = &block[..left.min(block.len())];
        file.write_all(piece).with_context(|| path.display().to_string())?;
        left -= piece.len();
    }
    Ok(())
}
