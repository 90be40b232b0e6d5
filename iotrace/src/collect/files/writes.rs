//! What is kept of files that were written, beside their entry: how, by whom, when. Of those alone that could be
//! checkpoints, so that a million small outputs cost nothing.

use std::collections::HashMap;

use iotrace_common::file::FileTotals;

use super::{SessionPart, checkpoints::has_checkpoint_name};

/// A file that was written.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// Process key of the first who wrote.
    pub process: u64,
    /// Name when it was written first.
    pub name: Vec<u8>,
    /// First use, ns of CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Last use.
    pub last_ns: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// A write of less, by a name that says nothing, is not looked at.
const LEAST_BYTES: u64 = 1 << 20;

/// Files by index of their entry.
#[derive(Debug, Default)]
pub struct Writes {
    /// Files that could be checkpoints.
    pub list: HashMap<u32, Written>,
    /// Paths of files that were open at the end and whose name was not told.
    pub paths: HashMap<u32, Vec<u8>>,
}

impl Writes {
    /// Looks at a session.
    pub fn note(&mut self, index: u32, part: &SessionPart, name: &[u8]) {
        if part.totals.writes == 0 && part.totals.syncs == 0 && !self.list.contains_key(&index) {
            return;
        }
        if !self.list.contains_key(&index)
            && part.totals.written_bytes < LEAST_BYTES
            && part.totals.syncs == 0
            && !has_checkpoint_name(name, part.totals.written_bytes)
        {
            return;
        }
        let written = self.list.entry(index).or_insert_with(|| Written {
            process: part.process,
            first_ns: part.first_ns,
            ..Written::default()
        });
        if written.name.is_empty() {
            written.name = name.to_vec();
        }
        if part.totals.writes + part.totals.syncs > 0 {
            written.first_ns = written.first_ns.min(part.first_ns);
            written.last_ns = written.last_ns.max(part.last_ns);
            written.totals.add(&part.totals);
        }
    }

    /// Notes a whole path.
    pub fn path(&mut self, index: u32, path: Vec<u8>) {
        self.paths.insert(index, path);
    }
}
