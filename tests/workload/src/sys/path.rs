//! System calls on paths and on descriptors that move no data. Paths are C strings made beforehand; every function
//! returns what the kernel returned: a descriptor, bytes, 0, or a negative errno.

use std::ffi::CStr;
use std::os::fd::RawFd;

use super::raw;

/// Room for one getdents64, in bytes: what glibc's readdir gives.
pub const DIRENTS: usize = 32768;

const AT: usize = libc::AT_FDCWD as usize;

fn at(path: &CStr) -> usize {
    path.as_ptr() as usize
}

/// A call that only some architectures have: -ENOSYS elsewhere, without a call.
///
/// # Safety
/// As of [`raw`].
unsafe fn legacy(nr: Option<libc::c_long>, args: [usize; 6]) -> isize {
    match nr {
        // SAFETY: the caller vouches for the addresses.
        Some(nr) => unsafe { raw(nr, args) },
        None => -(libc::ENOSYS as isize),
    }
}

/// The older calls that take no folder descriptor.
#[cfg(target_arch = "x86_64")]
mod nr {
    use libc::c_long;
    pub const OPEN: Option<c_long> = Some(libc::SYS_open);
    pub const CREAT: Option<c_long> = Some(libc::SYS_creat);
    pub const STAT: Option<c_long> = Some(libc::SYS_stat);
    pub const LSTAT: Option<c_long> = Some(libc::SYS_lstat);
    pub const RENAME: Option<c_long> = Some(libc::SYS_rename);
    pub const UNLINK: Option<c_long> = Some(libc::SYS_unlink);
}

/// Newer architectures lack them.
#[cfg(not(target_arch = "x86_64"))]
mod nr {
    use libc::c_long;
    pub const OPEN: Option<c_long> = None;
    pub const CREAT: Option<c_long> = None;
    pub const STAT: Option<c_long> = None;
    pub const LSTAT: Option<c_long> = None;
    pub const RENAME: Option<c_long> = None;
    pub const UNLINK: Option<c_long> = None;
}

/// Whether this architecture has `form` at all.
pub fn has(form: &str) -> bool {
    !matches!(form, "open" | "creat" | "stat" | "lstat" | "rename" | "unlink") || nr::OPEN.is_some()
}

/// Opens by `openat`, `open`, `creat` (which takes no flags) or `openat2`; mode 0644.
pub fn open(form: &'static str, path: &CStr, flags: libc::c_int) -> isize {
    let (path, flags, mode) = (at(path), flags as usize, 0o644);
    // SAFETY: a live C string; openat2's struct lives through the call.
    unsafe {
        match form {
            "open" => legacy(nr::OPEN, [path, flags, mode, 0, 0, 0]),
            "creat" => legacy(nr::CREAT, [path, mode, 0, 0, 0, 0]),
            "openat2" => {
                let mode = if flags & libc::O_CREAT as usize != 0 { mode as u64 } else { 0 };
                // struct open_how: flags, mode, resolve.
                let how = [flags as u64, mode, 0];
                raw(libc::SYS_openat2, [AT, path, how.as_ptr() as usize, size_of_val(&how), 0, 0])
            }
            _ => raw(libc::SYS_openat, [AT, path, flags, mode, 0, 0]),
        }
    }
}

/// Looks by `newfstatat`, `statx`, `stat`, `lstat`.
pub fn stat(form: &'static str, path: &CStr) -> isize {
    let mut buffer = Room::default();
    let (path, room) = (at(path), buffer.address());
    // SAFETY: a live C string, and room for the larger of struct stat and struct statx.
    unsafe {
        match form {
            "stat" => legacy(nr::STAT, [path, room, 0, 0, 0, 0]),
            "lstat" => legacy(nr::LSTAT, [path, room, 0, 0, 0, 0]),
            "statx" => raw(libc::SYS_statx, [AT, path, 0, libc::STATX_BASIC_STATS as usize, room, 0]),
            _ => raw(libc::SYS_newfstatat, [AT, path, room, 0, 0, 0]),
        }
    }
}

/// `fstat`.
pub fn fstat(fd: RawFd) -> isize {
    let mut buffer = Room::default();
    // SAFETY: room for struct stat.
    unsafe { raw(libc::SYS_fstat, [fd as usize, buffer.address(), 0, 0, 0, 0]) }
}

