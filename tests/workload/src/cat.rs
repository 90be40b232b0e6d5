//! The two smallest programs: read one file to its end; end in a given way.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::tally::Tally;
use crate::{child, sys, truth};

/// Reads `path` to its end, by reads of `size` bytes, in the process itself, named `name` if given.
pub fn run(path: &Path, size: usize, name: Option<&str>, quiet: bool) -> Result<()> {
    if let Some(name) = name {
        child::set_name(name.as_bytes());
    }
    let mut tally = Tally::default();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut buffer = vec![0; size];
    loop {
        let ret = sys::read(&file, &mut buffer);
        tally.read.add("read", size, ret);
        ensure!(ret >= 0, "read returned {ret}");
        if ret == 0 {
            break;
        }
    }
    tally.file_sizes = vec![file.metadata()?.len()];
    if quiet { Ok(()) } else { truth::print("cat", &[tally.json()], json!({})) }
}

/// Dies of `signal`, or exits with `code`.
pub fn exit(code: i32, signal: Option<i32>) -> Result<()> {
    if let Some(signal) = signal {
        // SAFETY: no address is passed; the default action of the signal is restored first.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    std::process::exit(code)
}
