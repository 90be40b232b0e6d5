//! Many idle processes at once. They read once each when stdin ends, then end.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{child, sys, truth};

const SIZE: usize = 4096;

/// Forks `count` children named `crowd`, prints a first line when all are there, and tells when all have ended.
pub fn run(dir: &Path, count: u64) -> Result<()> {
    let path = dir.join("crowd");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.with_context(|| path.display().to_string())?;
    file.set_len(SIZE as u64)?;
    let (gate, opener) = sys::pipe()?;
    let mut pids = Vec::new();
    for _ in 0..count {
        // SAFETY: this process has one thread.
        let pid = sys::check(unsafe { libc::fork() }).with_context(|| format!("fork {}", pids.len()))?;
        if pid == 0 {
            child::set_name(b"crowd");
            // SAFETY: the child never uses the write end, and no destructor of it runs.
            unsafe { libc::close(opener.as_raw_fd()) };
            let mut buffer = [0; SIZE];
            sys::read(&gate, &mut buffer);
            let ret = sys::pread64(&file, &mut buffer, 0);
            child::exit_now(i32::from(ret != SIZE as isize));
        }
        pids.push(pid);
    }
    truth::print("crowd", &[], json!({"ready": true}))?;
    while std::io::stdin().read_line(&mut String::new())? > 0 {}
    drop(opener);
    for pid in pids {
        ensure!(child::wait(pid)? == 0, "child {pid} could not read");
    }
    truth::print("crowd", &[], json!({"children": count, "reads": count, "bytes": count * SIZE as u64}))
}
