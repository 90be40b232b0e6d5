//! Mounts that nobody else sees and that are gone with the last process of their namespace, however it ends.

use std::ffi::CString;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use crate::counted::c_path;
use crate::sys;

/// Gives the calling process a mount namespace of its own. Children share it.
pub fn leave_namespace() -> Result<()> {
    // SAFETY: no address is passed.
    sys::check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).context("unshare")?;
    make_private()
}

/// Makes what is mounted from now on in this namespace invisible to others.
pub fn make_private() -> Result<()> {
    let (none, slash, private) = (c"none".as_ptr(), c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: live C strings; no type, no data.
    sys::check(unsafe { libc::mount(none, slash, std::ptr::null(), private, std::ptr::null()) })
        .context("making / private")
        .map(drop)
}

/// Mounts a file system of `kind` at `target`, with its options.
pub fn mount(source: &str, target: &Path, kind: &str, options: &str) -> io::Result<Mounted> {
    let at = c_path(target).map_err(io::Error::other)?;
    let (source, kind, options) = (CString::new(source)?, CString::new(kind)?, CString::new(options)?);
    // SAFETY: live C strings.
    sys::check(unsafe {
        libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
    })?;
    Ok(Mounted(at))
}

/// Unmounts `target` as soon as nobody uses it.
pub fn detach(target: &CString) {
    // SAFETY: a live C string. That nothing is mounted there is what is wanted.
    unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
}

/// Something mounted, detached when dropped.
pub struct Mounted(CString);

impl Drop for Mounted {
    fn drop(&mut self) {
        detach(&self.0);
    }
}
