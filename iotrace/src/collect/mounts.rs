//! Mount tables of the traced processes: from what the kernel side knows of an open file (mount, device, path within
//! the file system) to the path the process uses and the file system it is on.
//!
//! One table for each mount namespace (and root directory, for a process in a chroot sees fewer mounts), read when the
//! first process of it is met, and again when it turns out to be old. Polling /proc/PID/mountinfo would tell exactly
//! when a table changes, but an open one keeps the namespace alive, and with it the volumes of a container that has
//! ended: a tracer must not hold those.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::kernel::mountinfo::{self, Mount, Strings, without_deleted_mark};

/// A mount that was looked for in vain is not looked for again in the same table before this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What stands before the path of a file whose mount is not known: unmounted since, or never in sight.
pub const UNMOUNTED: &[u8] = b"[unmounted]";

/// What stands before the path of a file that is no longer below the mounted part of its file system.
pub const UNREACHABLE: &[u8] = b"[unreachable]";

/// An open file as the kernel side sees it.
#[derive(Debug, Clone, Copy)]
pub struct FileAt<'a> {
    /// `file.f_path.mnt` -> `mount.mnt_id`.
    pub mount_id: u32,
    /// Major and minor number of `inode.i_sb.s_dev`, by which a mount id that was given to another mount is noticed.
    pub dev: (u32, u32),
    /// Path from the root of the file system (the top of the chain of `d_parent`), with a slash at its beginning;
    /// `//deleted` may stand at its end.
    pub path: &'a [u8],
}

/// How well a path is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// As the process would name it.
    Own,
    /// As processes of another namespace would name it: the file was opened there and handed over.
    Other,
    /// Not below the mounted part of its file system any more; the path is [`UNREACHABLE`] and that within the file system.
    Unreachable,
    /// The mount is not known; the path is [`UNMOUNTED`] and that within the file system.
    Unmounted,
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    /// Full path; any bytes but NUL.
    pub path: Vec<u8>,
    /// How well it is known.
    pub sight: Sight,
    /// The file, or the folder that was mounted, has been removed.
    pub deleted: bool,
    /// Its mount, with the type of the file system; `None` under [`Sight::Unmounted`].
    pub mount: Option<&'a Mount>,
}

/// Whose view of the mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum View {
    /// Inode number of the mount namespace; device and inode number of the root directory.
    Namespace { namespace: u64, root: (u64, u64) },
    /// One process alone, whose namespace iotrace may not see.
    Process(u32),
}

struct Table {
    /// Sorted by id.
    mounts: Vec<Mount>,
    /// Mounts, as (id, device), that were not in it when last looked for.
    missing: HashMap<(u32, (u32, u32)), Instant>,
}

impl Table {
    fn find(&self, id: u32, dev: (u32, u32)) -> Option<&Mount> {
        let place = self.mounts.binary_search_by_key(&id, |mount| mount.id).ok()?;
        Some(&self.mounts[place]).filter(|mount| mount.dev == dev)
    }
}

/// Mount tables by namespace.
pub struct Mounts {
    proc: PathBuf,
    tables: Vec<Table>,
    places: HashMap<View, u32>,
    /// Place in `tables` by pid.
    processes: HashMap<u32, u32>,
    strings: Strings,
}

impl Default for Mounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Mounts {
    /// No tables yet; they come from /proc.
    pub fn new() -> Self {
        Self::under("/proc".into())
    }

    fn under(proc: PathBuf) -> Self {
        Self {
            proc,
            tables: Vec::new(),
            places: HashMap::new(),
            processes: HashMap::new(),
            strings: Strings::default(),
        }
    }

    /// Finds, and reads if it is new, the table of a process. To be called when a process is first met and when it
    /// executes a program (a container's first process changes its namespace before that). Pids are those of iotrace's
    /// own pid namespace. A process that has gone already has its parent's table. False: no table, [`Self::resolve`]
    /// will look among all.
    pub fn for_process(&mut self, pid: u32, parent: u32) -> bool {
        let place = self.place_of(pid).or_else(|| self.processes.get(&parent).copied());
        if let Some(place) = place {
            self.processes.insert(pid, place);
        }
        self.processes.contains_key(&pid)
    }

