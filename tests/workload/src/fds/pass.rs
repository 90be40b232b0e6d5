//! A descriptor sent through a socket (SCM_RIGHTS), with one byte of data.

use std::mem::size_of;
use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Context, Result, ensure};

/// Room for the header of one control message and one descriptor, aligned as the kernel wants it.
type Control = [u64; 4];

/// Sends `fd`.
pub fn send(socket: &impl AsRawFd, fd: RawFd) -> Result<()> {
    let (mut byte, mut control) = ([0u8], Control::default());
    with_message(&mut byte, &mut control, |message| {
        // SAFETY: the control buffer has room for one header and one number; the lengths say so.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
            libc::sendmsg(socket.as_raw_fd(), message, 0)
        }
    })
    .context("sendmsg")
}

/// Receives a descriptor; it is close-on-exec.
pub fn receive(socket: &impl AsRawFd) -> Result<RawFd> {
    let (mut byte, mut control) = ([0u8], Control::default());
    let mut fd = -1;
    with_message(&mut byte, &mut control, |message| {
        // SAFETY: the message describes live buffers; the header is looked at only if the kernel wrote one.
        unsafe {
            let ret = libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC);
            let header = libc::CMSG_FIRSTHDR(message);
            if ret == 1 && !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
                fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
            }
            ret
        }
    })
    .context("recvmsg")?;
    ensure!(fd >= 0, "no descriptor came");
    Ok(fd)
}

/// Calls `call` with a message of one byte and room for one descriptor; it must move the one byte.
fn with_message(
    byte: &mut [u8; 1],
    control: &mut Control,
    call: impl FnOnce(*mut libc::msghdr) -> isize,
) -> std::io::Result<()> {
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: all zeroes is a valid msghdr: no name, no buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: a function of its argument alone.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    match call(&raw mut message) {
        1 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
