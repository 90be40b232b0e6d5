//! Calls on a regular file that fail with a known errno, move less than asked for, or meet the end of the file.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::tally::Tally;
use crate::{child, sys, truth};

const SIZE: usize = 4096;
const FILE_SIZE: u64 = 10_000;
/// RLIMIT_FSIZE of the child: a write that crosses it is short, one beyond it is EFBIG.
const LIMIT: u64 = 1 << 20;

/// Makes `calls` of each kind in one child named `errors`. Calls on an fd that is not open, and on a folder, touch no
/// regular file: they are told apart from the tally.
pub fn run(dir: &Path, calls: u64) -> Result<()> {
    let path = dir.join("errors");
    let told = child::run(b"errors", || {
        let mut tally = Tally::default();
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        file.set_len(FILE_SIZE)?;
        let (reader, writer) = (File::open(&path)?, OpenOptions::new().write(true).open(&path)?);
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).ok();
        let folder = File::open(dir)?;
        limit_file_size()?;
        let mut buffer = vec![0x5a; SIZE];
        for _ in 0..calls {
            tally.read.add("read", SIZE, sys::read(&writer, &mut buffer)); // EBADF: open for writing only
            tally.write.add("pwrite64", SIZE, sys::pwrite64(&reader, &buffer, 0)); // EBADF
            tally.read.add("read", SIZE, sys::read_into_nowhere(&reader, SIZE)); // EFAULT
            tally.write.add("write", SIZE, sys::write_from_nowhere(&writer, SIZE)); // EFAULT
            tally.read.add("pread64", SIZE, sys::pread64(&reader, &mut buffer, 8192)); // 1808: short
            tally.read.add("pread64", SIZE, sys::pread64(&reader, &mut buffer, FILE_SIZE)); // 0: end of file
            tally.read.add("pread64", SIZE, sys::pread64(&reader, &mut buffer, 0)); // whole
            if let Some(direct) = &direct {
                // EINVAL: neither the offset nor the length is a multiple of a sector.
                tally.read.add("pread64", 511, sys::pread64(direct, &mut buffer[..511], 1));
            }
            ensure!(sys::read(&Closed, &mut buffer) == -(libc::EBADF as isize), "fd {} is open", Closed::FD);
            let ret = sys::read(&folder, &mut buffer);
            ensure!(ret == -(libc::EISDIR as isize), "reading a folder returned {ret}");
        }
        for _ in 0..calls {
            tally.write.add("pwrite64", SIZE, sys::pwrite64(&writer, &buffer, LIMIT - 1000)); // 1000: short
            tally.write.add("pwrite64", SIZE, sys::pwrite64(&writer, &buffer, LIMIT)); // EFBIG
        }
        tally.file_sizes = vec![file.metadata()?.len()];
        Ok(tally)
    })?;
    truth::print("errors", &[told], json!({"calls": calls, "closed_fd_reads": calls, "folder_reads": calls}))
}

/// A file descriptor that is never open here.
struct Closed;

impl Closed {
    const FD: RawFd = 987;
}

impl AsRawFd for Closed {
    fn as_raw_fd(&self) -> RawFd {
        Self::FD
    }
}

fn limit_file_size() -> Result<()> {
    let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
    // SAFETY: a live struct; ignoring a signal installs no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        sys::check(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)).context("RLIMIT_FSIZE")?;
    }
    Ok(())
}
