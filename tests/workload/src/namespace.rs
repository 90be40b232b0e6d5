//! Pid namespaces without further tools: start a command as pid 1 of a new one, or run one inside an old one.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result};

use crate::{child, mounts, sys};

/// Runs `command` as pid 1 of a new pid namespace, with a procfs of its own, and ends as it ends.
pub fn container(command: &[String]) -> Result<()> {
    std::process::exit(contain(command, || Ok(()))?)
}

/// [`container`] that returns the exit code; the child calls `before` first, in the new pid namespace but with the old
/// procfs in sight.
pub fn contain(command: &[String], before: impl FnOnce() -> Result<()>) -> Result<i32> {
    // SAFETY: no address is passed.
    sys::check(unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) }).context("unshare")?;
    fork_and_exec(command, || {
        before()?;
        mounts::make_private()?;
        // Stays for the command; it goes with the namespace.
        std::mem::forget(mounts::mount("proc", Path::new("/proc"), "proc", "").context("mounting /proc")?);
        Ok(())
    })
}

/// Runs `command` in the pid and mount namespaces of `pid`, and ends as it ends. SIGINT and SIGTERM reach it.
pub fn enter(pid: i32, command: &[String]) -> Result<()> {
    let open =
        |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}")).with_context(|| format!("pid {pid}"));
    let (pids, mounts) = (open("pid")?, open("mnt")?);
    for namespace in [pids, mounts] {
        // SAFETY: no address is passed.
        sys::check(unsafe { libc::setns(namespace.as_raw_fd(), 0) }).context("setns")?;
    }
    std::process::exit(fork_and_exec(command, || Ok(()))?)
}

/// The child that signals are passed on to.
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: libc::c_int) {
    // SAFETY: kill is async-signal-safe and takes no address.
    unsafe { libc::kill(CHILD.load(Ordering::SeqCst), signal) };
}

/// Forks, runs `before` and execs `command` in the child, passes SIGINT and SIGTERM on, and returns
/// the child's exit code, or 128 and its signal.
fn fork_and_exec(command: &[String], before: impl FnOnce() -> Result<()>) -> Result<i32> {
    let args = command.iter().map(|arg| CString::new(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let mut argv: Vec<_> = args.iter().map(|arg| arg.as_ptr()).collect();
    argv.push(std::ptr::null());
    // SAFETY: this process has one thread.
    let pid = sys::check(unsafe { libc::fork() }).context("fork")?;
    if pid == 0 {
        before()?;
        // SAFETY: a live C string and a null-terminated array of live C strings.
        unsafe { libc::execvp(argv[0], argv.as_ptr()) };
        return Err(std::io::Error::last_os_error()).context(command[0].clone());
    }
    CHILD.store(pid, Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only calls kill.
        unsafe { libc::signal(signal, pass_on as *const () as usize) };
    }
    let status = child::wait(pid)?;
    Ok(if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) })
}
