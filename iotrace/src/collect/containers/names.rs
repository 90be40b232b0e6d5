//! Names of containers and pods, from files that runtimes and the kubelet leave: no socket of a runtime is asked, for in a
//! debug container there is none.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use super::{cgroup::is_id, host_name, mounted, sees_host_pids};
use crate::{
    kernel::mountinfo::{self, Strings},
    model::Container,
};

/// What a container is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Its own names.
    pub own: BTreeSet<String>,
    /// Names of its pod.
    pub pod: BTreeSet<String>,
}

/// Where names are found.
pub struct Books {
    root: PathBuf,
    /// By id: from Podman's and CRI-O's list of containers, and from the names of the kubelet's logs.
    by_id: HashMap<String, Names>,
    /// The machine's own name, where iotrace sees the host's first process.
    machine: Option<String>,
}

/// The host's root directory, from the host, from a container that has it at /host, and from one that sees the host's
/// processes.
const HOSTS: [&str; 3] = ["", "host", "proc/1/root"];

impl Books {
    /// Reads what lists many containers at once. A file that is not there names none.
    pub fn open(root: &Path) -> Self {
        let proc = root.join("proc");
        let machine = sees_host_pids(&proc).then(|| host_name(&proc, 1)).flatten();
        let mut books = Self { root: root.to_owned(), by_id: HashMap::new(), machine };
        for host in HOSTS {
            books.read_storage(
                &root.join(host).join("var/lib/containers/storage/overlay-containers/containers.json"),
            );
            books.read_logs(&root.join(host).join("var/log/containers"));
        }
        books
    }

    /// `[{"id": "...", "names": ["..."]}]`.
    fn read_storage(&mut self, file: &Path) {
        let list = fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let list: Vec<serde_json::Value> = list.unwrap_or_default();
        for entry in &list {
            let Some(id) = entry["id"].as_str() else { continue };
            let names = entry["names"].as_array().into_iter().flatten().filter_map(|name| name.as_str());
            self.by_id.entry(id.to_owned()).or_default().own.extend(names.map(str::to_owned));
        }
    }

    /// `POD_NAMESPACE_CONTAINER-ID.log`: links that the kubelet makes.
    fn read_logs(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((name, id)) = name.strip_suffix(".log").and_then(|name| name.rsplit_once('-')) else {
                continue;
            };
            let parts: Vec<_> = name.split('_').collect();
            if let [pod, _namespace, container] = parts[..]
                && is_id(id)
            {
                let names = self.by_id.entry(id.to_owned()).or_default();
                names.own.insert(container.to_owned());
                names.pod.insert(pod.to_owned());
            }
        }
    }

    /// What a container is called, of which `pid` is a process.
    pub fn names(&self, container: &Container, pid: u32) -> Names {
        let proc = self.root.join("proc");
        let mut names = Names::default();
        if let Some(id) = &container.id {
            names = self.by_id.get(id).cloned().unwrap_or_default();
            names.own.extend(self.docker_name(id));
        }
        let mounts = fs::read(proc.join(format!("{pid}/mountinfo"))).unwrap_or_default();
        names.own.extend(mounted::name_in_pod(&mountinfo::parse(&mounts, &mut Strings::default())));
        if let Some(name) = host_name(&proc, pid).filter(|name| Some(name) != self.machine.as_ref()) {
            // All containers of a pod have one host name, the pod's. Elsewhere it is the id again, if nobody chose one.
            if container.pod_uid.is_some() {
                names.pod.insert(name);
            } else if !container.id.as_ref().is_some_and(|id| id.starts_with(&name)) {
                names.own.insert(name);
            }
        }
        names
    }

    fn docker_name(&self, id: &str) -> Option<String> {
        // An id is hex digits, or a name under LXC, of which no path shall be made.
        is_id(id).then_some(())?;
        HOSTS.iter().find_map(|host| {
            let file = self.root.join(host).join(format!("var/lib/docker/containers/{id}/config.v2.json"));
            let config: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
            config["Name"].as_str().map(|name| name.trim_start_matches('/').to_owned())
        })
    }
}
