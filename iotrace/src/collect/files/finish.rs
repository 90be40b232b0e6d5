//! From entries to lists: what a report shows.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use iotrace_common::{file::class_of, process::tgid_of};

use super::{BY_OPEN, Entry, Files, GONE, OWN, READ, USED, WRITTEN, checkpoints};
use crate::{
    collect::totals::device_number,
    model::{self, Extension, File, FileSizes, FileSystem, FileUse, Folder, wait_ns},
};

/// How many files, folders and extensions are listed.
const TOP: usize = 20;
/// How many checkpoints.
const CHECKPOINTS: usize = 100;

/// What a mount is, and what a path below its file system's root is called by the processes that use it.
pub trait PathOf {
    /// Whole path of a file, for a process of this key.
    fn path(&mut self, process: u64, mount: u32, device: (u32, u32), path: &[u8]) -> Vec<u8>;
    /// The mount itself, with no numbers yet.
    fn file_system(&mut self, process: u64, mount: u32, device: (u32, u32)) -> FileSystem;
}

/// Distributions of file sizes of one process, and how many files it used.
#[derive(Debug, Default)]
struct Sizes {
    files: u64,
    sizes: FileSizes,
}

/// What one process did with files.
#[derive(Debug, Default)]
pub struct OfProcess {
    /// Sizes of distinct files.
    pub sizes: FileSizes,
    /// Numbers.
    pub file_use: FileUse,
}

impl Files {
    /// What each process did with files, by its key.
    pub fn by_process(&self) -> impl Iterator<Item = (u64, OfProcess)> {
        let mut of: Vec<Sizes> = self.processes.iter().map(|_| Sizes::default()).collect();
        for (process, entry, flags) in self.pairs() {
            let of = &mut of[process as usize];
            of.files += 1;
            // A file that was opened and not touched is no file read or written.
            if flags & (READ | WRITTEN) != 0 {
                of.sizes.all.record(entry.size);
            }
            if flags & READ != 0 {
                of.sizes.read.record(entry.size);
            }
            if flags & WRITTEN != 0 {
                of.sizes.written.record(entry.size);
            }
        }
        of.into_iter().zip(&self.processes).map(|(of, (key, by))| {
            let file_use =
                FileUse { files: of.files, opens: by.opens, whole_file: by.whole_file, totals: by.totals };
            (*key, OfProcess { sizes: of.sizes, file_use })
        })
    }

    /// Each file of each process: index of the process, the file, flags.
    fn pairs(&self) -> impl Iterator<Item = (u32, &Entry, u8)> {
        let own = self.entries().map(|entry| (entry.process, entry, entry.flags));
        let shared = self.shared.iter().map(|(process, index, flags)| (process, self.entry(index), flags));
        own.chain(shared).filter(|(_, _, flags)| flags & OWN != 0)
    }

    /// The lists. `trace_began_ns` is on CLOCK_MONOTONIC.
    pub fn finish(self, paths: &mut dyn PathOf, trace_began_ns: u64) -> model::Files {
        let without_open =
            |(_, _, flags): &(u32, &Entry, u8)| flags & (READ | WRITTEN) != 0 && flags & BY_OPEN == 0;
        let open_before = self.pairs().filter(without_open).count() as u64;
        let mut files = model::Files {
            sessions: model::Sessions { open_before, ..self.sessions },
            classes: self.classes.clone(),
            folder_count: self
                .folders
                .list
                .iter()
                .filter(|f| f.opens > 0 || f.totals.reads + f.totals.writes > 0)
                .count() as u64,
            ..model::Files::default()
        };
        let mut top = BinaryHeap::with_capacity(TOP + 1);
        let mut folder_files = vec![0u64; self.folders.list.len()];
        let mut mount_files = vec![0u64; self.mounts.len()];
        let mut extensions: HashMap<Vec<u8>, Extension> = HashMap::new();
        for (index, entry) in self.entries().enumerate().filter(|(_, entry)| entry.flags & USED != 0) {
            files.distinct += 1;
            files.classes[class_of(entry.size)].files += 1;
            if let Some(count) = folder_files.get_mut(entry.folder as usize) {
                *count += 1;
            }
            let mount = match entry.mount {
                u16::MAX => self.mount_of(entry.dev).unwrap_or(usize::MAX),
                mount => mount.into(),
            };
            if let Some(count) = mount_files.get_mut(mount) {
                *count += 1;
            }
            top.push((Reverse((entry.wait_ns, entry.read_bytes + entry.written_bytes)), index as u32));
            if top.len() > TOP {
                top.pop();
            }
            let extension = extension(self.name_of(entry));
            let of = match extensions.get_mut(extension.as_slice()) {
                Some(of) => of,
                None => extensions
                    .entry(extension.clone())
                    .or_insert(Extension { extension, ..Extension::default() }),
            };
            of.files += 1;
            of.opens += u64::from(entry.opens);
            of.read_bytes += entry.read_bytes;
            of.written_bytes += entry.written_bytes;
            of.wait_ns += entry.wait_ns;
        }
        files.top = top.into_sorted_vec().into_iter().map(|(_, index)| self.file(index, paths)).collect();
        files.folders = self.top_folders(&folder_files, paths);
        files.extensions = extensions.into_values().collect();
        files.extensions.sort_by(|a, b| {
            (b.wait_ns, b.read_bytes, &a.extension).cmp(&(a.wait_ns, a.read_bytes, &b.extension))
        });
        files.extensions.truncate(TOP);
        files.file_systems = self.file_systems(&mount_files, paths);
        for (&index, written) in &self.writes.list {
            let path = self.path_of(index, paths);
            files.checkpoints.extend(checkpoints::judge(written, &path, &self.renames, trace_began_ns));
        }
        files.checkpoints.sort_by(|a, b| (a.began_ns, &a.path).cmp(&(b.began_ns, &b.path)));
        files.checkpoint_count = files.checkpoints.len() as u64;
        files.checkpoints.truncate(CHECKPOINTS);
        files
    }

