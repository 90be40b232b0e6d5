//! The life of descriptors: duplicated, inherited, kept and closed by an exec, passed to another process, shared by
//! threads, opened before the start, left open. Each case has a file of its own; a session is what iotrace calls one:
//! one open, to the close of the last descriptor that stems from it.

mod cases;
mod pass;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::RawFd;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::sys;
use crate::tally::Tally;

/// Bytes a read.
pub const SIZE: usize = 4096;
/// Size of each file in bytes: more than any case reads.
const FILE_SIZE: u64 = 64 << 10;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the files; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    start: Start,
}

/// The truth of one file.
pub struct Life {
    case: &'static str,
    path: CString,
    /// How the session ends: `close`, `exec` or `exit`.
    ends_by: &'static str,
    /// Whether it begins before the word to go.
    early: bool,
    /// Reads by the process that made them.
    reads: BTreeMap<u32, u64>,
}

impl Life {
    /// The life of the file at `path`, closed by `close`.
    pub fn new(case: &'static str, path: CString) -> Self {
        Self { case, path, ends_by: "close", early: false, reads: BTreeMap::new() }
    }

    /// Reads `count` times from `fd`, as the calling process.
    pub fn read(&mut self, fd: RawFd, count: u64, tally: &mut Tally) -> Result<()> {
        let mut buffer = [0; SIZE];
        for _ in 0..count {
            ensure!(tally.read_some(fd, &mut buffer)? == SIZE, "{}: a short read", self.case);
        }
        self.add(std::process::id(), count);
        Ok(())
    }

    /// Adds reads that another process made.
    pub fn add(&mut self, pid: u32, count: u64) {
        *self.reads.entry(pid).or_default() += count;
    }

    /// Whether the calling process reads it.
    fn is_ours(&self) -> bool {
        self.reads.contains_key(&std::process::id())
    }

    /// The entry in `files[]`.
    pub fn json(&self) -> Value {
        let reads: u64 = self.reads.values().sum();
        let by_pid: serde_json::Map<String, Value> = self
            .reads
            .iter()
            .map(|(pid, &count)| (pid.to_string(), json!({"reads": count, "bytes": count * SIZE as u64})))
            .collect();
        json!({
            "case": self.case, "path": self.path.to_string_lossy(), "sessions": 1, "size": FILE_SIZE,
            "reads": reads, "bytes": reads * SIZE as u64, "by_pid": by_pid,
            "ends_by": self.ends_by, "opened_before_go": self.early,
        })
    }
}

/// Runs every case beside the others and tells.
pub fn run(args: &Args) -> Result<()> {
    let scratch = Scratch::new(&args.dir, "fds")?;
    let file = |name: &str| -> Result<CString> {
        scratch.file(name, FILE_SIZE)?;
        scratch.at(name)
    };
    let mut stage = Stage::new("fds", &args.start)?;
    let path = file("dup")?;
    stage.add(b"fds-dup", || cases::duplicated(path))?;
    let path = file("fork")?;
    stage.add(b"fds-fork", || cases::inherited(path))?;
    let (closed, kept) = (file("exec-closed")?, file("exec-kept")?);
    stage.add(b"fds-exec", || cases::through_exec(closed, kept))?;
    let path = file("passed")?;
    stage.add(b"fds-pass", || cases::passed(path))?;
    let path = file("threads")?;
    stage.add(b"fds-threads", || cases::threads(path))?;
    let (path, held) = (file("early")?, args.start.hold);
    stage.add_early(b"fds-early", |gate| cases::early(path, gate, held))?;
    let path = file("left-open")?;
    stage.go()?;
    let left_open = left_open(path)?;
    let mut told = Vec::new();
    let mut files = vec![left_open.json()];
    for mut child in stage.join()? {
        told.extend(take_list(&mut child, "relatives"));
        files.extend(take_list(&mut child, "files"));
        told.push(child);
    }
    stage.tell(&told, json!({"files": files, "size": SIZE}))
}

/// The process itself opens a file, reads, and leaves it open for its exit to close.
fn left_open(path: CString) -> Result<Life> {
    let mut tally = Tally::default();
    let mut life = Life::new("left-open", path);
    life.ends_by = "exit";
    let fd = tally.open(&life.path, libc::O_RDONLY | libc::O_CLOEXEC)?;
    life.read(fd, 3, &mut tally)?;
    Ok(life)
}

fn take_list(told: &mut Value, key: &str) -> Vec<Value> {
    match told.as_object_mut().and_then(|object| object.remove(key)) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// Reads `count` times from an inherited descriptor and closes it: what the exec case execs. Fails on a short read.
pub fn read_inherited(fd: RawFd, count: u64) -> Result<()> {
    let mut buffer = [0; SIZE];
    for _ in 0..count {
        let ret = sys::read(&fd, &mut buffer);
        ensure!(ret == SIZE as isize, "read of fd {fd} returned {ret}");
    }
    ensure!(sys::path::close(fd) == 0, "cannot close fd {fd}");
    Ok(())
}
