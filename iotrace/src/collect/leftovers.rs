//! What the kernel side did not send: numbers of files that are still open, of processes that ended with files open, and of
//! records that did not fit the ring buffer.

use std::collections::{HashMap, HashSet};

use iotrace_common::{
    file::{FileSlot, LostClass, Session, SessionKey},
    op::OP_NAMES,
    process::tgid_of,
    thread::{Kind, ThreadSlot},
};

use super::{
    descriptors::{self, OpenFile},
    files::{Files, Named, PathOf, SessionPart},
    maps::Maps,
    mounts::{FileAt, Mounts, UNMOUNTED},
    pids::Pids,
    totals::device_number,
};
use crate::{
    kernel::fstype::FsClass,
    model::{Failure, FileSystem, Process},
};

/// Parts of sessions that belong together: those of one process with one open file.
#[derive(Debug, Default)]
pub struct Parts(HashMap<(u64, u64, u32, u64), SessionPart>);

impl Parts {
    /// Adds what is in the slot of a thread.
    pub fn of_thread(&mut self, thread: &ThreadSlot) {
        let used = |file: &&FileSlot| file.file != 0 && file.dirty != 0 && file.kind == Kind::Regular as u32;
        for file in thread.files.iter().filter(used) {
            self.add(file.file, of_slot(thread.process, file));
        }
    }

    /// Adds what threads have put down.
    pub fn put_down(&mut self, maps: &Maps) {
        for (key, session) in maps.sessions.iter().flatten() {
            self.add(key.file, of_session(key.process, &session));
        }
    }

    fn add(&mut self, file: u64, part: SessionPart) {
        use std::collections::hash_map::Entry;
        match self.0.entry((part.process, file, part.dev, part.ino)) {
            Entry::Vacant(place) => drop(place.insert(part)),
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                if part.last_ns > known.last_ns {
                    known.size = part.size;
                }
                known.flags |= part.flags;
                known.covered = known.covered.max(part.covered);
                known.first_ns = known.first_ns.min(part.first_ns);
                known.last_ns = known.last_ns.max(part.last_ns);
                known.totals.add(&part.totals);
            }
        }
    }

    /// Hands everything to `files`, with what /proc shows of the files that are still open. `lives` gives the pid, in
    /// iotrace's own namespace, of a process that has not ended.
    pub fn finish(self, files: &mut Files, lives: impl Fn(u64) -> Option<u32>) {
        let mut tables: HashMap<u64, Vec<OpenFile>> = HashMap::new();
        let mut maps: HashMap<u64, Vec<(u64, Vec<u8>)>> = HashMap::new();
        let mut open: HashMap<(u64, u64), u64> = HashMap::new();
        for (_, mut part) in self.0 {
            let (process, ino) = (part.process, part.ino);
            let table = tables
                .entry(process)
                .or_insert_with(|| lives(process).map(descriptors::regular_files).unwrap_or_default());
            let found = table.iter().find(|open| open.ino == ino);
            if let Some(found) = found {
                part.size = found.size;
                *open.entry((process, ino)).or_default() += 1;
            }
            files.session(&part);
            if !files.is_nameless(part.dev, ino) {
                continue;
            }
            let mapped = maps
                .entry(process)
                .or_insert_with(|| lives(process).map(descriptors::mapped_files).unwrap_or_default());
            let mapped = || mapped.iter().find(|(mapped, _)| *mapped == ino).map(|(_, path)| path.clone());
            if let Some(path) = found.map(|open| open.path.clone()).or_else(mapped) {
                files.path(part.dev, ino, path);
            }
        }
        for ((process, ino), sessions) in open {
            // A session of a thread that did not see its end is none: there are no more than descriptors.
            let held = tables.get(&process).map_or(0, |table| table.iter().filter(|o| o.ino == ino).count());
            files.open_at_end(sessions.min(held as u64));
        }
    }
}

/// Takes what the threads of processes that ended have put down.
pub fn take_ended(files: &mut Files, maps: &mut Maps, ended: &HashSet<u64>) {
    let put_down: Vec<(SessionKey, Session)> =
        maps.sessions.iter().flatten().filter(|(key, _)| ended.contains(&key.process)).collect();
    for (key, session) in put_down {
        files.session(&of_session(key.process, &session));
        let _ = maps.sessions.remove(&key);
    }
}

