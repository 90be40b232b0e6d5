//! Reads that fail with a known errno, one at a time, beside as many that do not.

use std::ffi::CStr;
use std::os::fd::RawFd;

use anyhow::{Result, ensure};

use super::{Interface, Queue, Transfer};
use crate::dio::Aligned;
use crate::tally::Tally;

const SIZE: usize = 4096;
/// A file descriptor that is never open here.
const CLOSED: RawFd = 987;

/// What a read meets: descriptor, address, bytes, offset and what it returns.
type Case = (RawFd, *mut u8, usize, u64, isize);

/// Makes `rounds` reads of each kind from a file of `bytes`. Those of a descriptor that is not open touch no file: they are
/// told apart from the tally. AIO refuses at submission what io_uring finds out later, so those cases are io_uring's alone.
pub fn work(interface: Interface, path: &CStr, bytes: u64, direct: bool, rounds: u64) -> Result<Tally> {
    let mut tally = Tally { file_sizes: vec![bytes], ..Tally::default() };
    let mut open = |flags| tally.open(path, flags | libc::O_CLOEXEC);
    let reader = open(libc::O_RDONLY)?;
    let writer = open(libc::O_WRONLY)?;
    let past_the_cache = direct.then(|| open(libc::O_RDONLY | libc::O_DIRECT)).transpose()?;
    let buffer = Aligned::new(SIZE)?;
    let (somewhere, nowhere) = (buffer.address(), std::ptr::without_provenance_mut(1));
    let mut cases: Vec<Case> = vec![
        (reader, somewhere, SIZE, 0, SIZE as isize),
        (reader, nowhere, SIZE, 0, -(libc::EFAULT as isize)),
    ];
    if let Some(fd) = past_the_cache {
        // Neither the offset nor the length is a multiple of a sector.
        cases.push((fd, somewhere, 511, 1, -(libc::EINVAL as isize)));
    }
    let uring = interface == Interface::Uring;
    if uring {
        cases.push((writer, somewhere, SIZE, 0, -(libc::EBADF as isize)));
        cases.push((reader, somewhere, SIZE, (-4096i64) as u64, -(libc::EINVAL as isize)));
    }
    match interface.queue(1) {
        Ok(mut queue) => {
            for _ in 0..rounds {
                for &case in &cases {
                    tally.read.add(interface.form(), case.2, one(queue.as_mut(), case)?);
                }
                if uring {
                    one(queue.as_mut(), (CLOSED, somewhere, SIZE, 0, -(libc::EBADF as isize)))?;
                }
            }
            tally.extra.insert("closed_fd_reads".into(), if uring { rounds } else { 0 }.into());
            // As elsewhere: a close of the library's is not counted.
            std::mem::forget(queue);
        }
        Err(lacking) => lacking.tell(&mut tally),
    }
    for fd in [Some(reader), Some(writer), past_the_cache].into_iter().flatten() {
        tally.close(fd)?;
    }
    Ok(tally)
}

/// Makes one read, which must return what the case says.
fn one(queue: &mut dyn Queue, (fd, address, bytes, offset, expected): Case) -> Result<isize> {
    let transfer = Transfer { fd, write: false, address, bytes, offset };
    // SAFETY: the buffer outlives the read, which is reaped below; the other address is never mapped, so the kernel refuses it.
    unsafe { queue.push(0, transfer)? };
    let mut returned = None;
    queue.submit_and_reap(&mut |_, ret| returned = Some(ret))?;
    ensure!(returned == Some(expected), "a read of {bytes} bytes at {offset} returned {returned:?}");
    Ok(expected)
}
