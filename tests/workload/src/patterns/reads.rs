//! Patterns of reading one file, each with the truth of its sessions.

use std::ffi::CStr;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::rng::Rng;
use crate::tally::Tally;

/// Size of the file that is read three times, in bytes.
pub const REPEATED_SIZE: u64 = 300_000;
/// Bytes a read of the sequential pattern, and the distance of the strided one.
const BLOCK: u64 = 64 << 10;
/// Bytes a read of the strided and the random pattern.
const PAGE: u64 = 4096;
/// One in this many pages is read by the random pattern.
const SPARSE: usize = 8;

/// Places and the bytes read at each.
pub struct Places {
    offsets: Vec<u64>,
    each: u64,
}

/// Every block, in order.
pub fn sequential(size: u64) -> Places {
    Places { offsets: (0..size / BLOCK).map(|block| block * BLOCK).collect(), each: BLOCK }
}

/// The first page of every block, in order.
pub fn strided(size: u64) -> Places {
    Places { offsets: (0..size / BLOCK).map(|block| block * BLOCK).collect(), each: PAGE }
}

/// An eighth of the pages, no page twice, in random order; never one right after the page before it in the file.
pub fn random(size: u64) -> Places {
    let mut pages: Vec<u64> = (0..size / PAGE).collect();
    let mut rng = Rng::new(42);
    rng.shuffle(&mut pages);
    pages.truncate(pages.len() / SPARSE);
    let mut offsets: Vec<u64> = Vec::with_capacity(pages.len());
    for page in pages {
        if offsets.last() != Some(&(page.wrapping_sub(1).wrapping_mul(PAGE))) {
            offsets.push(page * PAGE);
        }
    }
    Places { offsets, each: PAGE }
}

/// One session of preads at the places.
pub fn at_places(name: &str, path: &CStr, size: u64, places: &Places, tally: &mut Tally) -> Result<Value> {
    let mut buffer = vec![0; places.each as usize];
    let fd = tally.open(path, libc::O_RDONLY | libc::O_CLOEXEC)?;
    for &offset in &places.offsets {
        ensure!(tally.pread_some(fd, &mut buffer, offset)? == buffer.len(), "a short pread at {offset}");
    }
    tally.close(fd)?;
    tally.file_sizes.push(size);
    let reads = places.offsets.len() as u64;
    // The first read follows none; it is sequential if it begins the file.
    let ends = std::iter::once(0).chain(places.offsets.iter().map(|offset| offset + places.each));
    let sequential = places.offsets.iter().zip(ends).filter(|&(&offset, end)| offset == end).count();
    Ok(json!({
        "pattern": name, "path": path.to_string_lossy(), "size": size, "sessions": 1, "form": "pread64",
        "reads": reads, "bytes": reads * places.each, "read_size": places.each,
        "sequential_reads": sequential, "whole": reads * places.each == size,
    }))
}

/// `sessions` sessions, each of reads of `each` bytes until one returns 0.
pub fn through(
    name: &str,
    path: &CStr,
    size: u64,
    each: u64,
    sessions: u64,
    tally: &mut Tally,
) -> Result<Value> {
    let mut buffer = vec![0; each as usize];
    for _ in 0..sessions {
        let fd = tally.open(path, libc::O_RDONLY | libc::O_CLOEXEC)?;
        let mut moved = 0;
        loop {
            match tally.read_some(fd, &mut buffer)? as u64 {
                0 => break,
                some => moved += some,
            }
        }
        ensure!(moved == size, "{moved} of {size} bytes");
        tally.close(fd)?;
    }
    tally.file_sizes.push(size);
    let reads = (size.div_ceil(each) + 1) * sessions;
    Ok(json!({
        "pattern": name, "path": path.to_string_lossy(), "size": size, "sessions": sessions, "form": "read",
        "reads": reads, "bytes": size * sessions, "read_size": each, "eof_reads": sessions,
        "sequential_reads": reads, "whole": true,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_places_are_distinct_and_never_continue_a_read() {
        let places = random(64 << 20).offsets;
        assert!(places.len() > 2000, "{}", places.len());
        assert!(places.windows(2).all(|pair| pair[1] != pair[0] + PAGE));
        let distinct: std::collections::BTreeSet<_> = places.iter().collect();
        assert_eq!(distinct.len(), places.len());
    }
}
