//! The forms of read and write on what is not storage: a pipe, a socket, character devices and procfs.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::sys::{self, Form};
use crate::tally::Tally;
use crate::{child, truth};

const SIZE: usize = 4096;

/// Runs `calls` of each form on each kind of file, in one child named `apart`. Pipe-to-pipe splices are made only on
/// request and are left out of the tally.
pub fn run(calls: u64, splice: bool) -> Result<()> {
    let told = child::run(b"apart", || {
        let mut tally = Tally::default();
        let (reader, writer) = sys::pipe()?;
        through(&reader, &writer, "pipe", calls, &mut tally)?;
        let (a, b) = UnixStream::pair()?;
        through(&a, &b, "socket", calls, &mut tally)?;
        devices(calls, &mut tally)?;
        if splice {
            splices(calls)?;
        }
        Ok(tally)
    })?;
    truth::print(
        "apart",
        &[told],
        json!({"calls": calls, "size": SIZE, "pipe_to_pipe_splices": u64::from(splice) * calls}),
    )
}

/// Writes into one end and reads from the other, by every form that needs no position.
fn through(
    from: &impl AsRawFd,
    to: &impl AsRawFd,
    kind: &'static str,
    calls: u64,
    tally: &mut Tally,
) -> Result<()> {
    let mut buffer = vec![0x5a; SIZE];
    for _ in 0..calls {
        for form in [Form::Write, Form::Writev, Form::Pwritev2] {
            let ret = match form {
                Form::Write => sys::write(to, &buffer),
                _ => sys::vector(form, to, &mut buffer, -1),
            };
            ensure!(ret == SIZE as isize, "{form:?} on a {kind} returned {ret}");
            tally.apart_write(kind, ret);
        }
        for form in [Form::Read, Form::Readv, Form::Preadv2] {
            let ret = match form {
                Form::Read => sys::read(from, &mut buffer),
                _ => sys::vector(form, from, &mut buffer, -1),
            };
            ensure!(ret == SIZE as isize, "{form:?} on a {kind} returned {ret}");
            tally.apart_read(kind, ret);
        }
    }
    Ok(())
}

fn devices(calls: u64, tally: &mut Tally) -> Result<()> {
    let (zero, status) = (File::open("/dev/zero")?, File::open("/proc/self/status")?);
    let null = File::options().write(true).open("/dev/null")?;
    let mut buffer = vec![0; SIZE];
    for _ in 0..calls {
        tally.apart_read("char", sys::read(&zero, &mut buffer));
        tally.apart_read("char", sys::pread64(&zero, &mut buffer, 0));
        tally.apart_write("char", sys::write(&null, &buffer));
        tally.apart_read("pseudo", sys::pread64(&status, &mut buffer, 0));
    }
    Ok(())
}

fn splices(calls: u64) -> Result<()> {
    let (first, second) = (sys::pipe()?, sys::pipe()?);
    let mut buffer = vec![0; SIZE];
    for _ in 0..calls {
        sys::write(&first.1, &buffer);
        let ret = sys::splice(&first.0, &second.1, SIZE);
        ensure!(ret == SIZE as isize, "splice from pipe to pipe returned {ret}");
        sys::read(&second.0, &mut buffer);
    }
    Ok(())
}
