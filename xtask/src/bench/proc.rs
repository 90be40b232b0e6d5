//! What /proc says of a process, and of the machine.

use std::{fs, thread::sleep, time::Duration};

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

/// Share of its CPUs' time that the machine is busy, or gives to other machines, over a second.
pub fn busy_ratio() -> Result<f64> {
    let before = busy_and_all()?;
    sleep(Duration::from_secs(1));
    let after = busy_and_all()?;
    Ok((after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64)
}

/// Ticks of all CPUs since boot: not idle, and all. See proc(5): idle and iowait are the fourth and fifth.
fn busy_and_all() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    // The last two are counted in the first two already.
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let all = ticks.iter().sum();
    Ok((all - ticks.iter().skip(3).take(2).sum::<u64>(), all))
}
