//! The files of a trace: one small entry for each, so that a million fit; names in one arena; folders as a tree.

mod checkpoints;
mod finish;
mod folders;
mod index;
mod shared;
mod writes;

use std::hash::{BuildHasher as _, RandomState};

use iotrace_common::file::{CLASSES, CLOSED, DELETED, FileTotals, OPENED, class_of};

pub use finish::{OfProcess, PathOf};
use folders::Folders;
use index::Index;
use shared::Shared;
use writes::Writes;

use crate::model::{Class, Sessions, wait_ns};

/// A session, or a part of one, as the kernel side tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPart {
    /// Process key.
    pub process: u64,
    /// Flags of `iotrace_common::file`.
    pub flags: u32,
    /// Device.
    pub dev: u32,
    /// Inode number.
    pub ino: u64,
    /// Size when told.
    pub size: u64,
    /// Read without a gap from its start up to here.
    pub covered: u64,
    /// First and last use, ns of CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// What a file is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Process key.
    pub process: u64,
    /// Device.
    pub dev: u32,
    /// Inode number.
    pub ino: u64,
    /// Inode number of its folder.
    pub folder: u64,
    /// Mount.
    pub mount: u32,
    /// Name.
    pub name: Vec<u8>,
}

/// A rename, with the paths as the program gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// Process key.
    pub process: u64,
    /// When, ns of CLOCK_MONOTONIC.
    pub ns: u64,
    /// From.
    pub from: Vec<u8>,
    /// To.
    pub to: Vec<u8>,
}

/// Bits of [`Entry::flags`]. The first four are kept for each process that uses the file.
const READ: u8 = 1 << 0;
const WRITTEN: u8 = 1 << 1;
/// The process had a session with it; without, another had, or only its name was told.
const OWN: u8 = 1 << 2;
/// The process opened it within the trace.
const BY_OPEN: u8 = 1 << 3;
/// Some process had a session with it.
const USED: u8 = 1 << 4;
/// No name leads to it any more.
const GONE: u8 = 1 << 5;

/// One file. A trace may have a million of them: 72 bytes each.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    ino: u64,
    size: u64,
    read_bytes: u64,
    written_bytes: u64,
    wait_ns: u64,
    dev: u32,
    /// Index in the folders; `u32::MAX`: not known.
    folder: u32,
    opens: u32,
    reads: u32,
    /// Where its name begins in the arena.
    name: u32,
    /// Index of the process that used it first.
    process: u32,
    /// Index of its mount.
    mount: u16,
    name_len: u8,
    flags: u8,
}

/// Entries come in chunks of this many, so that growing moves none and leaves no half-empty memory.
const CHUNK: usize = 1 << 14;

/// What one process did, in numbers that need no list.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByProcess {
    /// Openings.
    pub opens: u64,
    /// Sessions that read a file from start to end.
    pub whole_file: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// Files by device and inode number.
pub struct Files {
    hasher: RandomState,
    index: Index,
    chunks: Vec<Vec<Entry>>,
    count: u32,
    names: Vec<u8>,
    folders: Folders,
    /// Mounts met, and through which process: (mount, device, process).
    mounts: Vec<(u32, u32, u64)>,
    /// What was done, by device, with files whose name was not told (`files` is not kept).
    nameless: std::collections::HashMap<u32, Class>,
    shared: Shared,
    processes: Vec<(u64, ByProcess)>,
    process_index: std::collections::HashMap<u64, u32>,
    classes: [Class; CLASSES],
    sessions: Sessions,
    writes: Writes,
    renames: Vec<Renamed>,
    renames_dropped: u64,
}

/// Renames kept: each is a candidate for the end of a checkpoint.
const RENAMES_KEPT: usize = 10_000;

impl Default for Files {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            index: Index::default(),
            chunks: Vec::new(),
            count: 0,
            names: Vec::new(),
            folders: Folders::default(),
            mounts: Vec::new(),
            nameless: std::collections::HashMap::new(),
            shared: Shared::default(),
            processes: Vec::new(),
            process_index: std::collections::HashMap::new(),
            classes: Default::default(),
            sessions: Sessions::default(),
            writes: Writes::default(),
            renames: Vec::new(),
            renames_dropped: 0,
        }
    }
}

