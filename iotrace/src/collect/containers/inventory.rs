//! Every container that has a process here, and the choice among them by id, name or pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::{
    Containers, Whereabouts, cgroup,
    folders::Hierarchies,
    names::{Books, Names},
};
use crate::{collect::error::StartError, model::Container};

/// A container with processes.
#[derive(Debug, Clone)]
struct Running {
    container: Container,
    names: Names,
    pids: Vec<u32>,
}

/// What a `--container` stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// For the user: `docker 4f66b8a7d2c0 (trainer)`.
    pub described: String,
    /// Processes in it now.
    pub pids: Vec<u32>,
    /// Its cgroup folders, where processes of it will be found later; empty when iotrace sees none.
    pub folders: Vec<PathBuf>,
}

/// One container, or all containers of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Container(usize),
    Pod(String),
}

/// The containers of this machine, or as many as iotrace sees.
pub struct Inventory {
    root: PathBuf,
    running: Vec<Running>,
}

impl Inventory {
    /// Looks at every process below `root`/proc.
    pub fn read(root: &Path) -> Self {
        let mut containers = Containers::under(root);
        let mut found: BTreeMap<Container, Vec<u32>> = BTreeMap::new();
        let entries = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        for pid in pids {
            let Some(Whereabouts::In(container)) = containers.of(pid) else { continue };
            let beside = cgroup_of(root, pid).is_some_and(|text| cgroup::is_monitor(&text));
            if !beside {
                found.entry((*container).clone()).or_default().push(pid);
            }
        }
        let books = Books::open(root);
        let running = found.into_iter().map(|(container, pids)| Running {
            names: books.names(&container, pids[0]),
            container,
            pids,
        });
        Self { root: root.to_owned(), running: running.collect() }
    }

    /// What one `--container` stands for: an id or a name, whole or its beginning, or a pod's.
    pub fn choose(&self, given: &str) -> Result<Chosen, StartError> {
        // As kubectl shows it: containerd://ID.
        let wanted = given.split_once("://").map_or(given, |(_, id)| id).trim_start_matches('/');
        let mut exact = BTreeSet::new();
        let mut begun = BTreeSet::new();
        for (place, running) in self.running.iter().enumerate() {
            let container = Unit::Container(place);
            let pod = running.container.pod_uid.clone().map_or_else(|| container.clone(), Unit::Pod);
            let own = running.container.id.iter().chain(&running.names.own).map(|name| (name, &container));
            let of_pod = running.container.pod_uid.iter().chain(&running.names.pod).map(|name| (name, &pod));
            for (name, unit) in own.chain(of_pod) {
                if name == wanted {
                    exact.insert(unit.clone());
                }
                if !wanted.is_empty() && name.starts_with(wanted) {
                    begun.insert(unit.clone());
                }
            }
        }
        let matches = if exact.is_empty() { begun } else { exact };
        let mut units: Vec<_> = matches.iter().filter(|unit| !self.within_another(unit, &matches)).collect();
        match (units.pop(), units.is_empty()) {
            (Some(unit), true) => Ok(self.chosen(unit)),
            (None, _) => Err(self.no_such(given)),
            (Some(last), false) => {
                units.push(last);
                Err(self.ambiguous(given, &units))
            }
        }
    }

    /// A container whose pod matches too: the pod is meant, of which it is a part.
    fn within_another(&self, unit: &Unit, matches: &BTreeSet<Unit>) -> bool {
        let Unit::Container(place) = unit else { return false };
        let pod = self.running[*place].container.pod_uid.clone();
        pod.is_some_and(|uid| matches.contains(&Unit::Pod(uid)))
    }

    fn members(&self, unit: &Unit) -> Vec<&Running> {
        match unit {
            Unit::Container(place) => vec![&self.running[*place]],
            Unit::Pod(uid) => {
                self.running.iter().filter(|r| r.container.pod_uid.as_ref() == Some(uid)).collect()
            }
        }
    }

