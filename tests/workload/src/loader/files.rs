//! The files of a loader: their sizes and places, made once and found again.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::sizes;
use crate::counted::c_path;
use crate::rng::Rng;
use crate::sys;

/// Sigma of the sizes' logarithm: ImageNet's.
const SIGMA: f64 = 0.55;
/// Files a class folder, as long as there are no more than [`MOST_CLASSES`].
const PER_CLASS: u64 = 100;
/// ImageNet's classes.
const MOST_CLASSES: u64 = 1000;
/// Remembers, inside the folder, the plan that its files were made by.
const MANIFEST: &str = ".loader.json";

/// What the files are.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// Files.
    pub files: u64,
    /// Mean size in bytes.
    pub mean_bytes: u64,
    /// Seed of the sizes and of the order.
    pub seed: u64,
}

impl Plan {
    /// The sizes in bytes, in order of the paths.
    pub fn sizes(&self) -> Vec<u64> {
        let mut rng = Rng::new(self.seed);
        // The mean of a lognormal is its median times exp(sigma^2 / 2).
        let median = self.mean_bytes as f64 / (SIGMA * SIGMA / 2.0).exp();
        (0..self.files).map(|_| rng.lognormal(median, SIGMA) as u64).collect()
    }

    fn classes(&self) -> u64 {
        self.files.div_ceil(PER_CLASS).clamp(1, MOST_CLASSES)
    }

    fn paths(&self, dir: &Path) -> impl Iterator<Item = PathBuf> {
        let (dir, files, classes) = (dir.to_owned(), self.files, self.classes());
        (0..files).map(move |number| {
            let class = number * classes / files;
            dir.join(format!("n{class:08}")).join(format!("n{class:08}_{number}.JPEG"))
        })
    }

    /// The paths, for system calls.
    pub fn c_paths(&self, dir: &Path) -> Result<Vec<CString>> {
        self.paths(dir).map(|path| c_path(&path)).collect()
    }

    /// Makes the class folders and the files, one write each.
    pub fn make(&self, dir: &Path) -> Result<()> {
        for class in 0..self.classes() {
            fs::create_dir_all(dir.join(format!("n{class:08}")))?;
        }
        let sizes = self.sizes();
        let buffer = vec![0x5a; sizes.iter().copied().max().unwrap_or(0) as usize];
        for (path, size) in self.paths(dir).zip(sizes) {
            let mut file = File::create(&path).with_context(|| path.display().to_string())?;
            file.write_all(&buffer[..size as usize]).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Remembers the plan beside the files.
    pub fn keep(&self, dir: &Path) -> Result<()> {
        let plan = json!({"files": self.files, "mean_bytes": self.mean_bytes, "seed": self.seed});
        fs::write(dir.join(MANIFEST), plan.to_string()).context("writing the manifest")
    }

    /// The plan of files made before.
    pub fn kept(dir: &Path) -> Result<Self> {
        let path = dir.join(MANIFEST);
        let text =
            fs::read(&path).with_context(|| format!("{}: not made by --prepare-only", path.display()))?;
        let plan: Value = serde_json::from_slice(&text)?;
        let number = |key: &str| plan[key].as_u64().with_context(|| format!("{}: no {key}", path.display()));
        Ok(Self { files: number("files")?, mean_bytes: number("mean_bytes")?, seed: number("seed")? })
    }

    /// The truth of the files.
    pub fn json(&self) -> Value {
        let sizes = self.sizes();
        json!({
            "files": self.files, "classes": self.classes(), "mean_bytes": self.mean_bytes, "seed": self.seed,
            "file_bytes": sizes.iter().sum::<u64>(),
            "files_by_size": sizes::by_class(&sizes), "file_size_buckets": sizes::by_bucket(&sizes),
        })
    }
}

/// Writes the files to the device and drops them from memory; returns what else could be dropped.
pub fn drop_caches(paths: &[CString], dir: &Path) -> Result<&'static str> {
    use std::os::unix::ffi::OsStrExt;
    sys::sync_fs(&File::open(dir)?)?;
    for path in paths {
        sys::drop_cache(&File::open(std::ffi::OsStr::from_bytes(path.as_bytes()))?)?;
    }
    // 2: unused dentries and inodes, so that the first open waits for the device too.
    Ok(if fs::write("/proc/sys/vm/drop_caches", "2").is_ok() { "pages, dentries, inodes" } else { "pages" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_planned_mean() {
        let plan = Plan { files: 20_000, mean_bytes: 110_000, seed: 3 };
        let mean = plan.sizes().iter().sum::<u64>() as f64 / 20_000.0;
        assert!((mean / 110_000.0 - 1.0).abs() < 0.02, "mean {mean}");
    }

    #[test]
    fn files_are_spread_over_at_most_a_thousand_classes() {
        let classes = |files| Plan { files, mean_bytes: 1, seed: 1 }.classes();
        assert_eq!([1, 100, 101, 100_000, 1_281_167].map(classes), [1, 1, 2, 1000, 1000]);
        let plan = Plan { files: 250, mean_bytes: 1, seed: 1 };
        let last = plan.paths(Path::new("/d")).last();
        assert_eq!(last, Some("/d/n00000002/n00000002_249.JPEG".into()));
    }
}
