//! What stands behind a file system: a disk of this machine, memory, a server, a daemon, or other file systems.

use super::mountinfo::{Mount, unescaped};

/// Where the data of a file system comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FsClass {
    /// A block or flash device of this machine.
    Block,
    /// Memory alone: no device, no waiting.
    Memory,
    /// A server, or the host of a virtual machine: no block request here.
    Network,
    /// A daemon on this machine (FUSE): what it does, it does as a process of its own.
    Fuse,
    /// Other file systems (overlay): their class is the one that matters.
    Stacked,
    /// The kernel's own tables (proc, sysfs, cgroup): no storage.
    Pseudo,
    /// None that is known here.
    Unknown,
}

impl FsClass {
    /// The word of reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Fuse => "fuse",
            Self::Stacked => "stacked",
            Self::Pseudo => "pseudo",
            Self::Unknown => "unknown",
        }
    }
}

const MEMORY: [&str; 5] = ["tmpfs", "ramfs", "devtmpfs", "rootfs", "hugetlbfs"];
const NETWORK: [&str; 29] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "lustre",
    "lustre_lite",
    "gpfs",
    "beegfs",
    "beegfs_nodev",
    "9p",
    "virtiofs",
    "glusterfs",
    "afs",
    "coda",
    "orangefs",
    "pvfs2",
    "panfs",
    "wekafs",
    "quobyte",
    "vboxsf",
    "vmhgfs",
    "prl_fs",
    "hostfs",
    "ncpfs",
    "daos",
    "juicefs",
    "drvfs",
];
const STACKED: [&str; 7] = ["overlay", "overlayfs", "aufs", "ecryptfs", "unionfs", "shiftfs", "wrapfs"];
/// With a device behind them, under a device number that is not the device's.
const BLOCK: [&str; 8] = ["btrfs", "zfs", "bcachefs", "ubifs", "jffs2", "yaffs2", "logfs", "apfs"];
const PSEUDO: [&str; 29] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "securityfs",
    "debugfs",
    "tracefs",
    "configfs",
    "bpf",
    "pstore",
    "efivarfs",
    "mqueue",
    "fusectl",
    "binfmt_misc",
    "nsfs",
    "pipefs",
    "sockfs",
    "anon_inodefs",
    "autofs",
    "rpc_pipefs",
    "nfsd",
    "selinuxfs",
    "smackfs",
    "binder",
    "resctrl",
    "cpuset",
    "functionfs",
    "xenfs",
];

/// Where the data of a file system of this type and device number comes from.
pub fn class(fs_type: &[u8], dev: (u32, u32)) -> FsClass {
    let Ok(name) = std::str::from_utf8(fs_type) else {
        return if fs_type.starts_with(b"fuse.") { FsClass::Fuse } else { FsClass::Unknown };
    };
    let kinds = [
        (&MEMORY[..], FsClass::Memory),
        (&NETWORK, FsClass::Network),
        (&STACKED, FsClass::Stacked),
        (&BLOCK, FsClass::Block),
        (&PSEUDO, FsClass::Pseudo),
    ];
    if let Some((_, class)) = kinds.iter().find(|(names, _)| names.contains(&name)) {
        return *class;
    }
    match name {
        "fuse" => FsClass::Fuse,
        _ if name.starts_with("fuse.") => FsClass::Fuse,
        // Major 0 is that of file systems without a device; fuseblk (NTFS) has one.
        _ if dev.0 != 0 => FsClass::Block,
        _ => FsClass::Unknown,
    }
}

/// What a FUSE file system calls itself: `s3fs` of `fuse.s3fs`.
pub fn fuse_subtype(fs_type: &[u8]) -> Option<&[u8]> {
    fs_type
        .strip_prefix(b"fuse.")
        .or_else(|| fs_type.strip_prefix(b"fuseblk."))
        .filter(|name| !name.is_empty())
}

impl Mount {
    /// Where its data comes from.
    pub fn class(&self) -> FsClass {
        class(&self.fs_type, self.dev)
    }
}

/// The folders an overlay is made of, as whoever mounted it named them: in that process's namespace, and relative to
/// its folder if they do not begin with a slash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    /// Read-only ones, the topmost first; data-only ones last.
    pub lower: Vec<Vec<u8>>,
    /// Where changes go; `None` for a read-only overlay.
    pub upper: Option<Vec<u8>>,
}

/// The layers of an overlay; `None` for any other file system.
pub fn overlay_layers(mount: &Mount) -> Option<Layers> {
    if !matches!(&*mount.fs_type, b"overlay" | b"overlayfs") {
        return None;
    }
    let mut layers = Layers::default();
    // Commas within a value are escaped, so they are told from those between options before escapes are undone.
    for option in mount.options.split(|&b| b == b',') {
        let Some(equals) = option.iter().position(|&b| b == b'=') else { continue };
        let value = unescaped(&option[equals + 1..]);
        match &option[..equals] {
            b"lowerdir" => layers.lower.extend(folders(&value)),
            // One option a folder, as the mount calls of 6.8 have it: no separators within.
            b"lowerdir+" | b"datadir+" => layers.lower.push(value),
            b"upperdir" => layers.upper = Some(without_backslashes(&value)),
            _ => {}
        }
    }
    Some(layers)
}

