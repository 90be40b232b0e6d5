//! The system calls themselves, one each, without the retries and fallbacks of a library. Every function returns what
//! the kernel returned: bytes, or a negative errno.

pub mod path;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use clap::ValueEnum;

/// A form of read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Form {
    /// read
    Read,
    /// pread64
    Pread64,
    /// readv
    Readv,
    /// preadv
    Preadv,
    /// preadv2
    Preadv2,
    /// write
    Write,
    /// pwrite64
    Pwrite64,
    /// writev
    Writev,
    /// pwritev
    Pwritev,
    /// pwritev2
    Pwritev2,
    /// sendfile from the file to /dev/null: a read.
    Sendfile,
    /// sendfile from file to file: a read and a write.
    SendfileFile,
    /// splice from the file into a pipe: a read.
    Splice,
    /// splice from a pipe into the file: a write.
    SpliceOut,
    /// copy_file_range from file to file: a read and a write.
    CopyFileRange,
}

impl Form {
    /// The system call's name.
    pub fn syscall(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Pread64 => "pread64",
            Self::Readv => "readv",
            Self::Preadv => "preadv",
            Self::Preadv2 => "preadv2",
            Self::Write => "write",
            Self::Pwrite64 => "pwrite64",
            Self::Writev => "writev",
            Self::Pwritev => "pwritev",
            Self::Pwritev2 => "pwritev2",
            Self::Sendfile | Self::SendfileFile => "sendfile",
            Self::Splice | Self::SpliceOut => "splice",
            Self::CopyFileRange => "copy_file_range",
        }
    }
}

/// A raw system call whose arguments are plain numbers.
///
/// # Safety
/// Addresses among `args` must be valid for what the call does with them, or such that the kernel refuses them.
unsafe fn raw(nr: libc::c_long, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller vouches for the addresses.
    let ret = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    if ret < 0 { -(io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize) } else { ret as isize }
}

fn number(fd: &impl AsRawFd) -> usize {
    fd.as_raw_fd() as usize
}

/// `read`.
pub fn read(fd: &impl AsRawFd, buffer: &mut [u8]) -> isize {
    // SAFETY: the buffer is live and of the length given.
    unsafe { raw(libc::SYS_read, [number(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// `write`.
pub fn write(fd: &impl AsRawFd, buffer: &[u8]) -> isize {
    // SAFETY: the buffer is live and of the length given.
    unsafe { raw(libc::SYS_write, [number(fd), buffer.as_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// `pread64`.
pub fn pread64(fd: &impl AsRawFd, buffer: &mut [u8], offset: u64) -> isize {
    let args = [number(fd), buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the buffer is live and of the length given.
    unsafe { raw(libc::SYS_pread64, args) }
}

/// `pwrite64`.
pub fn pwrite64(fd: &impl AsRawFd, buffer: &[u8], offset: u64) -> isize {
    let args = [number(fd), buffer.as_ptr() as usize, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the buffer is live and of the length given.
    unsafe { raw(libc::SYS_pwrite64, args) }
}

/// `read` into an address that is never mapped: EFAULT.
pub fn read_into_nowhere(fd: &impl AsRawFd, size: usize) -> isize {
    // SAFETY: the first page is never mapped, so the kernel refuses the address.
    unsafe { raw(libc::SYS_read, [number(fd), 1, size, 0, 0, 0]) }
}

/// `write` from an address that is never mapped: EFAULT.
pub fn write_from_nowhere(fd: &impl AsRawFd, size: usize) -> isize {
    // SAFETY: the first page is never mapped, so the kernel refuses the address.
    unsafe { raw(libc::SYS_write, [number(fd), 1, size, 0, 0, 0]) }
}

/// The vector forms, the buffer split into halves. Positional forms take `offset`; -1 means the file position
/// (preadv2 and pwritev2 only).
pub fn vector(form: Form, fd: &impl AsRawFd, buffer: &mut [u8], offset: i64) -> isize {
    let (first, second) = buffer.split_at_mut(buffer.len() / 2);
    let iov =
        [first, second].map(|half| libc::iovec { iov_base: half.as_mut_ptr().cast(), iov_len: half.len() });
    let (nr, positional) = match form {
        Form::Readv => (libc::SYS_readv, false),
        Form::Writev => (libc::SYS_writev, false),
        Form::Preadv => (libc::SYS_preadv, true),
        Form::Pwritev => (libc::SYS_pwritev, true),
        Form::Preadv2 => (libc::SYS_preadv2, true),
        Form::Pwritev2 => (libc::SYS_pwritev2, true),
        _ => return -(libc::EINVAL as isize),
    };
    // The offset goes in two halves; on 64 bits the low one holds all of it, and -1 needs both.
    let (low, high) =
        if positional { (offset as usize, if offset < 0 { usize::MAX } else { 0 }) } else { (0, 0) };
    // SAFETY: the vectors describe the two halves of a live buffer.
    unsafe { raw(nr, [number(fd), iov.as_ptr() as usize, iov.len(), low, high, 0]) }
}

/// `writev` of several live buffers.
pub fn writev(fd: &impl AsRawFd, buffers: &[&[u8]]) -> isize {
    let iov: Vec<libc::iovec> = buffers
        .iter()
        .map(|buffer| libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() })
        .collect();
    // SAFETY: the vectors describe live buffers that the call only reads.
    unsafe { raw(libc::SYS_writev, [number(fd), iov.as_ptr() as usize, iov.len(), 0, 0, 0]) }
}

/// `sendfile` of `size` bytes from `offset` of `input`.
pub fn sendfile(output: &impl AsRawFd, input: &impl AsRawFd, offset: u64, size: usize) -> isize {
    let mut offset = offset as libc::off_t;
    // SAFETY: the offset is a live variable.
    unsafe { raw(libc::SYS_sendfile, [number(output), number(input), &raw mut offset as usize, size, 0, 0]) }
}

/// `splice` of `size` bytes at the positions of both files.
pub fn splice(input: &impl AsRawFd, output: &impl AsRawFd, size: usize) -> isize {
    // SAFETY: no address is passed.
    unsafe { raw(libc::SYS_splice, [number(input), 0, number(output), 0, size, 0]) }
}

/// `copy_file_range` of `size` bytes at the positions of both files.
pub fn copy_file_range(input: &impl AsRawFd, output: &impl AsRawFd, size: usize) -> isize {
    // SAFETY: no address is passed.
    unsafe { raw(libc::SYS_copy_file_range, [number(input), 0, number(output), 0, size, 0]) }
}

/// Drops the clean cached pages of a file.
pub fn drop_cache(file: &File) -> io::Result<()> {
    // SAFETY: no address is passed.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Writes all dirty data of the file system that holds `file`.
pub fn sync_fs(file: &File) -> io::Result<()> {
    // SAFETY: no address is passed.
    check(unsafe { libc::syncfs(file.as_raw_fd()) }).map(drop)
}

/// A pipe: (read end, write end), closed on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for two numbers.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both were just opened and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// A C return value as a result.
pub fn check(ret: libc::c_int) -> io::Result<libc::c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