/// Room for struct stat (144 bytes) and struct statx (256 bytes).
#[derive(Default)]
struct Room([u64; 32]);

impl Room {
    fn address(&mut self) -> usize {
        self.0.as_mut_ptr() as usize
    }
}

/// `close`.
pub fn close(fd: RawFd) -> isize {
    // SAFETY: no address is passed; the caller owns the descriptor, or means one that is not open.
    unsafe { raw(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) }
}

/// `getdents64` into `buffer`; 0 at the end of the folder.
pub fn getdents64(fd: RawFd, buffer: &mut [u8]) -> isize {
    let args = [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
    // SAFETY: the buffer is live and of the length given.
    unsafe { raw(libc::SYS_getdents64, args) }
}

/// Renames by `rename`, `renameat`, `renameat2` (which must not replace).
pub fn rename(form: &'static str, from: &CStr, to: &CStr) -> isize {
    let (from, to) = (at(from), at(to));
    // SAFETY: live C strings.
    unsafe {
        match form {
            "rename" => legacy(nr::RENAME, [from, to, 0, 0, 0, 0]),
            "renameat" => raw(libc::SYS_renameat, [AT, from, AT, to, 0, 0]),
            _ => raw(libc::SYS_renameat2, [AT, from, AT, to, libc::RENAME_NOREPLACE as usize, 0]),
        }
    }
}

/// Unlinks a file by `unlink` or `unlinkat`.
pub fn unlink(form: &'static str, path: &CStr) -> isize {
    // SAFETY: a live C string.
    unsafe {
        match form {
            "unlink" => legacy(nr::UNLINK, [at(path), 0, 0, 0, 0, 0]),
            _ => raw(libc::SYS_unlinkat, [AT, at(path), 0, 0, 0, 0]),
        }
    }
}

/// Waits for the device by `fsync`, `fdatasync`, `sync_file_range` (the whole file, written and waited for), `syncfs`.
pub fn sync(form: &'static str, fd: RawFd) -> isize {
    let whole =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (nr, flags) = match form {
        "fdatasync" => (libc::SYS_fdatasync, 0),
        "sync_file_range" => (libc::SYS_sync_file_range, whole as usize),
        "syncfs" => (libc::SYS_syncfs, 0),
        _ => (libc::SYS_fsync, 0),
    };
    // SAFETY: no address is passed.
    unsafe { raw(nr, [fd as usize, 0, 0, flags, 0, 0]) }
}

/// Sets a length by `truncate`.
pub fn truncate(path: &CStr, length: u64) -> isize {
    // SAFETY: a live C string.
    unsafe { raw(libc::SYS_truncate, [at(path), length as usize, 0, 0, 0, 0]) }
}

/// Sets a length by `ftruncate`, or allocates up to it by `fallocate`.
pub fn set_length(form: &'static str, fd: RawFd, length: u64) -> isize {
    let (nr, args) = match form {
        "fallocate" => (libc::SYS_fallocate, [fd as usize, 0, 0, length as usize, 0, 0]),
        _ => (libc::SYS_ftruncate, [fd as usize, length as usize, 0, 0, 0, 0]),
    };
    // SAFETY: no address is passed.
    unsafe { raw(nr, args) }
}

/// `lseek` from the start (SEEK_SET) or from the position (SEEK_CUR).
pub fn lseek(fd: RawFd, offset: i64, whence: libc::c_int) -> isize {
    // SAFETY: no address is passed.
    unsafe { raw(libc::SYS_lseek, [fd as usize, offset as usize, whence as usize, 0, 0, 0]) }
}

/// `ioctl(TCGETS)`: is this a terminal? -ENOTTY for a file.
pub fn is_terminal(fd: RawFd) -> isize {
    let mut buffer = Room::default();
    // SAFETY: room for struct termios (60 bytes).
    unsafe { raw(libc::SYS_ioctl, [fd as usize, libc::TCGETS as usize, buffer.address(), 0, 0, 0]) }
}

/// `dup`.
pub fn dup(fd: RawFd) -> isize {
    // SAFETY: no address is passed.
    unsafe { raw(libc::SYS_dup, [fd as usize, 0, 0, 0, 0, 0]) }
}
