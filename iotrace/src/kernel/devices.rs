//! Block devices as sysfs shows them: names, queues, and how many requests each can have in flight.

use iotrace_common::config::GPU_MAJORS;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A whole disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disk {
    /// Kernel name.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Numbers of the partitions.
    pub partitions: Vec<(String, (u32, u32))>,
    /// Device-mapper or md name, file behind a loop device.
    pub alias: Option<String>,
    /// Spins.
    pub rotational: Option<bool>,
    /// Active scheduler.
    pub scheduler: Option<String>,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// Hardware queues.
    pub hardware_queues: u32,
    /// Driver tags of one hardware queue.
    pub tags: u32,
}

/// Major numbers of the character devices of GPUs' drivers, 0 where there are fewer. nvidia-uvm's is given out at run time.
pub fn gpu_majors() -> [u32; GPU_MAJORS] {
    let text = fs::read_to_string("/proc/devices").unwrap_or_default();
    let mut majors = [0; GPU_MAJORS];
    for (place, major) in majors.iter_mut().zip(gpu_majors_in(&text)) {
        *place = major;
    }
    majors
}

fn gpu_majors_in(text: &str) -> impl Iterator<Item = u32> {
    let character = text.split("Block devices:").next().unwrap_or("");
    let devices = character.lines().filter_map(|line| line.trim().split_once(' '));
    let gpu = |name: &str| {
        matches!(name, "nvidia" | "nvidia-frontend" | "nvidia-uvm" | "nvidia-caps" | "nvidiactl" | "kfd")
    };
    let found = devices.filter(move |(_, name)| gpu(name)).filter_map(|(major, _)| major.parse().ok());
    // Two names share the first number.
    let mut majors: Vec<u32> = found.collect();
    majors.sort_unstable();
    majors.dedup();
    majors.into_iter()
}

/// Every disk of this machine.
pub fn disks() -> Vec<Disk> {
    disks_under(Path::new("/sys/block"))
}

fn disks_under(root: &Path) -> Vec<Disk> {
    let mut disks: Vec<_> = folders(root).iter().filter_map(|folder| disk(folder)).collect();
    disks.sort_by_key(|disk| disk.number);
    disks
}

fn folders(at: &Path) -> Vec<PathBuf> {
    fs::read_dir(at).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn text(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

fn number(folder: &Path) -> Option<(u32, u32)> {
    let text = text(folder.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn disk(folder: &Path) -> Option<Disk> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let queue = folder.join("queue");
    let mut hardware_queues = 0;
    let mut tags = 0;
    for hctx in folders(&folder.join("mq")) {
        hardware_queues += 1;
        tags = tags.max(text(hctx.join("nr_tags")).and_then(|t| t.parse().ok()).unwrap_or(0));
    }
    let partitions = folders(folder)
        .iter()
        .filter(|f| f.join("partition").exists())
        .filter_map(|f| Some((f.file_name()?.to_str()?.to_owned(), number(f)?)))
        .collect();
    Some(Disk {
        number: number(folder)?,
        alias: text(folder.join("dm/name"))
            .or_else(|| text(folder.join("md/array_state")).map(|state| format!("md, {state}")))
            .or_else(|| text(folder.join("loop/backing_file"))),
        rotational: text(queue.join("rotational")).map(|t| t == "1"),
        scheduler: text(queue.join("scheduler")).map(|t| active(&t)),
        nr_requests: text(queue.join("nr_requests")).and_then(|t| t.parse().ok()),
        name,
        partitions,
        hardware_queues,
        tags,
    })
}

/// The bracketed choice of `[none] mq-deadline`, or the only one.
fn active(schedulers: &str) -> String {
    let chosen = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(schedulers, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracketed_scheduler_is_the_active_one() {
        for (file, name) in [("none", "none"), ("[none] mq-deadline", "none"), ("none [bfq] kyber", "bfq")] {
            assert_eq!(active(file), name);
        }
    }

    #[test]
    fn every_disk_has_a_number_and_its_own_name() {
        for disk in disks() {
            let shown = fs::read_to_string(format!("/sys/block/{}/dev", disk.name)).unwrap();
            assert_eq!(shown.trim(), format!("{}:{}", disk.number.0, disk.number.1));
        }
    }
}
