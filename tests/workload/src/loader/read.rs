//! What a worker does with each file, call by call as seen of PIL under torch: openat, fstat, ioctl(TCGETS), two
//! lseeks, a read of 4 KiB, a read of the rest, a read that returns 0, close.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::sys::path;
use crate::tally::Tally;

/// First read of a buffered reader, in bytes.
const FIRST: usize = 4096;

/// Reads the files of each share, one share an epoch: numbers of `paths` and of their `sizes` in bytes.
pub fn epochs<'a>(
    paths: &[CString],
    shares: impl Iterator<Item = impl Iterator<Item = &'a u32>>,
    sizes: &[u64],
) -> Result<Tally> {
    let mut tally = Tally::default();
    let largest = sizes.iter().copied().max().unwrap_or(0) as usize;
    let mut buffer = vec![0; largest.max(FIRST)];
    let mut told = Vec::<Value>::new();
    let mut files = BTreeMap::<u32, u64>::new();
    for share in shares {
        let (start, bytes_before, mut opened) = (Instant::now(), tally.read.bytes, 0u64);
        for &number in share {
            let path = &paths[number as usize];
            let size = sizes[number as usize];
            whole_file(path, size, &mut buffer, &mut tally).with_context(|| format!("{path:?}"))?;
            files.insert(number, size);
            opened += 1;
        }
        let bytes = tally.read.bytes - bytes_before;
        told.push(json!({"files": opened, "bytes": bytes, "ns": start.elapsed().as_nanos() as u64}));
    }
    let opens = tally.meta["open"].count;
    tally.file_sizes = files.into_values().collect();
    tally.extra.insert("epochs".into(), told.into());
    tally.extra.insert("ioctls".into(), json!({"count": opens, "errors": {"ENOTTY": opens}}));
    tally.extra.insert("lseeks".into(), (2 * opens).into());
    Ok(tally)
}

/// Reads one file of `size` bytes.
fn whole_file(path: &CStr, size: u64, buffer: &mut [u8], tally: &mut Tally) -> Result<()> {
    let fd = tally.open(path, libc::O_RDONLY | libc::O_CLOEXEC)?;
    tally.fstat(fd)?;
    let ret = path::is_terminal(fd);
    ensure!(ret == -(libc::ENOTTY as isize), "ioctl returned {ret}");
    path::lseek(fd, 0, libc::SEEK_CUR);
    path::lseek(fd, 0, libc::SEEK_SET);
    let mut moved = tally.read_some(fd, &mut buffer[..FIRST])? as u64;
    // One byte more than is left, as a reader asks that wants to see the end.
    let rest = &mut buffer[..(size.saturating_sub(FIRST as u64) + 1) as usize];
    loop {
        match tally.read_some(fd, rest)? as u64 {
            0 => break,
            more => moved += more,
        }
    }
    ensure!(moved == size, "{moved} bytes, not {size}");
    tally.close(fd)
}
