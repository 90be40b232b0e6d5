//! Short-lived processes: fork, take a name, read a file, end. Every tenth execs this program's `cat` for it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{child, sys, truth};

/// Children that exec, one in this many.
const EXEC_EVERY: u64 = 10;
/// Distinct names.
const NAMES: u64 = 10;
/// Bytes a read.
const SIZE: usize = 65536;

/// Starts `count` children spread over `seconds`; each reads `path` to its end (a last read of 0 included).
pub fn run(count: u64, seconds: f64, path: &Path) -> Result<()> {
    let size = path.metadata().with_context(|| path.display().to_string())?.len();
    let reads_each = size.div_ceil(SIZE as u64) + 1;
    let exec = Exec::new(path)?;
    let start = Instant::now();
    let (mut names, mut running) = (BTreeMap::<String, u64>::new(), 0u64);
    for number in 0..count {
        let name = format!("short-{}", number % NAMES);
        // SAFETY: this process has one thread.
        let pid = sys::check(unsafe { libc::fork() }).context("fork")?;
        if pid == 0 {
            child::set_name(name.as_bytes());
            if number % EXEC_EVERY == 0 { exec.go() } else { read_and_end(path, size) }
        }
        let name = if number % EXEC_EVERY == 0 { "short-cat".to_owned() } else { name };
        *names.entry(name).or_default() += 1;
        running += 1;
        let due = start + Duration::from_secs_f64(seconds * (number + 1) as f64 / count as f64);
        while reap(false)? {
            running -= 1;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    while running > 0 {
        reap(true)?;
        running -= 1;
    }
    let took = start.elapsed().as_secs_f64();
    truth::print(
        "spawn",
        &[],
        json!({
            "children": count, "names": names, "reads": count * reads_each, "bytes": count * size,
            "reads_each": reads_each, "bytes_each": size, "seconds": took,
        }),
    )
}

/// Collects one child that has ended; false if none has (without `block`). A child that failed is an error.
fn reap(block: bool) -> Result<bool> {
    let mut status = 0;
    // SAFETY: the status is a live variable.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, if block { 0 } else { libc::WNOHANG }) };
    ensure!(pid <= 0 || status == 0, "child {pid} ended with wait status {status:#x}");
    Ok(pid > 0)
}

fn read_and_end(path: &Path, size: u64) -> ! {
    let mut buffer = vec![0; SIZE];
    let mut bytes = 0;
    if let Ok(file) = File::open(path) {
        loop {
            match sys::read(&file, &mut buffer) {
                ret if ret > 0 => bytes += ret as u64,
                _ => break,
            }
        }
    }
    child::exit_now(i32::from(bytes != size))
}

/// The arguments of the exec, made before the forks.
struct Exec {
    program: CString,
    args: Vec<CString>,
}

impl Exec {
    fn new(path: &Path) -> Result<Self> {
        let program = CString::new(std::env::current_exe()?.as_os_str().as_bytes())?;
        let mut args: Vec<CString> =
            [c"iotrace-workload", c"cat", c"--quiet", c"--name", c"short-cat"].map(CString::from).into();
        args.push(CString::new(path.as_os_str().as_bytes())?);
        Ok(Self { program, args })
    }

    fn go(&self) -> ! {
        let mut argv: Vec<_> = self.args.iter().map(|arg| arg.as_ptr()).collect();
        argv.push(std::ptr::null());
        // SAFETY: a live C string and a null-terminated array of live C strings.
        unsafe { libc::execv(self.program.as_ptr(), argv.as_ptr()) };
        child::exit_now(127)
    }
}