    /// A process has ended: its pid may be given to another. Tables stay: what it did may be told of later.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Where a file of a process is. Reads the table again when the mount is not in it.
    pub fn resolve(&mut self, pid: u32, file: &FileAt) -> Place<'_> {
        let (id, dev) = (file.mount_id, file.dev);
        let mut own = self.processes.get(&pid).copied();
        if own.is_none_or(|place| self.tables[place as usize].find(id, dev).is_none()) {
            own = self.look_again(pid, own, (id, dev));
        }
        let in_own = own.filter(|&place| self.tables[place as usize].find(id, dev).is_some());
        let place = in_own.or_else(|| {
            (0..self.tables.len() as u32).find(|&p| self.tables[p as usize].find(id, dev).is_some())
        });
        let mount = place.and_then(|place| self.tables[place as usize].find(id, dev));
        let (path, deleted) = without_deleted_mark(file.path);
        let marked = |mark: &[u8]| [mark, path].concat();
        let Some(mount) = mount else {
            return Place { path: marked(UNMOUNTED), sight: Sight::Unmounted, deleted, mount: None };
        };
        let deleted = deleted || mount.root_deleted;
        let (path, sight) = match mount.path_of(path) {
            Some(path) if in_own.is_some() => (path, Sight::Own),
            Some(path) => (path, Sight::Other),
            None => (marked(UNREACHABLE), Sight::Unreachable),
        };
        Place { path, sight, deleted, mount: Some(mount) }
    }

    /// Types of the file systems in all tables, each once, in order.
    pub fn fs_types(&self) -> Vec<String> {
        let all = self.tables.iter().flat_map(|table| &table.mounts);
        let mut types: Vec<_> =
            all.map(|mount| String::from_utf8_lossy(&mount.fs_type).into_owned()).collect();
        types.sort_unstable();
        types.dedup();
        types
    }

    /// The table of a process, read if it is new; `None` when the process is gone.
    fn place_of(&mut self, pid: u32) -> Option<u32> {
        let view = self.view(pid)?;
        if let Some(&place) = self.places.get(&view) {
            return Some(place);
        }
        let table = self.read(pid)?;
        let place = self.tables.len() as u32;
        self.tables.push(table);
        self.places.insert(view, place);
        Some(place)
    }

    /// The process may have changed its namespace, or mounted something.
    fn look_again(&mut self, pid: u32, before: Option<u32>, wanted: (u32, (u32, u32))) -> Option<u32> {
        if let Some(place) = before {
            let looked_at = self.tables[place as usize].missing.get(&wanted);
            if looked_at.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
                return before;
            }
        }
        let known_tables = self.tables.len();
        let Some(place) = self.place_of(pid) else {
            self.note_missing(before, wanted);
            return before;
        };
        self.processes.insert(pid, place);
        // One read just now needs no second reading.
        if (place as usize) < known_tables
            && self.tables[place as usize].find(wanted.0, wanted.1).is_none()
            && let Some(read) = self.read(pid)
        {
            self.tables[place as usize].mounts = read.mounts;
            self.strings.forget_unused();
        }
        self.note_missing(Some(place), wanted);
        Some(place)
    }

    fn note_missing(&mut self, place: Option<u32>, wanted: (u32, (u32, u32))) {
        let Some(place) = place else { return };
        let table = &mut self.tables[place as usize];
        if table.find(wanted.0, wanted.1).is_none() {
            table.missing.insert(wanted, Instant::now());
        } else {
            table.missing.remove(&wanted);
        }
    }

    fn read(&mut self, pid: u32) -> Option<Table> {
        let text = fs::read(self.proc.join(format!("{pid}/mountinfo"))).ok()?;
        let mut mounts = mountinfo::parse(&text, &mut self.strings);
        mounts.sort_unstable_by_key(|mount| mount.id);
        mounts.shrink_to_fit();
        // A process that is about to end has none.
        (!mounts.is_empty()).then(|| Table { mounts, missing: HashMap::new() })
    }

    fn view(&self, pid: u32) -> Option<View> {
        let folder = self.proc.join(pid.to_string());
        let namespace = fs::read_link(folder.join("ns/mnt"))
            .ok()
            .and_then(|link| link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse::<u64>().ok());
        let root = fs::metadata(folder.join("root")).ok().map(|meta| (meta.dev(), meta.ino()));
        match (namespace, root) {
            (Some(namespace), Some(root)) => Some(View::Namespace { namespace, root }),
            _ => folder.exists().then_some(View::Process(pid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::Path};

    use super::*;

    const DISK: (u32, u32) = (8, 1);

    /// A /proc of the test's own.
    struct Proc(PathBuf);

    impl Proc {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("iotrace-mounts-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn process(&self, pid: u32, namespace: u32, root: &str, mounts: &str) {
            let folder = self.0.join(pid.to_string());
            fs::remove_dir_all(&folder).ok();
            fs::create_dir_all(folder.join("ns")).unwrap();
            symlink(format!("mnt:[{namespace}]"), folder.join("ns/mnt")).unwrap();
            let root = self.0.join(root);
            fs::create_dir_all(&root).unwrap();
            symlink(root, folder.join("root")).unwrap();
            self.mounts(pid, mounts);
        }

        fn mounts(&self, pid: u32, mounts: &str) {
            fs::write(self.0.join(format!("{pid}/mountinfo")), mounts).unwrap();
        }

        fn end(&self, pid: u32) {
            fs::remove_dir_all(self.0.join(pid.to_string())).unwrap();
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn at(mount_id: u32, path: &str) -> FileAt<'_> {
        FileAt { mount_id, dev: DISK, path: path.as_bytes() }
    }

    fn shown(place: &Place) -> (String, Sight) {
        (String::from_utf8(place.path.clone()).unwrap(), place.sight)
    }

    const HOST: &str = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
    const BOX: &str = "40 39 8:1 /srv/data /data rw - ext4 /dev/sda1 rw\n39 1 0:50 / / rw - overlay o rw\n";

    #[test]
    fn a_path_is_that_of_the_processs_own_namespace() {
        let proc = Proc::new("own");
        proc.process(1, 100, "host", HOST);
        proc.process(2, 200, "box", BOX);
        let mut mounts = Mounts::under(proc.0.clone());
        assert!(mounts.for_process(1, 0) && mounts.for_process(2, 1));
        assert_eq!(shown(&mounts.resolve(1, &at(20, "/srv/data/a"))), ("/srv/data/a".into(), Sight::Own));
        let inside = mounts.resolve(2, &at(40, "/srv/data/a"));
        assert_eq!(shown(&inside), ("/data/a".into(), Sight::Own));
        assert_eq!(&*inside.mount.unwrap().fs_type, b"ext4");
        // Handed over by the host's process.
        assert_eq!(shown(&mounts.resolve(2, &at(20, "/etc/x"))), ("/etc/x".into(), Sight::Other));
        assert_eq!(mounts.fs_types(), ["ext4", "overlay"]);
    }

    #[test]
    fn processes_of_a_namespace_share_a_table_unless_their_roots_differ() {
        let proc = Proc::new("share");
        proc.process(1, 100, "host", HOST);
        proc.process(2, 100, "host", "");
        proc.process(3, 100, "jail", "21 20 8:1 /jail/x /x rw - ext4 /dev/sda1 rw\n");
        let mut mounts = Mounts::under(proc.0.clone());
        for pid in [1, 2, 3] {
            assert!(mounts.for_process(pid, 0), "{pid}");
        }
        assert_eq!(mounts.tables.len(), 2);
        assert_eq!(shown(&mounts.resolve(2, &at(20, "/a"))).0, "/a");
        assert_eq!(shown(&mounts.resolve(3, &at(21, "/jail/x/a"))).0, "/x/a");
    }

    #[test]
    fn a_new_mount_is_found_and_a_used_id_is_not_mistaken() {
        let proc = Proc::new("new");
        proc.process(1, 100, "host", HOST);
        let mut mounts = Mounts::under(proc.0.clone());
        mounts.for_process(1, 0);
        proc.mounts(1, &format!("{HOST}30 20 8:1 / /mnt rw - ext4 /dev/sda1 rw\n"));
        assert_eq!(shown(&mounts.resolve(1, &at(30, "/a"))).0, "/mnt/a");
        // Mount 30 now is another file system's.
        proc.mounts(1, &format!("{HOST}30 20 8:2 / /other rw - ext4 /dev/sda2 rw\n"));
        let file = FileAt { dev: (8, 2), ..at(30, "/a") };
        assert_eq!(shown(&mounts.resolve(1, &file)).0, "/other/a");
    }

    #[test]
    fn what_is_unmounted_says_so_and_is_not_sought_each_time() {
        let proc = Proc::new("gone");
        proc.process(1, 100, "host", HOST);
        let mut mounts = Mounts::under(proc.0.clone());
        mounts.for_process(1, 0);
        let gone = mounts.resolve(1, &at(99, "/a//deleted"));
        assert_eq!(shown(&gone), ("[unmounted]/a".into(), Sight::Unmounted));
        assert!(gone.deleted && gone.mount.is_none());
        // Two of them by turns: neither makes the other be sought again.
        mounts.resolve(1, &at(98, "/b"));
        proc.mounts(1, &format!("{HOST}99 20 8:1 / /late rw - ext4 /dev/sda1 rw\n"));
        for id in [99, 98, 99] {
            assert_eq!(mounts.resolve(1, &at(id, "/b")).sight, Sight::Unmounted, "{id}");
        }
        // A third is news, and what it brings to light is seen.
        assert_eq!(mounts.resolve(1, &at(97, "/b")).sight, Sight::Unmounted);
        assert_eq!(shown(&mounts.resolve(1, &at(99, "/b"))).0, "/late/b");
    }

    #[test]
    fn a_file_moved_out_of_its_bind_mount_has_no_path() {
        let proc = Proc::new("moved");
        proc.process(2, 200, "box", BOX);
        let mut mounts = Mounts::under(proc.0.clone());
        mounts.for_process(2, 1);
        let place = mounts.resolve(2, &at(40, "/srv/elsewhere/a"));
        assert_eq!(shown(&place), ("[unreachable]/srv/elsewhere/a".into(), Sight::Unreachable));
    }

    #[test]
    fn a_process_that_ended_has_its_parents_table_and_its_own_is_kept() {
        let proc = Proc::new("ended");
        proc.process(2, 200, "box", BOX);
        let mut mounts = Mounts::under(proc.0.clone());
        assert!(mounts.for_process(2, 1));
        assert!(mounts.for_process(7, 2), "gone before it was seen");
        proc.end(2);
        for pid in [2, 7] {
            assert_eq!(shown(&mounts.resolve(pid, &at(40, "/srv/data/a"))), ("/data/a".into(), Sight::Own));
        }
        mounts.forget(2);
        assert!(!mounts.for_process(2, 1));
        assert_eq!(shown(&mounts.resolve(2, &at(40, "/srv/data/a"))).1, Sight::Other);
    }

    #[test]
    fn a_process_that_enters_a_container_is_seen_there() {
        let proc = Proc::new("enter");
        proc.process(1, 100, "host", HOST);
        proc.process(5, 100, "host", HOST);
        let mut mounts = Mounts::under(proc.0.clone());
        mounts.for_process(5, 1);
        proc.process(5, 200, "box", BOX);
        assert_eq!(shown(&mounts.resolve(5, &at(40, "/srv/data/a"))), ("/data/a".into(), Sight::Own));
    }

    #[test]
    fn a_namespace_that_may_not_be_seen_is_a_view_of_its_own() {
        let proc = Proc::new("unseen");
        for pid in [1, 2] {
            fs::create_dir_all(proc.0.join(pid.to_string())).unwrap();
            proc.mounts(pid, HOST);
        }
        let mut mounts = Mounts::under(proc.0.clone());
        assert!(mounts.for_process(1, 0) && mounts.for_process(2, 0));
        assert_eq!(mounts.tables.len(), 2);
    }

    #[test]
    fn a_file_of_this_process_is_found_where_it_is() {
        let file = Path::new("/proc/self/exe").canonicalize().unwrap();
        let mut mounts = Mounts::new();
        assert!(mounts.for_process(std::process::id(), 0));
        let opened = fs::File::open(&file).unwrap();
        let info =
            fs::read_to_string(format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(&opened)))
                .unwrap();
        let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).unwrap().trim().parse().unwrap();
        let mount = mounts.tables[0].mounts.iter().find(|mount| mount.id == id).unwrap().clone();
        let below = file.to_str().unwrap().strip_prefix(std::str::from_utf8(&mount.mount_point).unwrap());
        let root = std::str::from_utf8(&mount.root).unwrap();
        let path = format!("{}/{}", root.trim_end_matches('/'), below.unwrap().trim_start_matches('/'));
        let place = mounts
            .resolve(std::process::id(), &FileAt { mount_id: id, dev: mount.dev, path: path.as_bytes() });
        assert_eq!(shown(&place), (file.to_str().unwrap().into(), Sight::Own));
    }
}
