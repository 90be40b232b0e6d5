//! Names that a terminal or a JSON writer could trip over: newline, escape sequences, invalid UTF-8, quotes.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::tally::Tally;
use crate::{child, sys, truth};

/// At most 15 bytes each, so that the kernel keeps them whole.
const NAMES: [&[u8]; 5] =
    [b"two\nlines", b"\x1b[31mred\x1b[0m", b"bad \xff\xfe utf8", b"quote\"back\\", b"\xc2\x9b2Jcsi\r\t"];

/// Forks one child for each name, which reads `calls` times from a file of that name.
pub fn run(dir: &Path, calls: u64) -> Result<()> {
    let mut told = Vec::new();
    for name in NAMES {
        told.push(child::run(name, || {
            let path = dir.join(OsStr::from_bytes(name));
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
            let file = file.with_context(|| format!("{path:?}"))?;
            file.set_len(1 << 20)?;
            let mut tally = Tally::default();
            let mut buffer = [0; 4096];
            for call in 0..calls {
                tally.read.add("pread64", 4096, sys::pread64(&file, &mut buffer, call * 4096));
            }
            tally.file_sizes = vec![1 << 20];
            tally.extra.insert("comm_bytes".into(), name.into());
            Ok(tally)
        })?);
    }
    truth::print("names", &told, json!({"calls": calls}))
}
