//! System calls made, timed and counted in one step, by the op that they are. Paths are C strings made beforehand, so
//! that nothing but the call itself lies between the two looks at the clock.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::sys::{self, path};
use crate::tally::{Op, Tally};

/// A path as the kernel takes it.
pub fn c_path(path: &Path) -> Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Makes a call and returns what it returned and how long it took in nanoseconds.
fn timed(call: impl FnOnce() -> isize) -> (isize, u64) {
    let start = Instant::now();
    let ret = call();
    (ret, start.elapsed().as_nanos() as u64)
}

impl Tally {
    /// Makes a call of `op` by `form` and counts it.
    pub fn call(&mut self, op: &'static str, form: &'static str, call: impl FnOnce() -> isize) -> isize {
        if !path::has(form) {
            self.unsupported.insert(form);
            return -(libc::ENOSYS as isize);
        }
        let (ret, ns) = timed(call);
        if ret == -(libc::ENOSYS as isize) {
            self.unsupported.insert(form);
        }
        let op = self.meta.entry(op).or_default();
        op.add_call(form, ret);
        op.ns += ns;
        ret
    }

    /// Opens a file that must open, by `openat`.
    pub fn open(&mut self, path: &CStr, flags: libc::c_int) -> Result<RawFd> {
        let ret = self.call("open", "openat", || path::open("openat", path, flags));
        ensure!(ret >= 0, "openat of {path:?} returned {ret}");
        Ok(ret as RawFd)
    }

    /// `close`.
    pub fn close(&mut self, fd: RawFd) -> Result<()> {
        let ret = self.call("close", "close", || path::close(fd));
        ensure!(ret == 0, "close of {fd} returned {ret}");
        Ok(())
    }

    /// `fsync`.
    pub fn fsync(&mut self, fd: RawFd) -> Result<()> {
        let ret = self.call("fsync", "fsync", || path::sync("fsync", fd));
        ensure!(ret == 0, "fsync returned {ret}");
        Ok(())
    }

    /// `fstat`.
    pub fn fstat(&mut self, fd: RawFd) -> Result<()> {
        let ret = self.call("stat", "fstat", || path::fstat(fd));
        ensure!(ret == 0, "fstat returned {ret}");
        Ok(())
    }

    /// `rename`, or `renameat2` (without replacing) where the architecture lacks it.
    pub fn rename(&mut self, from: &CStr, to: &CStr) -> Result<()> {
        let form = if path::has("rename") { "rename" } else { "renameat2" };
        let ret = self.call("rename", form, || path::rename(form, from, to));
        ensure!(ret == 0, "{form} of {from:?} returned {ret}");
        Ok(())
    }

    /// `read` that must not fail; 0 at the end.
    pub fn read_some(&mut self, fd: RawFd, buffer: &mut [u8]) -> Result<usize> {
        let (ret, ns) = timed(|| sys::read(&fd, buffer));
        count(&mut self.read, "read", buffer.len(), ret, ns)
    }

    /// `pread64` that must not fail; 0 at the end.
    pub fn pread_some(&mut self, fd: RawFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let (ret, ns) = timed(|| sys::pread64(&fd, buffer, offset));
        count(&mut self.read, "pread64", buffer.len(), ret, ns)
    }

    /// `write` of all of `bytes`.
    pub fn write_all(&mut self, fd: RawFd, bytes: &[u8]) -> Result<()> {
        let (ret, ns) = timed(|| sys::write(&fd, bytes));
        let moved = count(&mut self.write, "write", bytes.len(), ret, ns)?;
        ensure!(moved == bytes.len(), "write of {} bytes returned {moved}", bytes.len());
        Ok(())
    }

    /// `writev` of all of `buffers`.
    pub fn writev_all(&mut self, fd: RawFd, buffers: &[&[u8]]) -> Result<()> {
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        let (ret, ns) = timed(|| sys::writev(&fd, buffers));
        let moved = count(&mut self.write, "writev", bytes, ret, ns)?;
        ensure!(moved == bytes, "writev of {bytes} bytes returned {moved}");
        Ok(())
    }
}

fn count(op: &mut Op, form: &'static str, asked: usize, ret: isize, ns: u64) -> Result<usize> {
    op.add(form, asked, ret);
    op.ns += ns;
    ensure!(ret >= 0, "{form} returned {ret}");
    Ok(ret as usize)
}