impl Files {
    fn entry(&self, index: u32) -> &Entry {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn entry_mut(&mut self, index: u32) -> &mut Entry {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    fn name_of(&self, entry: &Entry) -> &[u8] {
        let start = entry.name as usize;
        self.names.get(start..start + usize::from(entry.name_len)).unwrap_or_default()
    }

    /// The entry of a file, made when it is new.
    fn place(&mut self, dev: u32, ino: u64) -> (u32, bool) {
        let hash = self.hasher.hash_one((dev, ino));
        let chunks = &self.chunks;
        let at = |index: u32| &chunks[index as usize / CHUNK][index as usize % CHUNK];
        if let Some(&found) = self.index.find(hash, |&i| at(i).ino == ino && at(i).dev == dev) {
            return (found, false);
        }
        let hasher = &self.hasher;
        let new = self.count;
        self.index.insert(hash, new, |&i| hasher.hash_one((at(i).dev, at(i).ino)));
        if (new as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let entry = Entry { ino, dev, folder: u32::MAX, ..Entry::default() };
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(entry);
        }
        self.count += 1;
        (new, true)
    }

    fn process(&mut self, key: u64) -> u32 {
        let processes = &mut self.processes;
        *self.process_index.entry(key).or_insert_with(|| {
            processes.push((key, ByProcess::default()));
            processes.len() as u32 - 1
        })
    }

    /// Takes a name. Is its mount one not met before?
    pub fn name(&mut self, named: &Named) -> bool {
        let process = self.process(named.process);
        let (index, new) = self.place(named.dev, named.ino);
        let folder = self.folders.place(named.dev, named.folder);
        let known_mounts = self.mounts.len();
        let mount = self.mount(named);
        self.folders.used_through(folder, mount);
        let known = self.entry(index);
        // Most files keep their name, and a long trace sees each many times.
        let same = self.name_of(known) == named.name.as_slice();
        let name = self.names.len() as u32;
        if !same {
            self.names.extend_from_slice(&named.name);
        }
        let entry = self.entry_mut(index);
        if new {
            entry.process = process;
        }
        entry.folder = folder;
        entry.mount = mount;
        if !same {
            entry.name = name;
            entry.name_len = named.name.len().min(255) as u8;
        }
        self.mounts.len() > known_mounts
    }

    /// Takes a session, or a part of one.
    pub fn session(&mut self, part: &SessionPart) {
        let process = self.process(part.process);
        let (index, new) = self.place(part.dev, part.ino);
        let opened = part.flags & OPENED != 0;
        // A page fault is no read: the program itself and its libraries are not files that it reads.
        let used = OWN
            | (u8::from(part.totals.reads > 0) * READ)
            | (u8::from(part.totals.writes > 0) * WRITTEN)
            | (u8::from(opened) * BY_OPEN);
        let entry = self.entry_mut(index);
        if new {
            entry.process = process;
            entry.mount = u16::MAX;
        }
        if part.size > 0 || part.flags & CLOSED != 0 || new {
            entry.size = part.size;
        }
        entry.flags |= USED;
        if part.flags & DELETED != 0 {
            entry.flags |= GONE;
        }
        entry.opens = entry.opens.saturating_add(opened.into());
        entry.reads = entry.reads.saturating_add(part.totals.reads as u32);
        entry.read_bytes += part.totals.read_bytes;
        entry.written_bytes += part.totals.written_bytes;
        entry.wait_ns += wait_ns(&part.totals);
        let (first, size) = (entry.process, entry.size);
        if first == process {
            entry.flags |= used;
        } else {
            self.shared.add(process, index, used);
        }
        let whole = size > 0 && part.covered >= size && part.totals.reads > 0;
        self.sessions.opened += u64::from(opened);
        self.sessions.closed += u64::from(part.flags & CLOSED != 0);
        self.sessions.whole_file += u64::from(whole);
        let by = &mut self.processes[process as usize].1;
        by.opens += u64::from(opened);
        by.whole_file += u64::from(whole);
        by.totals.add(&part.totals);
        let class = &mut self.classes[class_of(size)];
        class.opens += u64::from(opened);
        class.totals.add(&part.totals);
        let entry = *self.entry(index);
        if entry.folder == u32::MAX {
            let nameless = self.nameless.entry(part.dev).or_default();
            nameless.opens += u64::from(opened);
            nameless.totals.add(&part.totals);
        } else {
            self.folders.add(entry.folder, opened, &part.totals);
        }
        let start = entry.name as usize;
        let name = self.names.get(start..start + usize::from(entry.name_len)).unwrap_or_default();
        self.writes.note(index, part, name);
    }

    /// Notes sessions that are still open at the end.
    pub fn open_at_end(&mut self, count: u64) {
        self.sessions.open_at_end += count;
    }

    fn mount(&mut self, part: &Named) -> u16 {
        // Few, and the last one met is mostly the one.
        let same = |&(mount, dev, _): &(u32, u32, u64)| mount == part.mount && dev == part.dev;
        let found = self.mounts.iter().rposition(same).unwrap_or_else(|| {
            self.mounts.push((part.mount, part.dev, part.process));
            self.mounts.len() - 1
        });
        found.min(usize::from(u16::MAX)) as u16
    }

    /// Takes a folder.
    pub fn folder(&mut self, dev: u32, ino: u64, parent: u64, name: &[u8]) {
        self.folders.name(dev, ino, parent, name);
    }

    /// Takes a rename.
    pub fn renamed(&mut self, renamed: Renamed) {
        if self.renames.len() < RENAMES_KEPT {
            self.renames.push(renamed);
        } else {
            self.renames_dropped += 1;
        }
    }

    /// Renames that were not kept: a checkpoint among them keeps its first name.
    pub fn renames_dropped(&self) -> u64 {
        self.renames_dropped
    }

    /// Was the name of a file not told?
    pub fn is_nameless(&mut self, dev: u32, ino: u64) -> bool {
        let (index, _) = self.place(dev, ino);
        self.entry(index).name_len == 0
    }

    /// Gives a file whose name was not told the path that its process's descriptors or mappings show.
    pub fn path(&mut self, dev: u32, ino: u64, path: Vec<u8>) {
        let (index, _) = self.place(dev, ino);
        self.writes.path(index, path);
    }

    /// Adds the numbers of records that a full ring buffer dropped.
    pub fn lost(&mut self, class: usize, opens: u64, totals: &FileTotals) {
        if let Some(class) = self.classes.get_mut(class) {
            class.opens += opens;
            class.totals.add(totals);
            self.sessions.opened += opens;
        }
    }

    /// Distinct files told of so far.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests;
