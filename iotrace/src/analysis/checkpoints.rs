//! Checkpoints: what they wrote, and how long their writer was held up.

use super::{CheckpointWrites, MOST_PIDS, Pattern, at_least};
use crate::model::Trace;

/// Of the trace, in per cent: files that only by the way they were written count as checkpoints (a compiler renames its
/// output too) are told of from this stall on.
const STALL_PERCENT: u64 = 1;

/// Sums up the checkpoints; that a file is one was judged, by rules that it carries, when it was written.
pub fn find(trace: &Trace) -> Option<Pattern> {
    let list = &trace.files.checkpoints;
    let longest = list.iter().max_by_key(|of| (of.stall_ns, std::cmp::Reverse(of.began_ns)))?;
    let mut found = CheckpointWrites {
        files: list.len() as u64,
        duration_ns: trace.meta.duration_ns,
        ..CheckpointWrites::default()
    };
    let mut pids = vec![longest.pid];
    for of in list {
        found.bytes += of.bytes;
        found.writes += of.writes;
        found.syncs += of.syncs;
        found.stall_ns += of.stall_ns;
        if !pids.contains(&of.pid) {
            pids.push(of.pid);
        }
    }
    let named = list.iter().any(|of| of.rules.contains(&"name"));
    if !named && !at_least(found.stall_ns, STALL_PERCENT, found.duration_ns) {
        return None;
    }
    pids.truncate(MOST_PIDS);
    let detail = longest.rules.join(", ");
    Some(Pattern { detail, ..Pattern::new(found, pids, Some(longest.path.clone())) })
}
