//! /proc/PID/mountinfo (proc(5)): what is mounted where, and from a path inside a file system to the path a process
//! would use. Names are bytes: any but NUL may be in them.

use std::{collections::HashSet, sync::Arc};

/// One mount, as one process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `mnt_id`: unique among all namespaces while the mount exists, and given to another mount afterwards.
    pub id: u32,
    /// Id of the mount it is mounted on; its own id, or one that is not listed, for the root.
    pub parent: u32,
    /// Major and minor number of the file system (`s_dev`); major 0 where no device is behind it.
    pub dev: (u32, u32),
    /// The part of the file system that is mounted: `/`, or the source of a bind mount inside its file system.
    pub root: Arc<[u8]>,
    /// `root` has been removed since.
    pub root_deleted: bool,
    /// Where, seen from the root directory of the process.
    pub mount_point: Arc<[u8]>,
    /// `ext4`, `nfs4`, `fuse.s3fs`.
    pub fs_type: Arc<[u8]>,
    /// Device, server and export, or whatever the file system calls its source.
    pub source: Arc<[u8]>,
    /// Options of the file system as they stand in the file, escapes included: a comma within a value is `\054`.
    pub options: Arc<[u8]>,
}

/// Byte strings, each once: mount namespaces are mostly copies of each other, and the options of one overlay take
/// kilobytes.
#[derive(Debug, Default)]
pub struct Strings(HashSet<Arc<[u8]>>);

impl Strings {
    fn keep(&mut self, bytes: &[u8]) -> Arc<[u8]> {
        if let Some(known) = self.0.get(bytes) {
            return Arc::clone(known);
        }
        let new: Arc<[u8]> = bytes.into();
        self.0.insert(Arc::clone(&new));
        new
    }

    /// Drops what no mount has any more.
    pub fn forget_unused(&mut self) {
        self.0.retain(|string| Arc::strong_count(string) > 1);
    }
}

/// What the kernel puts behind the path of something that was removed. No path has two slashes in a row.
const DELETED: &[u8] = b"//deleted";

/// The path without the kernel's mark, and whether the mark was there.
pub fn without_deleted_mark(path: &[u8]) -> (&[u8], bool) {
    path.strip_suffix(DELETED).map_or((path, false), |path| (if path.is_empty() { b"/" } else { path }, true))
}

/// Every line that is a mount. Lines the kernel does not write are passed over.
pub fn parse(text: &[u8], strings: &mut Strings) -> Vec<Mount> {
    text.split(|&b| b == b'\n').filter_map(|line| mount(line, strings)).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: six fields, optional ones, a
/// dash, three more.
fn mount(line: &[u8], strings: &mut Strings) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let dev = fields.next()?;
    let colon = dev.iter().position(|&b| b == b':')?;
    let dev = (number(&dev[..colon])?, number(&dev[colon + 1..])?);
    let root = unescaped(fields.next()?);
    let (root, root_deleted) = without_deleted_mark(&root);
    let mount_point = unescaped(fields.next()?);
    let _options_of_the_mount = fields.next()?;
    // Optional fields hold a colon or a word, never a lone dash.
    fields.find(|field| *field == b"-")?;
    let fs_type = unescaped(fields.next()?);
    // An empty source is an empty field.
    let source = unescaped(fields.next()?);
    Some(Mount {
        id,
        parent,
        dev,
        root: strings.keep(root),
        root_deleted,
        mount_point: strings.keep(&mount_point),
        fs_type: strings.keep(&fs_type),
        source: strings.keep(&source),
        options: strings.keep(fields.next().unwrap_or_default()),
    })
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Undoes the kernel's escapes: a backslash and three octal digits.
pub fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        rest = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            _ => {
                bytes.push(first);
                tail
            }
        };
    }
    bytes
}

impl Mount {
    /// The path a process uses for `path` of this mount's file system; `None` for what is not below the mounted part
    /// of it (moved out of a bind mount while in use).
    pub fn path_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let below = match &*self.root {
            b"/" => path,
            root => path.strip_prefix(root)?,
        };
        let mut full = if &*self.mount_point == b"/" { Vec::new() } else { self.mount_point.to_vec() };
        match below {
            // The mount point itself: a folder, or a single file that is bind-mounted.
            b"" | b"/" => {}
            [b'/', ..] => full.extend_from_slice(below),
            // `/data` is no beginning of `/database`.
            _ => return None,
        }
        if full.is_empty() {
            full.push(b'/');
        }
        Some(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &[u8]) -> Mount {
        let mut mounts = parse(line, &mut Strings::default());
        assert_eq!(mounts.len(), 1, "{}", line.escape_ascii());
        mounts.remove(0)
    }

    #[test]
    fn fields_are_found_whatever_optional_ones_there_are() {
        for optional in ["", "shared:1 ", "shared:12 master:3 propagate_from:2 ", "unbindable "] {
            let line =
                format!("36 35 98:0 /mnt1 /mnt2 rw,noatime {optional}- ext3 /dev/root rw,errors=continue");
            let mount = one(line.as_bytes());
            assert_eq!((mount.id, mount.parent, mount.dev), (36, 35, (98, 0)), "{line}");
            assert_eq!((&*mount.root, &*mount.mount_point), (&b"/mnt1"[..], &b"/mnt2"[..]));
            assert_eq!((&*mount.fs_type, &*mount.source), (&b"ext3"[..], &b"/dev/root"[..]));
            assert_eq!(&*mount.options, b"rw,errors=continue");
        }
    }

