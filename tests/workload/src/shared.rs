//! Memory that parent and forked children share.

use std::io;

use anyhow::{Context, Result};

/// Types for which all zeroes is a value and which several processes may use at once.
///
/// # Safety
/// Implement it only for structs of atomics.
pub unsafe trait Atomics: Sync {}

/// A `T` of zeroes, shared with every child forked from now on. It is never unmapped.
pub fn zeroed<T: Atomics>() -> Result<&'static T> {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh anonymous mapping, no address asked for.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<T>(), prot, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error()).context("mmap");
    }
    // SAFETY: page-aligned, zeroed, never unmapped, and `T` is atomics alone.
    Ok(unsafe { &*at.cast::<T>() })
}