fn of_session(process: u64, session: &Session) -> SessionPart {
    SessionPart {
        process,
        flags: session.flags,
        dev: session.dev,
        ino: session.ino,
        size: session.size,
        covered: session.covered,
        first_ns: session.first_ns,
        last_ns: session.last_ns,
        totals: session.totals,
    }
}

fn of_slot(process: u64, file: &FileSlot) -> SessionPart {
    SessionPart {
        process,
        flags: file.flags,
        dev: file.dev,
        ino: file.ino,
        size: file.size,
        covered: file.covered,
        first_ns: file.first_ns,
        last_ns: file.last_ns,
        totals: file.totals,
    }
}

/// What a full ring buffer dropped, by size class.
pub fn lost_classes(maps: &Maps) -> Vec<LostClass> {
    (0..maps.lost_classes.len()).filter_map(|class| maps.lost_classes.get(&class, 0).ok()).collect()
}

/// First failures, with how often each came in all.
pub fn failures(first: Vec<(u64, u32, u32, Vec<u8>)>, processes: &[Process]) -> Vec<Failure> {
    let by_pid: HashMap<u32, &Process> = processes.iter().map(|p| (p.pid, p)).collect();
    let mut failures: Vec<Failure> = first
        .into_iter()
        .filter_map(|(process, op, errno, path)| {
            let (pid, errno) = (tgid_of(process), errno as i32);
            let op = OP_NAMES.get(op as usize)?;
            let stats = &by_pid.get(&pid)?.meta.iter().find(|(name, _)| name == op)?.1;
            Some(Failure { pid, op, errno, count: stats.errors.get(&errno).copied().unwrap_or(0), path })
        })
        .collect();
    failures.sort_by(|a, b| {
        b.count.cmp(&a.count).then_with(|| (a.pid, a.op, a.errno).cmp(&(b.pid, b.op, b.errno)))
    });
    failures
}

/// Paths as the processes see them.
pub struct Paths<'a> {
    pids: &'a Pids,
    mounts: &'a mut Mounts,
}

impl<'a> Paths<'a> {
    /// Of the processes that `pids` translates.
    pub fn new(pids: &'a Pids, mounts: &'a mut Mounts) -> Self {
        Self { pids, mounts }
    }

    /// Makes sure that the mount of a file can be told later.
    pub fn meet(&mut self, named: &Named) {
        let (pid, dev) = (self.own_pid(named.process), device_number(named.dev));
        self.mounts.resolve(pid, &FileAt { mount_id: named.mount, dev, path: b"/" });
    }

    fn own_pid(&self, process: u64) -> u32 {
        own_pid(self.pids, tgid_of(process))
    }
}

impl PathOf for Paths<'_> {
    fn path(&mut self, process: u64, mount_id: u32, dev: (u32, u32), path: &[u8]) -> Vec<u8> {
        let pid = self.own_pid(process);
        self.mounts.resolve(pid, &FileAt { mount_id, dev, path }).path
    }

    fn file_system(&mut self, process: u64, mount_id: u32, dev: (u32, u32)) -> FileSystem {
        let pid = self.own_pid(process);
        let place = self.mounts.resolve(pid, &FileAt { mount_id, dev, path: b"/" });
        let Some(mount) = place.mount else {
            return FileSystem {
                device: dev,
                mount_point: UNMOUNTED.to_vec(),
                fs_type: "unknown".into(),
                backing: FsClass::Unknown.name(),
                ..FileSystem::default()
            };
        };
        FileSystem {
            mount_point: mount.mount_point.to_vec(),
            fs_type: String::from_utf8_lossy(&mount.fs_type).into_owned(),
            backing: mount.class().name(),
            source: mount.source.to_vec(),
            device: dev,
            ..FileSystem::default()
        }
    }
}

/// A pid of iotrace's own namespace; where that is not known the process has gone, and its number stands for it.
pub fn own_pid(pids: &Pids, tgid: u32) -> u32 {
    pids.from_host(tgid).unwrap_or(tgid)
}