    #[test]
    fn names_are_any_bytes() {
        let mount = one(
            b"41 24 0:40 / /data/my\\040set\\012\\134x\\011\xff\xfe\\043 rw - fuse.a\\040b s3://b\\040k ro",
        );
        assert_eq!(&*mount.mount_point, b"/data/my set\n\\x\t\xff\xfe#");
        assert_eq!((&*mount.fs_type, &*mount.source), (&b"fuse.a b"[..], &b"s3://b k"[..]));
        // What only looks like an escape.
        assert_eq!(unescaped(b"\\04 \\9 \\"), b"\\04 \\9 \\");
    }

    #[test]
    fn an_empty_source_is_a_field_too() {
        let mount = one(b"41 24 0:40 / /x rw -  tmpfs none rw".as_slice());
        // Two blanks after the dash: the type is empty, not the source. The kernel writes no such line.
        assert_eq!((&*mount.fs_type, &*mount.source), (&b""[..], &b"tmpfs"[..]));
        let mount = one(b"41 24 0:40 / /x rw - tmpfs  rw");
        assert_eq!((&*mount.source, &*mount.options), (&b""[..], &b"rw"[..]));
    }

    #[test]
    fn lines_that_are_no_mounts_are_passed_over() {
        let text = b"\nx 1 8:0 / / rw - ext4 a b\n1 2\n1 2 8 / / rw - ext4 a b\n1 2 8:0 / / rw ext4 a b\n\
            1 2 8:0 / / rw - ext4\n7 1 8:0 / / rw - ext4 a b\n";
        let ids: Vec<_> = parse(text, &mut Strings::default()).iter().map(|m| m.id).collect();
        assert_eq!(ids, [7]);
    }

    #[test]
    fn paths_go_through_the_root_of_a_bind_mount() {
        let table: [(&str, &str, &str, Option<&str>); 14] = [
            ("/", "/", "/etc/passwd", Some("/etc/passwd")),
            ("/", "/", "/", Some("/")),
            ("/", "/data", "/train/a.jpg", Some("/data/train/a.jpg")),
            ("/", "/data", "/", Some("/data")),
            ("/srv/set", "/data", "/srv/set/a", Some("/data/a")),
            ("/srv/set", "/data", "/srv/set", Some("/data")),
            ("/srv/set", "/", "/srv/set/a", Some("/a")),
            ("/srv/set", "/", "/srv/set", Some("/")),
            ("/srv/set", "/data", "/srv/settings", None),
            ("/srv/set", "/data", "/srv", None),
            // One file over another, as runtimes do it with /etc/hostname.
            ("/containers/1/hostname", "/etc/hostname", "/containers/1/hostname", Some("/etc/hostname")),
            ("/containers/1/hostname", "/etc/hostname", "/containers/1/hosts", None),
            // A subvolume of btrfs.
            ("/@home", "/home", "/@home/me/x", Some("/home/me/x")),
            ("net:[4026531840]", "/run/netns/a", "net:[4026531840]", Some("/run/netns/a")),
        ];
        for (root, at, path, want) in table {
            let mount = one(format!("1 0 8:1 {root} {at} rw - ext4 /dev/sda1 rw").as_bytes());
            let got = mount.path_of(path.as_bytes());
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{root} at {at}: {path}");
        }
    }

    #[test]
    fn a_removed_root_still_leads_to_its_files() {
        let mount = one(b"1 0 8:1 /srv/old//deleted /data rw - ext4 /dev/sda1 rw");
        assert!(mount.root_deleted);
        assert_eq!(mount.path_of(b"/srv/old/a").as_deref(), Some(&b"/data/a"[..]));
        assert_eq!(without_deleted_mark(b"/a//deleted"), (&b"/a"[..], true));
        assert_eq!(without_deleted_mark(b"//deleted"), (&b"/"[..], true));
        assert_eq!(without_deleted_mark(b"/a/deleted"), (&b"/a/deleted"[..], false));
    }

    #[test]
    fn equal_strings_are_held_once() {
        let mut strings = Strings::default();
        let line = b"1 0 8:1 / /data rw - ext4 /dev/sda1 rw";
        let (first, second) = (parse(line, &mut strings), parse(line, &mut strings));
        assert!(Arc::ptr_eq(&first[0].options, &second[0].options));
        let before = strings.0.len();
        drop((first, second));
        strings.forget_unused();
        assert!(before > 0 && strings.0.is_empty());
    }

    #[test]
    fn this_process_has_a_root() {
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        let mounts = parse(&text, &mut Strings::default());
        assert_eq!(mounts.len(), text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).count());
        assert!(mounts.iter().any(|m| &*m.mount_point == b"/"));
    }
}
