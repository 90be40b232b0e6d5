//! Forked children that hand a JSON value to their parent through shared memory, so that telling costs no system call
//! that a tracer would count.

use std::ffi::CString;
use std::io;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sys::check;
use crate::tally::Tally;

/// Room for what one child tells, in bytes; only touched pages cost memory.
const ROOM: usize = 16 << 20;

/// A running child.
pub struct Child {
    /// Its pid, in the namespace of the parent.
    pub pid: libc::pid_t,
    report: Shared,
}

/// Forks a child that takes `name`, runs `work` and ends. A failing child says so on stderr and ends with 1.
pub fn fork(name: &[u8], work: impl FnOnce() -> Result<Tally>) -> Result<Child> {
    let mut report = Shared::new()?;
    // SAFETY: the callers have no other thread that could hold a lock.
    let pid = check(unsafe { libc::fork() }).context("fork")?;
    if pid > 0 {
        return Ok(Child { pid, report });
    }
    set_name(name);
    let code = match work() {
        Ok(tally) => i32::from(!report.put(tally.json().to_string().as_bytes())),
        Err(error) => {
            eprintln!("iotrace-workload: child {}: {error:#}", std::process::id());
            1
        }
    };
    exit_now(code)
}

impl Child {
    /// Waits for the child to end well and returns what it told.
    pub fn join(self) -> Result<Value> {
        let status = wait(self.pid)?;
        if status != 0 {
            bail!("child {} ended with wait status {status:#x}", self.pid);
        }
        serde_json::from_slice(self.report.get()).with_context(|| format!("what child {} told", self.pid))
    }
}

/// Runs `work` in a forked child and returns what it told.
pub fn run(name: &[u8], work: impl FnOnce() -> Result<Tally>) -> Result<Value> {
    fork(name, work)?.join()
}

/// Waits for `pid` and returns its wait status.
pub fn wait(pid: libc::pid_t) -> Result<libc::c_int> {
    let mut status = 0;
    loop {
        // SAFETY: the status is a live variable.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
            Ok(_) => return Ok(status),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("waitpid"),
        }
    }
}

/// Ends the process without running anything else: no buffers, no destructors of the parent's copies.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes no address and does not return.
    unsafe { libc::_exit(code) }
}

/// Sets the calling thread's name; the kernel keeps 15 bytes.
pub fn set_name(name: &[u8]) {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: a live C string. A failure would leave the old name, which the truth then tells.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The calling thread's name, invalid UTF-8 replaced.
pub fn name() -> String {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// Memory shared between parent and child: a length, then bytes.
struct Shared(*mut u8);

const LENGTH: usize = size_of::<usize>();

impl Shared {
    fn new() -> Result<Self> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping, no address asked for.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), ROOM, prot, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("mmap");
        }
        Ok(Self(at.cast()))
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > ROOM - LENGTH {
            return false;
        }
        // SAFETY: the mapping holds ROOM bytes, page-aligned; the parent reads only after this process has ended.
        unsafe {
            self.0.cast::<usize>().write(bytes.len());
            self.0.add(LENGTH).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        true
    }

    fn get(&self) -> &[u8] {
        // SAFETY: the length was written by `put`, or is the 0 of a fresh mapping.
        unsafe { std::slice::from_raw_parts(self.0.add(LENGTH), self.0.cast::<usize>().read()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.0.cast(), ROOM) };
    }
}
