//! Many calls that read nothing: failing opens, stats, a large folder.

use std::ffi::CStr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::sys::path;
use crate::tally::Tally;

/// Opens of a file that does not exist.
pub fn enoent(name: &str, path: &CStr, count: u64, tally: &mut Tally) -> Result<Value> {
    for _ in 0..count {
        let ret = tally.call("open", "openat", || path::open("openat", path, libc::O_RDONLY));
        ensure!(ret == -(libc::ENOENT as isize), "openat returned {ret}");
    }
    Ok(json!({"pattern": name, "path": path.to_string_lossy(), "opens": count, "errors": {"ENOENT": count}}))
}

/// Stats of one file.
pub fn stat(name: &str, path: &CStr, count: u64, tally: &mut Tally) -> Result<Value> {
    for _ in 0..count {
        let ret = tally.call("stat", "newfstatat", || path::stat("newfstatat", path));
        ensure!(ret == 0, "newfstatat returned {ret}");
    }
    Ok(json!({"pattern": name, "path": path.to_string_lossy(), "stats": count}))
}

/// One scan of a folder of `entries` entries, and a stat of the folder itself as `readdir`'s users make it.
pub fn scan(name: &str, path: &CStr, entries: u64, tally: &mut Tally) -> Result<Value> {
    let mut buffer = vec![0; path::DIRENTS];
    let fd = tally.open(path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC)?;
    tally.fstat(fd)?;
    let (mut calls, mut bytes) = (0u64, 0);
    loop {
        let ret = tally.call("getdents", "getdents64", || path::getdents64(fd, &mut buffer));
        ensure!(ret >= 0, "getdents64 returned {ret}");
        calls += 1;
        bytes += ret as u64;
        if ret == 0 {
            break;
        }
    }
    tally.close(fd)?;
    let path = path.to_string_lossy();
    Ok(json!({"pattern": name, "path": path, "entries": entries, "getdents64": calls, "dirent_bytes": bytes}))
}

/// Makes a folder of `entries` empty files.
pub fn make_folder(folder: &Path, entries: u64) -> Result<()> {
    std::fs::create_dir(folder)?;
    for entry in 0..entries {
        let path = folder.join(format!("entry-{entry:06}"));
        std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
