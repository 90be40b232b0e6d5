//! The cgroup folder of a container or pod, which later processes of it enter.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::cgroup;
use crate::kernel::mountinfo::{self, Mount, Strings};

/// Levels of cgroups to look into where only the name of a folder is known.
const DEPTH_LIMIT: usize = 12;

/// Mounted cgroup hierarchies, as iotrace sees them.
pub struct Hierarchies {
    root: PathBuf,
    mounts: Vec<Mount>,
}

impl Hierarchies {
    /// Those of iotrace's own mount namespace.
    pub fn of(root: &Path) -> Self {
        let text = fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
        let mut mounts = mountinfo::parse(&text, &mut Strings::default());
        mounts.retain(|mount| matches!(&*mount.fs_type, b"cgroup" | b"cgroup2"));
        // Version 2 first: there the kernel recognises who enters.
        mounts.sort_by_key(|mount| &*mount.fs_type != b"cgroup2");
        Self { root: root.to_owned(), mounts }
    }

    /// The folder of the container or pod `id`, of which a process has these lines in /proc/PID/cgroup.
    pub fn folder(&self, text: &[u8], id: &str) -> Option<PathBuf> {
        for mount in &self.mounts {
            for (controllers, path) in cgroup::paths(text).filter(|(c, _)| belongs_to(c, mount)) {
                let folder = cgroup::path_down_to(path, id).and_then(|path| mount.path_of(path));
                let folder = folder.map(|folder| self.seen_from_here(&folder));
                tracing::debug!(
                    "{id}: cgroup {} of `{}`: {folder:?}",
                    path.escape_ascii(),
                    controllers.escape_ascii()
                );
                if let Some(folder) = folder.filter(|folder| is_cgroup(folder)) {
                    return Some(folder);
                }
            }
        }
        // In a cgroup namespace of iotrace's own, a neighbour's path says only where it is from there; but the folder has a
        // name like no other.
        let relative = cgroup::paths(text).any(|(_, path)| path.starts_with(b"/.."));
        relative.then(|| self.search(id)).flatten()
    }

    fn search(&self, id: &str) -> Option<PathBuf> {
        let mounted = self.mounts.iter().map(|mount| self.seen_from_here(&mount.mount_point));
        let hosts = ["host/sys/fs/cgroup", "proc/1/root/sys/fs/cgroup"].map(|path| self.root.join(path));
        mounted.chain(hosts).find_map(|top| named(&top, id, DEPTH_LIMIT)).filter(|folder| is_cgroup(folder))
    }

    fn seen_from_here(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        self.root.join(std::ffi::OsStr::from_bytes(path))
    }
}

/// Is the line with these controllers about the hierarchy that is mounted here?
fn belongs_to(controllers: &[u8], mount: &Mount) -> bool {
    if &*mount.fs_type == b"cgroup2" {
        return controllers.is_empty();
    }
    let options: Vec<_> = mount.options.split(|&b| b == b',').collect();
    !controllers.is_empty() && controllers.split(|&b| b == b',').all(|name| options.contains(&name))
}

fn is_cgroup(folder: &Path) -> bool {
    folder.join("cgroup.procs").exists()
}

fn named(folder: &Path, id: &str, depth: usize) -> Option<PathBuf> {
    let below: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    let is_named = |path: &&PathBuf| {
        use std::os::unix::ffi::OsStrExt as _;
        path.file_name().is_some_and(|name| cgroup::path_down_to(name.as_bytes(), id).is_some())
    };
    if let Some(found) = below.iter().find(is_named) {
        return Some(found.clone());
    }
    let deeper = depth.checked_sub(1)?;
    below.iter().find_map(|folder| named(folder, id, deeper))
}
