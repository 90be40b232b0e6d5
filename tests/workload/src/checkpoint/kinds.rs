//! The calls of each kind. All start with one openat and end with one close; every call is counted and timed.

use std::path::Path;

use anyhow::Result;

use crate::counted::c_path;
use crate::tally::Tally;

/// Bytes a writev of the plain kind, and bytes between its fsyncs.
const PLAIN_WRITE: usize = 4 << 20;
const PLAIN_SYNC: usize = 64 << 20;
/// Calls of torch.save, whatever the size.
const TORCH_WRITES: u64 = 77;
/// Calls of a distributed checkpoint.
const DISTRIBUTED_WRITES: u64 = 226;
/// Bytes a write of safetensors.
const SAFETENSORS_WRITE: u64 = 8 << 20;
/// Bytes a write of small-sync.
pub const RECORD: u64 = 512;

const CREATE: libc::c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;

/// Writev of 4 MiB in four buffers, an fsync after each 64 MiB and at the end.
pub fn plain(path: &Path, bytes: u64) -> Result<Tally> {
    let (mut tally, path) = (Tally::default(), c_path(path)?);
    let buffer = vec![0xc4; PLAIN_WRITE.min(bytes as usize)];
    let fd = tally.open(&path, CREATE)?;
    let (mut left, mut unsynced) = (bytes as usize, 0);
    while left > 0 {
        let piece = &buffer[..left.min(buffer.len())];
        let quarters: Vec<&[u8]> = piece.chunks(piece.len().div_ceil(4)).collect();
        tally.writev_all(fd, &quarters)?;
        left -= piece.len();
        unsynced += piece.len();
        if unsynced >= PLAIN_SYNC || left == 0 {
            tally.fsync(fd)?;
            unsynced = 0;
        }
    }
    tally.close(fd)?;
    done(tally, bytes)
}

/// 77 writev of two buffers each: a header of 64 bytes, and a tensor.
pub fn torch_save(path: &Path, bytes: u64) -> Result<Tally> {
    let (mut tally, path) = (Tally::default(), c_path(path)?);
    let pieces = pieces(bytes, TORCH_WRITES);
    let buffer = buffer(&pieces);
    let fd = tally.open(&path, CREATE)?;
    for &piece in &pieces {
        let (header, tensor) = buffer[..piece].split_at(piece.min(64));
        tally.writev_all(fd, &[header, tensor])?;
    }
    tally.close(fd)?;
    done(tally, bytes)
}

/// 226 writes, the first fsync after the first half of them, the second after the last; then a rename.
pub fn distributed(path: &Path, temporary: &Path, bytes: u64) -> Result<Tally> {
    let (mut tally, path, temporary) = (Tally::default(), c_path(path)?, c_path(temporary)?);
    let pieces = pieces(bytes, DISTRIBUTED_WRITES);
    let buffer = buffer(&pieces);
    let fd = tally.open(&temporary, CREATE)?;
    for half in pieces.chunks(pieces.len() / 2) {
        for &piece in half {
            tally.write_all(fd, &buffer[..piece])?;
        }
        tally.fsync(fd)?;
    }
    tally.close(fd)?;
    tally.rename(&temporary, &path)?;
    done(tally, bytes)
}

/// Writes of 8 MiB (the last one shorter), no fsync, then a rename.
pub fn safetensors(path: &Path, temporary: &Path, bytes: u64) -> Result<Tally> {
    let (mut tally, path, temporary) = (Tally::default(), c_path(path)?, c_path(temporary)?);
    let buffer = vec![0xc4; SAFETENSORS_WRITE.min(bytes) as usize];
    let fd = tally.open(&temporary, CREATE)?;
    let mut left = bytes as usize;
    while left > 0 {
        let piece = &buffer[..left.min(buffer.len())];
        tally.write_all(fd, piece)?;
        left -= piece.len();
    }
    tally.close(fd)?;
    tally.rename(&temporary, &path)?;
    done(tally, bytes)
}

/// `writes` records of 512 bytes appended, an fsync after each.
pub fn small_sync(path: &Path, writes: u64) -> Result<Tally> {
    let (mut tally, path) = (Tally::default(), c_path(path)?);
    let fd = tally.open(&path, CREATE | libc::O_APPEND)?;
    for _ in 0..writes {
        tally.write_all(fd, &[0x6c; RECORD as usize])?;
        tally.fsync(fd)?;
    }
    tally.close(fd)?;
    done(tally, writes * RECORD)
}

/// Cuts `bytes` into `count` pieces that differ by at most one byte.
fn pieces(bytes: u64, count: u64) -> Vec<usize> {
    (0..count).map(|piece| (bytes * (piece + 1) / count - bytes * piece / count) as usize).collect()
}

fn buffer(pieces: &[usize]) -> Vec<u8> {
    vec![0xc4; pieces.iter().copied().max().unwrap_or(0)]
}

fn done(mut tally: Tally, bytes: u64) -> Result<Tally> {
    tally.file_sizes = vec![bytes];
    let fsyncs = tally.meta.get("fsync").map_or(0, |op| op.count);
    tally.extra.insert("fsyncs".into(), fsyncs.into());
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_sum_to_the_whole() {
        for (bytes, count) in [(200 << 20, 77), (1 << 20, 226), (100, 77)] {
            let pieces = pieces(bytes, count);
            assert_eq!((pieces.len() as u64, pieces.iter().sum::<usize>() as u64), (count, bytes));
            let (least, most) = (pieces.iter().min().unwrap(), pieces.iter().max().unwrap());
            assert!(most - least <= 1);
        }
    }
}
