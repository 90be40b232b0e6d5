//! Which container a process runs in, read from /proc: its cgroup first, its mounts and its host name where that does
//! not tell.

pub mod cgroup;
mod folders;
pub mod inventory;
mod mounted;
mod names;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    kernel::mountinfo::{self, Strings},
    model::{Container, Process},
};

/// Inode number of the initial cgroup namespace (PROC_CGROUP_INIT_INO).
const INITIAL_CGROUP_NAMESPACE: &str = "cgroup:[4026531835]";

/// That of the initial pid namespace (PROC_PID_INIT_INO).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Containers of processes; each is held once.
pub struct Containers {
    proc: PathBuf,
    /// iotrace sees whole cgroup paths.
    whole_paths: bool,
    /// iotrace is in the initial pid namespace: process 1 is the host's.
    host_pids: bool,
    /// Mount namespace of process 1.
    first_namespace: Option<PathBuf>,
    /// By the text of /proc/PID/cgroup: processes of a container share it.
    by_cgroup: HashMap<Vec<u8>, Option<Arc<Container>>>,
    /// By mount namespace.
    by_namespace: HashMap<PathBuf, Option<Arc<Container>>>,
}

/// Where a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// In this container.
    In(Arc<Container>),
    /// In none.
    Outside,
    /// iotrace runs in a cgroup namespace of its own and sees only what is relative to it.
    Unknown,
}

impl Whereabouts {
    /// The container, if it is known.
    pub fn container(self) -> Option<Arc<Container>> {
        match self {
            Self::In(container) => Some(container),
            Self::Outside | Self::Unknown => None,
        }
    }
}

impl Default for Containers {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}

impl Containers {
    /// With another root directory, for tests.
    pub fn under(root: &Path) -> Self {
        let proc = root.join("proc");
        // A kernel without cgroup namespaces shows whole paths too.
        let own = fs::read_link(proc.join("self/ns/cgroup"));
        Self {
            whole_paths: own.map_or(true, |link| link == Path::new(INITIAL_CGROUP_NAMESPACE)),
            host_pids: sees_host_pids(&proc),
            first_namespace: fs::read_link(proc.join("1/ns/mnt")).ok(),
            proc,
            by_cgroup: HashMap::new(),
            by_namespace: HashMap::new(),
        }
    }

    /// Where a process of iotrace's own pid namespace runs; `None` when it is gone. Reads one small file, and two more
    /// once for each mount namespace if that does not tell.
    pub fn of(&mut self, pid: u32) -> Option<Whereabouts> {
        let text = fs::read(self.proc.join(format!("{pid}/cgroup"))).ok().filter(|text| !text.is_empty())?;
        let by_cgroup = match self.by_cgroup.get(&text) {
            Some(known) => known.clone(),
            None => {
                let found = cgroup::container(&text).map(|found| Arc::new(self.with_pod(found, pid)));
                self.by_cgroup.insert(text, found.clone());
                found
            }
        };
        Some(match by_cgroup {
            Some(container) => Whereabouts::In(container),
            None => self.by_mounts(pid),
        })
    }

    /// A neighbour of iotrace in the same pod has no pod in its relative path.
    fn with_pod(&mut self, mut found: Container, pid: u32) -> Container {
        if found.pod_uid.is_none()
            && !self.whole_paths
            && let Whereabouts::In(other) = self.by_mounts(pid)
        {
            found.pod_uid.clone_from(&other.pod_uid);
        }
        found
    }

    fn by_mounts(&mut self, pid: u32) -> Whereabouts {
        let otherwise = if self.whole_paths { Whereabouts::Outside } else { Whereabouts::Unknown };
        let Ok(namespace) = fs::read_link(self.proc.join(format!("{pid}/ns/mnt"))) else { return otherwise };
        // What shares its mounts with the host's first process is in no container. In a pid namespace of its own, process 1
        // is the container's, and only cgroups could tell.
        if (self.whole_paths || self.host_pids) && self.first_namespace.as_ref() == Some(&namespace) {
            return Whereabouts::Outside;
        }
        let found = match self.by_namespace.get(&namespace) {
            Some(known) => known.clone(),
            None => {
                let text = fs::read(self.proc.join(format!("{pid}/mountinfo"))).unwrap_or_default();
                let mounts = mountinfo::parse(&text, &mut Strings::default());
                let found = mounted::container(&mounts).or_else(|| self.by_host_name(pid)).map(Arc::new);
                self.by_namespace.insert(namespace, found.clone());
                found
            }
        };
        found.map_or(otherwise, Whereabouts::In)
    }

    /// Docker and Podman name a host after the first 12 digits of the container's id, unless told another name.
    fn by_host_name(&self, pid: u32) -> Option<Container> {
        let name = host_name(&self.proc, pid)?;
        let named_so = name.len() == 12 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        // A service with mounts of its own shows the machine's name, whatever that looks like.
        let of_machine = self.whole_paths && host_name(&self.proc, 1).as_ref() == Some(&name);
        (named_so && !of_machine).then(|| Container { id: Some(name), ..Container::default() })
    }

    /// Looks again at the end of a trace, for processes that still live: one may have entered a container since it was
    /// first seen. `own_pid` finds a process in iotrace's own pid namespace. Returns how many are in a container that is
    /// not known.
    pub fn look_again(&mut self, processes: &mut [Process], own_pid: impl Fn(u32) -> Option<u32>) -> usize {
        let mut unknown = 0;
        for process in processes.iter_mut().filter(|p| !p.exited && !p.kernel_thread) {
            let Some(found) = own_pid(process.pid).and_then(|pid| self.of(pid)) else { continue };
            unknown += usize::from(found == Whereabouts::Unknown);
            process.container = found.container();
        }
        unknown
    }
}

/// Is process 1 the host's?
fn sees_host_pids(proc: &Path) -> bool {
    fs::read_link(proc.join("self/ns/pid")).is_ok_and(|link| link == Path::new(INITIAL_PID_NAMESPACE))
}

/// The host name file a process sees.
fn host_name(proc: &Path, pid: u32) -> Option<String> {
    let name = fs::read(proc.join(format!("{pid}/root/etc/hostname"))).ok()?;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    (!name.is_empty()).then_some(name)
}

/// What to say of processes whose container is not known.
pub fn unknown_note(processes: usize) -> Option<String> {
    (processes > 0).then(|| {
        format!(
            "Which container they run in is not known of {processes} processes: iotrace runs in a cgroup namespace of its \
             own and sees cgroups relative to that; `--cgroupns=host` shows all."
        )
    })
}

#[cfg(test)]
pub mod tests;