    fn file(&self, index: u32, paths: &mut dyn PathOf) -> File {
        let entry = self.entry(index);
        File {
            path: self.path_of(index, paths),
            deleted: entry.flags & GONE != 0,
            device: device_number(entry.dev),
            ino: entry.ino,
            size: entry.size,
            opens: entry.opens.into(),
            reads: entry.reads.into(),
            read_bytes: entry.read_bytes,
            written_bytes: entry.written_bytes,
            wait_ns: entry.wait_ns,
            pid: tgid_of(self.processes[entry.process as usize].0),
        }
    }

    /// Where a file of which only the device is known counts.
    fn mount_of(&self, dev: u32) -> Option<usize> {
        self.mounts.iter().position(|mount| mount.1 == dev)
    }

    fn path_of(&self, index: u32, paths: &mut dyn PathOf) -> Vec<u8> {
        let entry = self.entry(index);
        if let Some(path) = self.writes.paths.get(&index) {
            return path.clone();
        }
        let name = self.name_of(entry);
        if name.is_empty() {
            return format!("[inode {}]", entry.ino).into_bytes();
        }
        let Some(mut path) = self.folders.path(entry.folder) else {
            return [b"[...]/", name].concat();
        };
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let Some(&(mount, dev, _)) = self.mounts.get(usize::from(entry.mount)) else { return path };
        paths.path(self.processes[entry.process as usize].0, mount, device_number(dev), &path)
    }

    fn top_folders(&self, files: &[u64], paths: &mut dyn PathOf) -> Vec<Folder> {
        let mut order: Vec<usize> = (0..self.folders.list.len()).filter(|&at| files[at] > 0).collect();
        let list = &self.folders.list;
        order.sort_by_key(|&at| {
            (Reverse(wait_ns(&list[at].totals)), Reverse(list[at].totals.read_bytes), list[at].key)
        });
        let folder = |at: usize| {
            let node = &list[at];
            let (mount, dev, process) = self.mounts[usize::from(node.mount)];
            let path = match self.folders.path(at as u32) {
                Some(path) => paths.path(process, mount, device_number(dev), &path),
                None => [b"[...]/", node.name.as_slice()].concat(),
            };
            Folder { path, files: files[at], opens: node.opens, totals: node.totals }
        };
        order.into_iter().take(TOP).map(folder).collect()
    }

    fn file_systems(&self, files: &[u64], paths: &mut dyn PathOf) -> Vec<FileSystem> {
        let mut list: Vec<FileSystem> = self
            .mounts
            .iter()
            .zip(files)
            .map(|(&(mount, dev, process), &files)| FileSystem {
                files,
                ..paths.file_system(process, mount, device_number(dev))
            })
            .collect();
        for node in &self.folders.list {
            if let Some(of) = list.get_mut(usize::from(node.mount)) {
                of.opens += node.opens;
                of.totals.add(&node.totals);
            }
        }
        for (&dev, nameless) in &self.nameless {
            if let Some(of) = self.mount_of(dev).and_then(|mount| list.get_mut(mount)) {
                of.opens += nameless.opens;
                of.totals.add(&nameless.totals);
            }
        }
        // A mount met through a record without one, and the same mount met again in another namespace, are one.
        let mut merged: Vec<FileSystem> = Vec::new();
        for of in list {
            let same = |m: &&mut FileSystem| m.device == of.device && m.mount_point == of.mount_point;
            match merged.iter_mut().find(same) {
                Some(known) => {
                    known.files += of.files;
                    known.opens += of.opens;
                    known.totals.add(&of.totals);
                }
                None => merged.push(of),
            }
        }
        merged.retain(|of| of.files > 0);
        merged.sort_by_key(|of| (Reverse(wait_ns(&of.totals)), Reverse(of.totals.read_bytes), of.device));
        merged
    }
}

/// From the last dot on, small letters; empty when there is none, or nothing before it.
fn extension(name: &[u8]) -> Vec<u8> {
    match name.iter().rposition(|&b| b == b'.') {
        Some(dot) if dot > 0 && name.len() - dot <= 16 => name[dot..].to_ascii_lowercase(),
        _ => Vec::new(),
    }
}
