//! The same files read more than once.

use super::{Pattern, RepeatedReads, RepeatedWholeReads, at_least, pids};
use crate::model::{File, Process, Trace};

/// Fewer sessions are not a second epoch.
const LEAST_WHOLE: u64 = 100;
/// Whole reads to a hundred distinct files from which files are read again.
const WHOLE_PERCENT: u64 = 150;
/// A smaller file is in memory after its first read, and cheap.
const LEAST_BYTES: u64 = 128 << 10;
/// Bytes read to a hundred bytes of a file.
const AGAIN_PERCENT: u64 = 200;

/// Finds that most files were read whole again; else, of the files listed, the one of which most was read again.
pub fn find(trace: &Trace) -> Option<Pattern> {
    let files = &trace.files;
    let whole_file = files.sessions.whole_file;
    if whole_file >= LEAST_WHOLE && at_least(whole_file, WHOLE_PERCENT, files.distinct) {
        let who = |p: &Process| p.files.as_ref().map_or(0, |of| of.whole_file);
        let found = RepeatedWholeReads { whole_file, files: files.distinct };
        return Some(Pattern::new(found, pids(trace, who), None));
    }
    let again = |of: &&File| of.size >= LEAST_BYTES && at_least(of.read_bytes, AGAIN_PERCENT, of.size);
    let most = files.top.iter().filter(again).max_by_key(|of| of.read_bytes - of.size)?;
    let File { read_bytes, size, reads, opens, .. } = *most;
    let found = RepeatedReads { read_bytes, size, reads, opens };
    Some(Pattern::new(found, Vec::new(), Some(most.path.clone())))
}
