//! Folders as a tree: each knows the one above it, so a path is put together only for those that are shown.

use std::collections::HashMap;

use iotrace_common::file::FileTotals;

/// One folder.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Device and inode number.
    pub key: (u32, u64),
    /// Inode number of the one above; its own at the root of the file system; 0: not told yet.
    pub parent: u64,
    /// Last component of its path.
    pub name: Vec<u8>,
    /// Index of the mount it was used through first.
    pub mount: u16,
    /// Openings of files in it.
    pub opens: u64,
    /// Numbers of the files in it.
    pub totals: FileTotals,
}

/// Deepest path put together.
const DEPTH_LIMIT: usize = 256;

/// Folders by device and inode number.
#[derive(Debug, Default)]
pub struct Folders {
    /// In the order met.
    pub list: Vec<Node>,
    places: HashMap<(u32, u64), u32>,
}

impl Folders {
    /// Index of a folder, made when it is new.
    pub fn place(&mut self, dev: u32, ino: u64) -> u32 {
        let list = &mut self.list;
        *self.places.entry((dev, ino)).or_insert_with(|| {
            list.push(Node { key: (dev, ino), ..Node::default() });
            list.len() as u32 - 1
        })
    }

    /// A folder's name, and what it lies in.
    pub fn name(&mut self, dev: u32, ino: u64, parent: u64, name: &[u8]) {
        let place = self.place(dev, ino);
        let node = &mut self.list[place as usize];
        node.parent = parent;
        node.name = name.to_vec();
    }

    /// Notes the mount it is used through.
    pub fn used_through(&mut self, place: u32, mount: u16) {
        if let Some(node) = self.list.get_mut(place as usize) {
            node.mount = mount;
        }
    }

    /// Adds what was done with a file in it.
    pub fn add(&mut self, place: u32, opened: bool, totals: &FileTotals) {
        let Some(node) = self.list.get_mut(place as usize) else { return };
        node.opens += u64::from(opened);
        node.totals.add(totals);
    }

    /// Path from the root of the file system; `None` when a folder above it was not told of.
    pub fn path(&self, place: u32) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut node = self.list.get(place as usize)?;
        while node.parent != node.key.1 {
            if node.parent == 0 || names.len() == DEPTH_LIMIT {
                return None;
            }
            names.push(&node.name);
            let above = self.places.get(&(node.key.0, node.parent))?;
            node = &self.list[*above as usize];
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Some(path)
    }
}
