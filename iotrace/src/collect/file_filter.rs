//! Which files count: `--fstype` and `--path`.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use super::mounts::Mounts;
use crate::kernel::fstype::{FsClass, class};

/// Chooses files by the type of their file system and by their path; one that is empty chooses all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFilter {
    fs_types: Vec<String>,
    prefixes: Vec<Prefix>,
}

/// One `--path`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Prefix {
    given: PathBuf,
    /// Absolute, without dots.
    absolute: PathBuf,
    /// Symbolic links followed as they are here; files are known by such paths.
    resolved: Option<PathBuf>,
}

impl FileFilter {
    /// Paths may be relative to iotrace's working directory. A path through symbolic links that exists here stands for
    /// the one they lead to as well.
    pub fn new(fs_types: &[String], paths: &[PathBuf]) -> Self {
        let prefix = |given: &PathBuf| {
            let absolute = without_dots(&std::path::absolute(given).unwrap_or_else(|_| given.clone()));
            let resolved = given.canonicalize().ok().filter(|resolved| *resolved != absolute);
            Prefix { given: given.clone(), absolute, resolved }
        };
        Self { fs_types: fs_types.to_vec(), prefixes: paths.iter().map(prefix).collect() }
    }

    /// Does it choose all files?
    pub fn is_empty(&self) -> bool {
        self.fs_types.is_empty() && self.prefixes.is_empty()
    }

    /// What the kernel side compares: 1: file systems, 2: folders (`config::Config::file_filter`).
    pub fn bits(&self) -> u32 {
        u32::from(!self.fs_types.is_empty()) | u32::from(!self.prefixes.is_empty()) << 1
    }

    /// Folders chosen, as absolute paths, followed through symbolic links where they exist here.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.prefixes
            .iter()
            .flat_map(|p| std::iter::once(&p.absolute).chain(&p.resolved))
            .map(PathBuf::as_path)
    }

    /// Does a file count? `fs_type` as in mountinfo, `path` as its process sees it. A file whose path is not known
    /// (`[unmounted]...`) is below no folder.
    pub fn matches(&self, fs_type: &[u8], path: &[u8]) -> bool {
        self.matches_fs_type(fs_type) && self.matches_path(path)
    }

    /// By type alone: `fuse` is `fuse.s3fs` too.
    pub fn matches_fs_type(&self, fs_type: &[u8]) -> bool {
        self.fs_types.is_empty() || self.fs_types.iter().any(|wanted| is_of_type(wanted, fs_type))
    }

    /// By path alone.
    pub fn matches_path(&self, path: &[u8]) -> bool {
        let all = self.prefixes.iter().flat_map(|p| std::iter::once(&p.absolute).chain(&p.resolved));
        self.prefixes.is_empty()
            || all.into_iter().any(|prefix| is_below(prefix.as_os_str().as_bytes(), path))
    }
}

fn is_of_type(wanted: &str, fs_type: &[u8]) -> bool {
    fs_type.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
}

/// `/data` holds `/data` and `/data/a`, not `/database`.
fn is_below(prefix: &[u8], path: &[u8]) -> bool {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() && !prefix.is_empty() || rest.first() == Some(&b'/'))
}

/// `..` goes up by name: what a symbolic link would make of it is found by resolving.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// What a user should know before a trace that may count nothing: `pids` are processes that will be traced, beside iotrace
/// itself whose mounts are looked at too. Both may come to be during the trace, so this stops nothing.
pub fn remarks(filter: &FileFilter, pids: &[u32]) -> Vec<String> {
    if filter.is_empty() {
        return Vec::new();
    }
    let mut mounts = Mounts::new();
    let own = std::process::id();
    for &pid in pids.iter().chain([&own]) {
        mounts.for_process(pid, own);
    }
    let exists = |path: &Path| {
        let inside = path.strip_prefix("/").unwrap_or(path);
        path.exists() || pids.iter().any(|pid| Path::new(&format!("/proc/{pid}/root")).join(inside).exists())
    };
    remarks_on(filter, &mounts.fs_types(), exists)
}

