//! Where the files that `--fstype` and `--path` choose are, as the kernel side compares them: devices of file systems, and
//! inode numbers of folders. Looked up again as the trace goes, since file systems are mounted and folders made meanwhile.

use std::{
    collections::HashSet, fs, os::unix::ffi::OsStrExt as _, os::unix::fs::MetadataExt as _, path::Path,
};

use aya::maps::MapError;
use iotrace_common::file::FolderKey;

use super::{file_filter::FileFilter, maps::Maps, totals::kernel_number};
use crate::kernel::mountinfo::{Mount, Strings, parse};

/// What the kernel side was told already.
#[derive(Default)]
pub struct FilePlaces {
    devices: HashSet<u32>,
    folders: HashSet<(u64, u32)>,
}

impl FilePlaces {
    /// Looks as `pids`, of iotrace's own namespace, and iotrace itself see the file systems, and tells the kernel side what is
    /// new.
    pub fn update(&mut self, filter: &FileFilter, pids: impl Iterator<Item = u32>, maps: &mut Maps) {
        if filter.is_empty() {
            return;
        }
        // Processes of one mount namespace see the same.
        let mut seen = HashSet::new();
        for pid in pids.chain([std::process::id()]) {
            let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
            let root = fs::metadata(format!("/proc/{pid}/root")).map(|root| (root.dev(), root.ino())).ok();
            if seen.insert((namespace, root)) {
                let text = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
                self.look(filter, pid, &parse(&text, &mut Strings::default()), maps);
            }
        }
    }

    fn look(&mut self, filter: &FileFilter, pid: u32, mounts: &[Mount], maps: &mut Maps) {
        if filter.bits() & 1 != 0 {
            for mount in mounts.iter().filter(|mount| filter.matches_fs_type(&mount.fs_type)) {
                let device = kernel_number(mount.dev);
                if self.devices.insert(device) {
                    told(maps.fs_filter.insert(device, 1, 0), "--fstype", &mount.mount_point);
                }
            }
        }
        for folder in filter.folders() {
            // What holds the folder, and what is mounted below it.
            let below = mounts.iter().filter(|m| as_path(&m.mount_point).starts_with(folder));
            let holds = mounts
                .iter()
                .filter(|m| folder.starts_with(as_path(&m.mount_point)))
                .max_by_key(|m| m.mount_point.len());
            for (mount, path) in
                holds.map(|m| (m, folder)).into_iter().chain(below.map(|m| (m, as_path(&m.mount_point))))
            {
                self.folder(pid, mount, path, maps);
            }
        }
    }

    fn folder(&mut self, pid: u32, mount: &Mount, path: &Path, maps: &mut Maps) {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let Ok(found) = fs::metadata(Path::new(&format!("/proc/{pid}/root")).join(inside)) else { return };
        let device = kernel_number(mount.dev);
        if self.folders.insert((found.ino(), device)) {
            let key = FolderKey { ino: found.ino(), dev: device.into() };
            told(maps.path_filter.insert(key, 1, 0), "--path", path.as_os_str().as_bytes());
        }
    }
}

/// A place that does not fit is one whose files do not count: to be said.
fn told(result: Result<(), MapError>, option: &str, place: &[u8]) {
    if let Err(error) = result {
        tracing::warn!("{option}: files below {} are not counted: {error}", place.escape_ascii());
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}
