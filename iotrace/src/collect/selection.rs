//! From what the user named to what the kernel side can compare: pids, cgroups, devices, command names, operations.

use std::{
    ffi::{CString, OsString},
    fs, io,
    mem::MaybeUninit,
    os::unix::{ffi::OsStrExt as _, fs::FileTypeExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use iotrace_common::{
    block,
    config::COMM_FILTERS,
    op::{OP_READ, OP_WRITE, OPS},
};

use super::{error::StartError, file_filter::FileFilter, procfs};
use crate::{
    cli::{AttachKind, Op},
    kernel::devices::Disk,
    model::Targets,
};

/// What to trace, checked.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// As the report shows it.
    pub targets: Targets,
    /// cgroup folders.
    pub cgroups: Vec<PathBuf>,
    /// Device numbers of `--device` with their partitions or whole disk; empty: no filter.
    pub device_numbers: Vec<(u32, u32)>,
    /// `--comm`, NUL-padded.
    pub comms: Vec<[u8; 16]>,
    /// Ops, empty: all.
    pub ops: Vec<Op>,
    /// `--fstype` and `--path`.
    pub files: FileFilter,
    /// Block requests and the process tree alone.
    pub block_only: bool,
    /// Ways to attach that are not tried.
    pub without: Vec<AttachKind>,
    /// Bytes of the ring buffer, when not as usual.
    pub ring_bytes: Option<u32>,
    /// Threads that can have a ledger at a time, when not as usual.
    pub ledgers: Option<u32>,
    /// Filters as given.
    pub filters: Vec<(String, String)>,
}

impl Selection {
    /// Checks filters.
    pub fn filtered(
        mut self,
        devices: &[String],
        comms: &[OsString],
        ops: &[Op],
        disks: &[Disk],
    ) -> Result<Self, StartError> {
        for name in devices {
            self.device_numbers.extend(device_numbers(name, disks)?);
            self.filters.push(("device".into(), name.clone()));
        }
        for name in comms {
            let shown = name.to_string_lossy().into_owned();
            self.comms.push(padded_comm(name)?);
            self.filters.push(("comm".into(), shown));
        }
        if self.comms.len() > COMM_FILTERS {
            let reason = format!("at most {COMM_FILTERS} names can be given");
            return Err(StartError::BadComm { name: comms[COMM_FILTERS].to_string_lossy().into(), reason });
        }
        for op in ops {
            self.filters.push(("op".into(), format!("{op:?}").to_lowercase()));
        }
        self.ops = ops.to_vec();
        Ok(self)
    }

    /// Adds the filters that choose files.
    #[must_use]
    pub fn with_files(mut self, fs_types: &[String], paths: &[PathBuf]) -> Self {
        self.files = FileFilter::new(fs_types, paths);
        self.filters.extend(fs_types.iter().map(|name| ("fstype".into(), name.clone())));
        self.filters.extend(paths.iter().map(|path| ("path".into(), path.display().to_string())));
        self
    }

    /// Bits of the read/write ops.
    pub fn op_mask(&self) -> u32 {
        if self.ops.is_empty() {
            return (1 << OPS) - 1;
        }
        self.mask(&[(Op::Read, OP_READ), (Op::Write, OP_WRITE)])
    }

    /// Bits of the block ops.
    pub fn block_op_mask(&self) -> u32 {
        self.mask(&[
            (Op::Read, block::OP_READ),
            (Op::Write, block::OP_WRITE),
            (Op::Flush, block::OP_FLUSH),
            (Op::Discard, block::OP_DISCARD),
        ])
    }

    fn mask(&self, bits: &[(Op, u32)]) -> u32 {
        let chosen = bits.iter().filter(|(op, _)| self.ops.is_empty() || self.ops.contains(op));
        chosen.fold(0, |mask, (_, bit)| mask | 1 << bit)
    }
}

/// Checks that the processes exist and are user processes.
pub fn check_pids(pids: &[u32]) -> Result<(), StartError> {
    for &pid in pids {
        let status = procfs::status(pid).ok_or(StartError::NoSuchPid(pid))?;
        let reason = if status.zombie {
            "it has exited and waits for its parent"
        } else if status.tgid != pid {
            "it is a thread; give the process"
        } else if status.without_memory {
            "it is a kernel thread; `-a` shows kernel threads"
        } else if pid == std::process::id() {
            "it is iotrace itself"
        } else {
            continue;
        };
        return Err(StartError::BadPid { pid, reason });
    }
    Ok(())
}

/// Checks that the folders are cgroups, and returns where they are: a relative name that is not here is looked for where
/// cgroups are mounted.
pub fn check_cgroups(folders: &[PathBuf]) -> Result<Vec<PathBuf>, StartError> {
    let mut found = Vec::new();
    for given in folders {
        let bad = |reason: String| StartError::BadCgroup { path: given.display().to_string(), reason };
        let mounts = ["", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        let folder = mounts.map(|mount| Path::new(mount).join(given)).into_iter().find(|path| path.exists());
        let folder = folder.unwrap_or_else(|| given.clone());
        let error = match file_system(&folder) {
            Ok(CGROUP_V1 | CGROUP_V2) => procfs::cgroup_members(&folder).err(),
            Ok(_) => return Err(bad("no cgroup; expected a folder below /sys/fs/cgroup".into())),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            return Err(bad(format!(
                "{error}; expected a folder below /sys/fs/cgroup that holds cgroup.procs"
            )));
        }
        if !found.contains(&folder) {
            found.push(folder);
        }
    }
    Ok(found)
}

/// CGROUP_SUPER_MAGIC and CGROUP2_SUPER_MAGIC of include/uapi/linux/magic.h.
const CGROUP_V1: u64 = 0x27_e0eb;
const CGROUP_V2: u64 = 0x6367_7270;

/// The magic number of the file system that holds `path`.
fn file_system(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: a NUL-ended path, and a record that the call fills.
    unsafe {
        if libc::statfs(path.as_ptr(), stat.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stat.assume_init().f_type as u64)
    }
}

fn padded_comm(name: &OsString) -> Result<[u8; 16], StartError> {
    let bytes = name.as_bytes();
    let bad =
        |reason: &str| StartError::BadComm { name: name.to_string_lossy().into(), reason: reason.into() };
    if bytes.is_empty() {
        return Err(bad("a command name is not empty"));
    }
    if bytes.len() > 15 {
        let cut = String::from_utf8_lossy(&bytes[..15]).into_owned();
        return Err(bad(&format!("the kernel keeps 15 bytes of a command name; give `{cut}`")));
    }
    let mut comm = [0; 16];
    comm[..bytes.len()].copy_from_slice(bytes);
    Ok(comm)
}

/// Numbers that stand for a device: a disk stands for itself and its partitions, a partition for itself and, as far as
/// block requests go, its disk.
fn device_numbers(name: &str, disks: &[Disk]) -> Result<Vec<(u32, u32)>, StartError> {
    let by_number = |number: (u32, u32)| {
        disks.iter().find_map(|disk| {
            if disk.number == number {
                let partitions = disk.partitions.iter().map(|(_, n)| *n);
                return Some(std::iter::once(number).chain(partitions).collect::<Vec<_>>());
            }
            disk.partitions.iter().any(|(_, n)| *n == number).then(|| vec![disk.number, number])
        })
    };
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    let named = disks.iter().find_map(|disk| {
        let whole = (disk.name == short || disk.alias.as_deref() == Some(short)).then_some(disk.number);
        whole.or_else(|| disk.partitions.iter().find(|(p, _)| p == short).map(|(_, number)| *number))
    });
    let given = short.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    // /dev/disk/by-id/... and /dev/mapper/... lead to a device node.
    let node = || {
        let meta = fs::metadata(name).ok().filter(|m| m.file_type().is_block_device())?;
        Some((libc::major(meta.rdev()), libc::minor(meta.rdev())))
    };
    named.or(given).or_else(node).and_then(by_number).ok_or_else(|| StartError::NoSuchDevice {
        name: name.to_owned(),
        known: disks.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks() -> Vec<Disk> {
        vec![Disk {
            name: "sda".into(),
            number: (8, 0),
            partitions: vec![("sda1".into(), (8, 1)), ("sda2".into(), (8, 2))],
            ..Disk::default()
        }]
    }

    #[test]
    fn a_disk_stands_for_its_partitions_and_a_partition_for_its_disk() {
        let disks = disks();
        for name in ["sda", "/dev/sda", "8:0"] {
            assert_eq!(device_numbers(name, &disks).unwrap(), vec![(8, 0), (8, 1), (8, 2)], "{name}");
        }
        assert_eq!(device_numbers("sda2", &disks).unwrap(), vec![(8, 0), (8, 2)]);
        let error = device_numbers("nvme9", &disks).unwrap_err().to_string();
        assert_eq!(error, "no block device `nvme9` here; there are: sda");
    }

    #[test]
    fn command_names_longer_than_the_kernel_keeps_are_refused() {
        assert!(padded_comm(&"pt_data_worker".into()).is_ok());
        let error = padded_comm(&"a_name_of_sixteen".into()).unwrap_err().to_string();
        assert!(error.contains("give `a_name_of_sixte`"), "{error}");
    }

    #[test]
    fn no_op_means_every_op() {
        let every_op = (1 << OPS) - 1;
        assert_eq!((Selection::default().op_mask(), Selection::default().block_op_mask()), (every_op, 15));
        let reads = Selection { ops: vec![Op::Read], ..Selection::default() };
        assert_eq!((reads.op_mask(), reads.block_op_mask()), (1, 1));
    }
}
