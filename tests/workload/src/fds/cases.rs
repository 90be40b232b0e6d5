//! The cases, each the work of one child. What its own children did is told under `relatives`.

use std::ffi::CString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Life, pass};
use crate::child;
use crate::gate::Gate;
use crate::sys::{self, path};
use crate::tally::Tally;

const READ: libc::c_int = libc::O_RDONLY | libc::O_CLOEXEC;

/// One open, two descriptors, two closes.
pub fn duplicated(path: CString) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut life = Life::new("dup", path);
    let first = tally.open(&life.path, READ)?;
    let second = path::dup(first);
    ensure!(second >= 0, "dup returned {second}");
    life.read(first, 2, &mut tally)?;
    tally.close(first)?;
    life.read(second as RawFd, 3, &mut tally)?;
    tally.close(second as RawFd)?;
    told(tally, &[life], vec![])
}

/// A child inherits the descriptor; both read from the one position, both close.
pub fn inherited(path: CString) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut life = Life::new("fork", path);
    let fd = tally.open(&life.path, READ)?;
    let heir = child::fork(b"fds-heir", || {
        let mut tally = Tally::default();
        Life::new("fork", CString::default()).read(fd, 5, &mut tally)?;
        tally.file_sizes = vec![super::FILE_SIZE];
        tally.close(fd)?;
        Ok(tally)
    })?;
    life.read(fd, 2, &mut tally)?;
    life.add(heir.pid as u32, 5);
    let heir = heir.join()?;
    tally.close(fd)?;
    told(tally, &[life], vec![heir])
}

/// A child opens two files, one of them close-on-exec, and execs this program, which reads the one that it still has.
/// What the program's start opens and reads besides is not told.
pub fn through_exec(closed: CString, kept: CString) -> Result<Tally> {
    let (mut closed, mut kept) = (Life::new("exec-closed", closed), Life::new("exec-kept", kept));
    closed.ends_by = "exec";
    let program = CString::new(std::env::current_exe()?.as_os_str().as_bytes())?;
    // SAFETY: this process has one thread.
    let pid = sys::check(unsafe { libc::fork() }).context("fork")?;
    if pid == 0 {
        if let Err(error) = open_and_exec(&mut closed, &mut kept, &program) {
            eprintln!("iotrace-workload: {error:#}");
        }
        child::exit_now(127);
    }
    closed.add(pid as u32, 1);
    kept.add(pid as u32, 1 + 4);
    ensure!(child::wait(pid)? == 0, "the exec'd program failed");
    told(Tally::default(), &[closed, kept], vec![])
}

fn open_and_exec(closed: &mut Life, kept: &mut Life, program: &CString) -> Result<()> {
    child::set_name(b"fds-execs");
    let mut tally = Tally::default();
    for (life, flags) in [(closed, libc::O_CLOEXEC), (&mut *kept, 0)] {
        let fd = tally.open(&life.path, libc::O_RDONLY | flags)?;
        life.read(fd, 1, &mut tally)?;
        if flags == 0 {
            let fd = CString::new(fd.to_string())?;
            let args = [c"iotrace-workload", c"read-fd", c"--reads", c"4", &fd];
            let mut argv: Vec<_> = args.iter().map(|arg| arg.as_ptr()).collect();
            argv.push(std::ptr::null());
            // SAFETY: a live C string and a null-terminated array of live C strings.
            unsafe { libc::execv(program.as_ptr(), argv.as_ptr()) };
        }
    }
    Err(std::io::Error::last_os_error()).context("execv")
}

/// A descriptor goes to a child by SCM_RIGHTS; the sender reads, sends and closes, the receiver reads on and closes.
pub fn passed(path: CString) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut life = Life::new("passed", path);
    let (here, there) = std::os::unix::net::UnixDatagram::pair().context("socketpair")?;
    // Forked before the open: it cannot have the descriptor by inheritance.
    let receiver = child::fork(b"fds-receiver", || {
        let mut tally = Tally::default();
        let fd = pass::receive(&there)?;
        Life::new("passed", CString::default()).read(fd, 6, &mut tally)?;
        tally.file_sizes = vec![super::FILE_SIZE];
        tally.close(fd)?;
        Ok(tally)
    })?;
    let fd = tally.open(&life.path, READ)?;
    life.read(fd, 2, &mut tally)?;
    pass::send(&here, fd)?;
    tally.close(fd)?;
    life.add(receiver.pid as u32, 6);
    let receiver = receiver.join()?;
    // The process's end closes the sockets: a close of the library's would not be counted.
    std::mem::forget((here, there));
    told(tally, &[life], vec![receiver])
}

/// One thread opens, another reads, a third closes.
pub fn threads(path: CString) -> Result<Tally> {
    let mut life = Life::new("threads", path);
    let mut tids = Vec::new();
    let (mut tally, fd) = on_thread(&mut tids, || {
        let mut tally = Tally::default();
        let fd = tally.open(&life.path, READ)?;
        Ok((tally, fd))
    })?;
    on_thread(&mut tids, || life.read(fd, 8, &mut tally))?;
    on_thread(&mut tids, || tally.close(fd))?;
    tally.extra.insert("tids".into(), json!({"opens": tids[0], "reads": tids[1], "closes": tids[2]}));
    told(tally, &[life], vec![])
}

fn on_thread<T: Send>(tids: &mut Vec<libc::pid_t>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let (tid, result) = std::thread::scope(|scope| {
        // SAFETY: no address is passed.
        let thread = scope.spawn(|| (unsafe { libc::gettid() }, work()));
        thread.join().ok().context("a thread panicked")
    })?;
    tids.push(tid);
    result
}

/// Opened before the word to go, read and closed after. Held, the open is not counted: it came before.
pub fn early(path: CString, gate: &Gate, held: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut life = Life::new("early", path);
    life.early = true;
    let fd = tally.open(&life.path, READ)?;
    if held {
        tally = Tally::default();
    }
    gate.pass();
    life.read(fd, 7, &mut tally)?;
    tally.close(fd)?;
    told(tally, &[life], vec![])
}

fn told(mut tally: Tally, lives: &[Life], relatives: Vec<Value>) -> Result<Tally> {
    tally.file_sizes = vec![super::FILE_SIZE; lives.iter().filter(|life| life.is_ours()).count()];
    tally.extra.insert("files".into(), lives.iter().map(Life::json).collect());
    tally.extra.insert("relatives".into(), relatives.into());
    Ok(tally)
}
