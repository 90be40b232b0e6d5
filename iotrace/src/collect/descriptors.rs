//! The files a process has open, as /proc/PID/fd and fdinfo show them, and those it has mapped (/proc/PID/maps).

use std::{fs, os::unix::ffi::OsStringExt as _, os::unix::fs::MetadataExt as _, path::Path};

/// One descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Number of the inode behind it, as the kernel side sees it.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Path, without the mark of a file that was deleted.
    pub path: Vec<u8>,
}

/// Descriptors of a process of iotrace's own pid namespace that stand for regular files; none when it is gone.
pub fn regular_files(pid: u32) -> Vec<OpenFile> {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return Vec::new() };
    let open = |entry: fs::DirEntry| {
        let metadata = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        let mut path = fs::read_link(entry.path()).ok()?.into_os_string().into_vec();
        if metadata.nlink() == 0 {
            path.truncate(path.strip_suffix(b" (deleted)").map_or(path.len(), <[u8]>::len));
        }
        // Since 5.14 fdinfo says which inode it is; what stat(2) says of overlayfs is another number.
        let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name())).unwrap_or_default();
        let told = info.lines().find_map(|line| line.strip_prefix("ino:")?.trim().parse().ok());
        Some(OpenFile { ino: told.unwrap_or(metadata.ino()), size: metadata.len(), path })
    };
    entries.filter_map(|entry| open(entry.ok()?)).collect()
}

/// Inode numbers and paths of the files a process has mapped.
pub fn mapped_files(pid: u32) -> Vec<(u64, Vec<u8>)> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut files: Vec<_> = text.split(|&b| b == b'\n').filter_map(mapped_file).collect();
    files.dedup();
    files
}

/// "BEGIN-END PERMISSIONS OFFSET DEV INODE    PATH"
fn mapped_file(line: &[u8]) -> Option<(u64, Vec<u8>)> {
    let mut rest = line;
    for _ in 0..4 {
        rest = &rest[rest.iter().position(|&b| b == b' ')? + 1..];
    }
    let end = rest.iter().position(|&b| b == b' ')?;
    let ino = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let path = rest[end..].trim_ascii_start();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.starts_with(b"/").then(|| (ino, path.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_open_file_is_among_those_of_its_process() {
        let path = std::env::temp_dir().join(format!("iotrace-descriptors-{}", std::process::id()));
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&[7; 1234]).unwrap();
        let ino = file.metadata().unwrap().ino();
        let found = |pid| regular_files(pid).into_iter().find(|open| open.ino == ino && open.size == 1234);
        let at_path = found(std::process::id()).unwrap();
        assert!(at_path.path.ends_with(path.file_name().unwrap().as_encoded_bytes()));
        fs::remove_file(&path).unwrap();
        assert_eq!(found(std::process::id()), Some(at_path));
        drop(file);
        let program = std::env::current_exe().unwrap();
        let mapped = mapped_files(std::process::id());
        let ino = fs::metadata(&program).unwrap().ino();
        assert!(mapped.contains(&(ino, program.into_os_string().into_vec())));
        assert_eq!(found(std::process::id()), None);
    }
}
