//! What /proc says of a process.

use std::fs;

use anyhow::{Context as _, Result};

/// Nanoseconds on a CPU of all threads that live.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut total = 0;
    for task in fs::read_dir(&folder).with_context(|| folder.clone())?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat"))?;
        let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        total += first.context("no CPU time in schedstat")?;
    }
    Ok(total)
}

/// VmHWM: largest resident set, in KiB. Not what wait4 tells: that also holds the memory of the process that forked.
pub fn peak_resident_kib(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