fn remarks_on(filter: &FileFilter, mounted: &[String], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut remarks = Vec::new();
    for wanted in &filter.fs_types {
        if !mounted.iter().any(|fs_type| is_of_type(wanted, fs_type.as_bytes())) {
            let storage = mounted.iter().filter(|name| class(name.as_bytes(), (0, 0)) != FsClass::Pseudo);
            let storage: Vec<_> = storage.map(String::as_str).collect();
            remarks.push(format!(
                "--fstype {wanted}: no file system of this type is mounted; there are: {}",
                storage.join(", ")
            ));
        }
    }
    for prefix in filter.prefixes.iter().filter(|prefix| !exists(&prefix.absolute)) {
        remarks.push(format!(
            "--path {}: {} does not exist, neither here nor where the traced processes are; only what is made there \
             during the trace will count",
            prefix.given.display(),
            prefix.absolute.display()
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(fs_types: &[&str], paths: &[&str]) -> FileFilter {
        let fs_types: Vec<_> = fs_types.iter().map(|name| (*name).to_owned()).collect();
        FileFilter::new(&fs_types, &paths.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_path_is_chosen_by_whole_names() {
        for (prefix, path, want) in [
            ("/data", "/data/train/a.jpg", true),
            ("/data", "/data", true),
            ("/data/", "/data/a", true),
            ("/data/./x/../train", "/data/train/a", true),
            ("/data", "/database/a", false),
            ("/data", "/", false),
            ("/data", "/mnt/data/a", false),
            ("/", "/anything", true),
            ("/", "/", true),
            ("/data", "[unmounted]/data/a", false),
            ("/", "[unmounted]/data/a", false),
        ] {
            assert_eq!(filter(&[], &[prefix]).matches(b"ext4", path.as_bytes()), want, "{prefix}: {path}");
        }
        assert!(filter(&[], &["/data"]).matches_path(b"/data/\xff\n"), "any bytes");
    }

    #[test]
    fn a_type_is_chosen_by_its_name_or_with_all_its_kinds() {
        for (wanted, fs_type, want) in [
            ("ext4", "ext4", true),
            ("fuse", "fuse", true),
            ("fuse", "fuse.s3fs", true),
            ("fuse.s3fs", "fuse.s3fs", true),
            ("fuse.s3fs", "fuse.gcsfuse", false),
            ("fuse", "fuseblk", false),
            ("nfs", "nfs4", false),
        ] {
            assert_eq!(
                filter(&[wanted], &[]).matches(fs_type.as_bytes(), b"/a"),
                want,
                "{wanted}: {fs_type}"
            );
        }
    }

    #[test]
    fn several_of_a_kind_add_up_and_kinds_narrow_down() {
        let both = filter(&["nfs4", "ext4"], &["/a", "/b"]);
        for (fs_type, path, want) in
            [("nfs4", "/a/x", true), ("ext4", "/b", true), ("xfs", "/a/x", false), ("nfs4", "/c", false)]
        {
            assert_eq!(both.matches(fs_type.as_bytes(), path.as_bytes()), want, "{fs_type} {path}");
        }
        assert!(FileFilter::default().is_empty() && FileFilter::default().matches(b"", b""));
    }

    #[test]
    fn a_path_through_a_link_stands_for_both() {
        let folder = std::env::temp_dir().join(format!("iotrace-filter-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("real")).unwrap();
        std::os::unix::fs::symlink(folder.join("real"), folder.join("link")).unwrap();
        let real = folder.join("real").canonicalize().unwrap();
        let by_link = FileFilter::new(&[], &[folder.join("link")]);
        assert!(by_link.matches_path(real.join("a").as_os_str().as_bytes()));
        assert!(by_link.matches_path(folder.join("link/a").as_os_str().as_bytes()));
        std::fs::remove_dir_all(&folder).unwrap();
        let relative = filter(&[], &["some/folder"]);
        let here = std::env::current_dir().unwrap().join("some/folder/a");
        assert!(relative.matches_path(here.as_os_str().as_bytes()));
    }

    #[test]
    fn what_is_not_there_is_remarked_upon() {
        let mounted = ["ext4", "fuse.s3fs", "proc"].map(str::to_owned);
        let remarks =
            remarks_on(&filter(&["nfs", "fuse", "ext4"], &["/a", "/b"]), &mounted, |p| p == Path::new("/a"));
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(remarks[0].ends_with("there are: ext4, fuse.s3fs"), "{}", remarks[0]);
        assert!(remarks[1].starts_with("--path /b: /b does not exist"), "{}", remarks[1]);
    }
}