    fn chosen(&self, unit: &Unit) -> Chosen {
        let members = self.members(unit);
        let hierarchies = Hierarchies::of(&self.root);
        let mut folders = BTreeSet::new();
        let mut pids = Vec::new();
        for running in &members {
            let id = match unit {
                Unit::Container(_) => running.container.id.as_ref().or(running.container.pod_uid.as_ref()),
                Unit::Pod(uid) => Some(uid),
            };
            for &pid in &running.pids {
                let text = cgroup_of(&self.root, pid).unwrap_or_default();
                folders.extend(id.and_then(|id| hierarchies.folder(&text, id)));
            }
            pids.extend(&running.pids);
        }
        let described = match unit {
            Unit::Container(_) => members.first().map_or_else(String::new, |running| running.described()),
            Unit::Pod(uid) => format!("pod {uid} ({} containers)", members.len()),
        };
        Chosen { described, pids, folders: folders.into_iter().collect() }
    }

    fn no_such(&self, given: &str) -> StartError {
        let known: Vec<_> = self.running.iter().collect();
        StartError::NoSuchContainer { given: given.to_owned(), known: listed(&known) }
    }

    fn ambiguous(&self, given: &str, units: &[&Unit]) -> StartError {
        let matches: Vec<_> = units.iter().flat_map(|unit| self.members(unit)).collect();
        StartError::AmbiguousContainer { given: given.to_owned(), matches: listed(&matches) }
    }
}

impl Running {
    fn runtime(&self) -> &'static str {
        self.container.runtime.map_or("container", |runtime| runtime.name())
    }

    fn names(&self) -> String {
        self.names.own.iter().chain(&self.names.pod).map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    fn described(&self) -> String {
        let names = self.names();
        let names = if names.is_empty() { names } else { format!(" ({names})") };
        format!("{} {}{names}", self.runtime(), self.container.short())
    }
}

fn cgroup_of(root: &Path, pid: u32) -> Option<Vec<u8>> {
    fs::read(root.join(format!("proc/{pid}/cgroup"))).ok()
}

/// Lines of an error message.
const LISTED: usize = 20;

/// One line a container, and how to choose the first of them.
fn listed(containers: &[&Running]) -> String {
    if containers.is_empty() {
        return "no process that iotrace sees is in a container; in a container of its own it needs the host's processes \
            (`docker run --pid=host --cgroupns=host`, `hostPID: true`)"
            .into();
    }
    let mut text = String::new();
    for running in containers.iter().take(LISTED) {
        let count = running.pids.len();
        let processes = if count == 1 { "1 process".into() } else { format!("{count} processes") };
        let names = running.names();
        let names = if names.is_empty() { "(no name found)".into() } else { names };
        let pod = running.container.pod_uid.as_ref().filter(|_| running.container.id.is_some());
        let pod = pod.map_or_else(String::new, |uid| format!(", pod {uid}"));
        let _ = writeln!(
            text,
            "  {}  {}  {names}  {processes}{pod}",
            distinct(running, containers),
            running.runtime()
        );
    }
    if containers.len() > LISTED {
        let _ = writeln!(text, "  and {} more", containers.len() - LISTED);
    }
    let _ = write!(text, "for example `iotrace attach --container {}`", distinct(containers[0], containers));
    text
}

/// So much of an id that no other of the list begins with it, but 12 digits at least; a pod's uid where there is no id.
fn distinct(running: &Running, among: &[&Running]) -> String {
    let Some(id) = &running.container.id else {
        return running.container.pod_uid.clone().unwrap_or_default();
    };
    let others: Vec<_> = among.iter().filter_map(|r| r.container.id.as_ref()).filter(|o| *o != id).collect();
    let ends = id.char_indices().map(|(at, _)| at).chain([id.len()]).skip(12);
    let enough = ends.map(|end| &id[..end]).find(|cut| !others.iter().any(|other| other.starts_with(cut)));
    enough.unwrap_or(id).to_owned()
}

#[cfg(test)]
mod tests;