/// Splits at colons that have no backslash before them; two colons begin data-only layers.
fn folders(value: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![Vec::new()];
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b':' => found.push(Vec::new()),
            b'\\' => found.last_mut().into_iter().for_each(|folder| folder.extend(bytes.next())),
            byte => found.last_mut().into_iter().for_each(|folder| folder.push(byte)),
        }
    }
    found.retain(|folder| !folder.is_empty());
    found
}

fn without_backslashes(value: &[u8]) -> Vec<u8> {
    let mut bytes = value.iter().copied();
    let mut plain = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        plain.extend(if byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mountinfo::{Strings, parse};

    #[test]
    fn file_systems_by_what_is_behind_them() {
        for (fs_type, dev, want) in [
            ("ext4", (259, 1), FsClass::Block),
            ("xfs", (8, 1), FsClass::Block),
            ("f2fs", (8, 2), FsClass::Block),
            ("fuseblk", (8, 3), FsClass::Block),
            ("btrfs", (0, 31), FsClass::Block),
            ("zfs", (0, 40), FsClass::Block),
            ("tmpfs", (0, 25), FsClass::Memory),
            ("ramfs", (0, 2), FsClass::Memory),
            ("nfs", (0, 50), FsClass::Network),
            ("nfs4", (0, 50), FsClass::Network),
            ("cifs", (0, 51), FsClass::Network),
            ("smb3", (0, 51), FsClass::Network),
            ("ceph", (0, 52), FsClass::Network),
            ("lustre", (0, 53), FsClass::Network),
            ("gpfs", (0, 54), FsClass::Network),
            ("beegfs", (0, 55), FsClass::Network),
            ("9p", (0, 56), FsClass::Network),
            ("virtiofs", (0, 57), FsClass::Network),
            ("fuse", (0, 58), FsClass::Fuse),
            ("fuse.s3fs", (0, 58), FsClass::Fuse),
            ("fuse.glusterfs", (0, 58), FsClass::Fuse),
            ("overlay", (0, 59), FsClass::Stacked),
            ("proc", (0, 60), FsClass::Pseudo),
            ("cgroup2", (0, 61), FsClass::Pseudo),
            ("novelfs", (0, 62), FsClass::Unknown),
        ] {
            assert_eq!(class(fs_type.as_bytes(), dev), want, "{fs_type}");
        }
        assert_eq!(class(b"fuse.\xff", (0, 1)), FsClass::Fuse);
    }

    #[test]
    fn fuse_tells_its_kind() {
        assert_eq!(fuse_subtype(b"fuse.gcsfuse"), Some(&b"gcsfuse"[..]));
        assert_eq!(fuse_subtype(b"fuseblk.ntfs"), Some(&b"ntfs"[..]));
        for plain in ["fuse", "fuse.", "ext4"] {
            assert_eq!(fuse_subtype(plain.as_bytes()), None, "{plain}");
        }
    }

    fn layers(options: &str) -> (Vec<String>, Option<String>) {
        let line = format!("1 0 0:40 / / rw - overlay overlay {options}");
        let mounts = parse(line.as_bytes(), &mut Strings::default());
        let layers = overlay_layers(&mounts[0]).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (layers.lower.into_iter().map(text).collect(), layers.upper.map(text))
    }

    #[test]
    fn an_overlay_names_its_layers() {
        let docker = "rw,lowerdir=/var/lib/docker/overlay2/l/AB:/var/lib/docker/overlay2/l/CD,\
            upperdir=/var/lib/docker/overlay2/9f/diff,workdir=/var/lib/docker/overlay2/9f/work,nouserxattr";
        let (lower, upper) = layers(docker);
        assert_eq!(lower, ["/var/lib/docker/overlay2/l/AB", "/var/lib/docker/overlay2/l/CD"]);
        assert_eq!(upper.as_deref(), Some("/var/lib/docker/overlay2/9f/diff"));
        assert_eq!(layers("ro,lowerdir=/a").1, None);
        // The kernel writes a backslash as \134, a comma as \054.
        assert_eq!(layers("lowerdir=/a\\134:b:/c\\054d::/data").0, ["/a:b", "/c,d", "/data"]);
        assert_eq!(layers("lowerdir+=/a:b,lowerdir+=/c,datadir+=/d").0, ["/a:b", "/c", "/d"]);
    }

    #[test]
    fn only_overlays_have_layers() {
        let mounts = parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw,lowerdir=/a", &mut Strings::default());
        assert_eq!(overlay_layers(&mounts[0]), None);
    }
}
