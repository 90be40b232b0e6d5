//! A process to attach to. It prints a first line when everything planned to run before the attach is running, waits
//! for a line on stdin (or SIGUSR1), reads, prints the truth, and ends when stdin ends.

use std::fs::{File, OpenOptions};
use std::io::BufRead;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::tally::Tally;
use crate::{child, sys, truth};

const SIZE: usize = 4096;

/// Who reads, and how often.
pub struct Plan {
    /// Folder for the file.
    pub dir: PathBuf,
    /// Reads of each thread and child.
    pub calls: u64,
    /// Threads besides the main one.
    pub threads: u64,
    /// Children forked before the wait.
    pub before: u64,
    /// Children forked after the wait, each with one of its own.
    pub after: u64,
}

/// Runs the plan.
pub fn run(plan: &Plan) -> Result<()> {
    let path = plan.dir.join(format!("hold-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.with_context(|| path.display().to_string())?;
    file.set_len(1 << 20)?;
    std::fs::remove_file(&path)?;
    let (gate, opener) = sys::pipe()?;
    let mut before = Vec::new();
    for number in 0..plan.before {
        let work = || {
            // The child's copy of the write end would keep the gate shut.
            // SAFETY: this process never uses that end; its owner's destructor does not run after a fork.
            unsafe { libc::close(opener.as_raw_fd()) };
            wait_for(&gate)?;
            Ok(read(&file, plan.calls))
        };
        before.push(child::fork(format!("before-{number}").as_bytes(), work)?);
    }
    let main = std::thread::scope(|scope| -> Result<Tally> {
        let threads: Vec<_> = (0..plan.threads)
            .map(|_| scope.spawn(|| wait_for(&gate).map(|()| read(&file, plan.calls))))
            .collect();
        let pids: Vec<_> = before.iter().map(|child| child.pid).collect();
        truth::print("hold", &[], json!({"ready": true, "before": pids}))?;
        wait_for_go(opener)?;
        let mut tally = read(&file, plan.calls);
        for thread in threads {
            tally.merge(&thread.join().ok().context("a thread panicked")??);
        }
        tally.file_sizes = vec![1 << 20];
        Ok(tally)
    })?;
    let mut told = vec![main.json()];
    for running in before {
        told.push(running.join()?);
    }
    for number in 0..plan.after {
        told.extend(with_grandchild(number, &file, plan.calls)?);
    }
    truth::print("hold", &told, json!({"calls": plan.calls}))?;
    // Stays alive until stdin ends, so that the test decides when the trace sees it go.
    while std::io::stdin().lock().read_line(&mut String::new())? > 0 {}
    Ok(())
}

/// A child that reads, forks one of its own that reads too, and tells of both.
fn with_grandchild(number: u64, file: &File, calls: u64) -> Result<Vec<Value>> {
    let mut told = child::run(format!("after-{number}").as_bytes(), || {
        let mut tally = read(file, calls);
        let grandchild = child::run(format!("grand-{number}").as_bytes(), || Ok(read(file, calls)))?;
        tally.extra.insert("grandchild".into(), grandchild);
        Ok(tally)
    })?;
    let grandchild = told.as_object_mut().and_then(|object| object.remove("grandchild"));
    Ok([Some(told), grandchild].into_iter().flatten().collect())
}

fn read(file: &File, calls: u64) -> Tally {
    let mut tally = Tally::default();
    let mut buffer = [0; SIZE];
    for call in 0..calls {
        let ret = sys::pread64(file, &mut buffer, call % 256 * SIZE as u64);
        tally.read.add("pread64", SIZE, ret);
    }
    tally.file_sizes = vec![1 << 20];
    tally
}

/// Sleeps until every write end of the gate is closed.
fn wait_for(gate: &OwnedFd) -> Result<()> {
    let ret = sys::read(gate, &mut [0]);
    ensure!(ret == 0, "the gate returned {ret}");
    Ok(())
}

/// The write end of the gate, for the signal handler; -1 when closed.
static OPENER: AtomicI32 = AtomicI32::new(-1);

extern "C" fn open_gate(_signal: libc::c_int) {
    // SAFETY: close is async-signal-safe; the swap makes sure that it happens once.
    unsafe { libc::close(OPENER.swap(-1, Ordering::SeqCst)) };
}

/// Waits for a line on stdin or SIGUSR1, then opens the gate by closing its write end.
fn wait_for_go(opener: OwnedFd) -> Result<()> {
    use std::os::fd::IntoRawFd;
    OPENER.store(opener.into_raw_fd(), Ordering::SeqCst);
    let mut action: libc::sigaction = {
        // SAFETY: all zeroes is a valid sigaction: no flags, an empty mask.
        unsafe { std::mem::zeroed() }
    };
    action.sa_sigaction = open_gate as *const () as usize;
    // SAFETY: a live struct; the handler only closes a descriptor. Without SA_RESTART the read below is interrupted.
    sys::check(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) })?;
    let mut byte = [0];
    while sys::read(&std::io::stdin(), &mut byte) > 0 && byte[0] != b'\n' {}
    open_gate(libc::SIGUSR1);
    Ok(())
}
