//! Storage behind a server or a daemon: no block request tells how long it takes, the wait does.

use super::{Pattern, RemoteStorage, at_least};
use crate::model::{FileSystem, Trace, wait_ns};

/// Of the wait for all files, in per cent ...
const WAIT_PERCENT: u64 = 10;
/// ... and at least so long.
const LEAST_WAIT_NS: u64 = 10_000_000;

/// Finds each such file system that was waited for.
pub fn find(trace: &Trace) -> Vec<Pattern> {
    let list = &trace.files.file_systems;
    let all_wait_ns = list.iter().map(|of| wait_ns(&of.totals)).sum();
    let remote = list.iter().filter(|of| matches!(of.backing, "network" | "fuse"));
    let waited = remote.filter(|of| {
        let wait = wait_ns(&of.totals);
        wait >= LEAST_WAIT_NS && at_least(wait, WAIT_PERCENT, all_wait_ns)
    });
    waited.map(|of| pattern(of, all_wait_ns)).collect()
}

fn pattern(of: &FileSystem, all_wait_ns: u64) -> Pattern {
    let found = RemoteStorage {
        wait_ns: wait_ns(&of.totals),
        all_wait_ns,
        files: of.files,
        opens: of.opens,
        read_bytes: of.totals.read_bytes,
        written_bytes: of.totals.written_bytes,
    };
    let behind = if of.backing == "fuse" { "a FUSE daemon" } else { "a server" };
    let detail = format!("{}, behind it {behind}", of.fs_type);
    Pattern { detail, ..Pattern::new(found, Vec::new(), Some(of.mount_point.clone())) }
}
