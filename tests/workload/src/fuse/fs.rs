//! The file system: one folder of files `file-N`, read-only, from memory. Every open is direct_io, so that each read
//! reaches the daemon, which sleeps before it answers.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, Request,
};
use serde_json::{Value, json};

use crate::shared::Atomics;

/// How long the kernel may keep names and attributes.
const TTL: Duration = Duration::from_secs(60);
/// Inode of `file-0`; 1 is the folder.
pub const FIRST_INODE: u64 = 2;

/// Requests that the daemon answered.
#[derive(Default)]
pub struct Served {
    lookups: AtomicU64,
    opens: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

// SAFETY: atomics alone.
unsafe impl Atomics for Served {}

impl Served {
    /// The counts, by request.
    pub fn json(&self) -> Value {
        let get = |count: &AtomicU64| count.load(Ordering::SeqCst);
        json!({
            "lookups": get(&self.lookups), "opens": get(&self.opens), "reads": get(&self.reads),
            "read_bytes": get(&self.read_bytes),
        })
    }
}

/// The folder.
pub struct Tree {
    files: u64,
    delay: Duration,
    contents: Vec<u8>,
    served: &'static Served,
}

impl Tree {
    /// `files` files of `bytes` bytes each.
    pub fn new(files: u64, bytes: u64, delay: Duration, served: &'static Served) -> Self {
        Self { files, delay, contents: vec![0xf5; bytes as usize], served }
    }

    fn attributes(&self, inode: u64) -> Option<FileAttr> {
        let folder = inode == INodeNo::ROOT.0;
        let file = (FIRST_INODE..FIRST_INODE + self.files).contains(&inode);
        let size = if file { self.contents.len() as u64 } else { 0 };
        (folder || file).then_some(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if folder { FileType::Directory } else { FileType::RegularFile },
            perm: if folder { 0o755 } else { 0o644 },
            nlink: if folder { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn inode_of(&self, name: &OsStr) -> Option<u64> {
        let number: u64 = name.to_str()?.strip_prefix("file-")?.parse().ok()?;
        (number < self.files).then_some(FIRST_INODE + number)
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::SeqCst);
}

impl Filesystem for Tree {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        count(&self.served.lookups, 1);
        let inode = if parent == INodeNo::ROOT { self.inode_of(name) } else { None };
        match inode.and_then(|inode| self.attributes(inode)) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        count(&self.served.opens, 1);
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        std::thread::sleep(self.delay);
        let end = self.contents.len();
        let from = end.min(offset as usize);
        let data = &self.contents[from..end.min(from + size as usize)];
        count(&self.served.reads, 1);
        count(&self.served.read_bytes, data.len() as u64);
        reply.data(data);
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let root = INodeNo::ROOT.0;
        let dots =
            [(root, FileType::Directory, ".".to_owned()), (root, FileType::Directory, "..".to_owned())];
        let files = (0..self.files).map(|n| (FIRST_INODE + n, FileType::RegularFile, format!("file-{n}")));
        for (at, (inode, kind, name)) in dots.into_iter().chain(files).enumerate().skip(offset as usize) {
            if reply.add(INodeNo(inode), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
