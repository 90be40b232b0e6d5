//! Waits that end by a time that was asked for.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use anyhow::Result;

use super::Meter;
use crate::sys;

const EVERY: Duration = Duration::from_millis(20);

/// nanosleep, until time is up.
pub fn sleep(meter: &mut Meter) -> Result<()> {
    while !meter.is_over() {
        meter.call(|| std::thread::sleep(EVERY));
    }
    Ok(())
}

/// poll and epoll_wait of a pipe that nobody writes to, in turn.
pub fn poll(meter: &mut Meter) -> Result<()> {
    let (reader, _writer) = sys::pipe()?;
    // SAFETY: no address is passed.
    let epoll = sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: just opened, no other owner.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    let (fd, timeout) = (reader.as_raw_fd(), EVERY.as_millis() as libc::c_int);
    // SAFETY: a live event.
    sys::check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
    while !meter.is_over() {
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        sys::check(meter.call(|| unsafe { libc::poll(&raw mut polled, 1, timeout) }))?;
        let epoll = epoll.as_raw_fd();
        // SAFETY: room for one event.
        sys::check(meter.call(|| unsafe { libc::epoll_wait(epoll, &raw mut event, 1, timeout) }))?;
    }
    Ok(())
}

/// Waits on a futex that nobody wakes.
pub fn futex(meter: &mut Meter) -> Result<()> {
    while !meter.is_over() {
        meter.call(|| wait_on_futex(Some(EVERY)));
    }
    Ok(())
}

/// Waits on a futex that nobody wakes; without a timeout for ever.
pub fn wait_on_futex(timeout: Option<Duration>) {
    let word = AtomicU32::new(0);
    let time = timeout
        .map(|time| libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a live word, and a live timeout or none.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, time) };
}
