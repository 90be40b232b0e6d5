//! A reader of a pipe or socket, and the writer it waits for.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Meter;
use crate::sys;

/// Time between two writes.
pub const EVERY: Duration = Duration::from_millis(20);

/// The reader's end and the writer's.
pub fn ends(socket: bool) -> Result<[OwnedFd; 2]> {
    if socket {
        let (reader, writer) = UnixStream::pair()?;
        return Ok([reader.into(), writer.into()]);
    }
    let (reader, writer) = sys::pipe()?;
    Ok([reader, writer])
}

/// Reads until time is up.
pub fn read(end: &OwnedFd, meter: &mut Meter) -> Result<()> {
    let mut byte = [0];
    while !meter.is_over() {
        let ret = meter.call(|| sys::read(end, &mut byte));
        ensure!(ret == 1, "the read returned {ret}");
    }
    Ok(())
}

/// Writes a byte now and then, until time is up.
pub fn write(end: &OwnedFd, meter: &mut Meter) -> Result<()> {
    while !meter.is_over() {
        meter.call(|| std::thread::sleep(EVERY));
        let ret = sys::write(end, &[1]);
        ensure!(ret == 1, "the write returned {ret}");
    }
    Ok(())
}
