//! A FUSE file system whose reads take a known time: `fuse` mounts it for others, `fuse-read` mounts it in a mount
//! namespace of its own and reads every file. The daemon is one process named `fuse-daemon`.

mod fs;
mod read;
mod serve;

use std::ffi::CString;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::counted::c_path;
use crate::gate::Gate;
use crate::shared::zeroed;
use crate::{child, mounts, sys};
use fs::{Served, Tree};
pub use read::{Args as ReadArgs, run as read};
pub use serve::{Args as ServeArgs, run as serve};

/// The largest read that reaches the daemon in one piece: 32 pages, where nothing larger is negotiated.
const LARGEST_READ: usize = 128 << 10;

/// What is served; shared by both subcommands.
#[derive(clap::Args)]
pub struct Files {
    /// Files in the one folder.
    #[arg(long, default_value_t = 4)]
    files: u64,
    /// Bytes of each file.
    #[arg(long, default_value_t = 65536)]
    bytes: u64,
    /// Milliseconds that the daemon sleeps in each read.
    #[arg(long, default_value_t = 5)]
    delay_ms: u64,
}

/// Why FUSE cannot be had here, if it cannot.
fn lacking() -> Option<String> {
    std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .err()
        .map(|error| format!("/dev/fuse: {error}"))
}

/// A running daemon.
struct Daemon {
    pid: libc::pid_t,
    served: &'static Served,
    mountpoint: CString,
}

/// Where the daemon's own signal handler unmounts.
static MOUNTPOINT: OnceLock<CString> = OnceLock::new();

extern "C" fn unmount_and_end(_signal: libc::c_int) {
    if let Some(mountpoint) = MOUNTPOINT.get() {
        mounts::detach(mountpoint);
    }
    child::exit_now(0)
}

impl Daemon {
    /// Starts it; it is mounted when this returns. It unmounts and ends when this process ends, however that ends.
    fn start(mountpoint: &Path, files: &Files) -> Result<Self> {
        let (served, gate): (&'static Served, _) = (zeroed()?, Gate::new(true)?);
        let path = c_path(mountpoint)?;
        // SAFETY: this process has one thread.
        let pid = sys::check(unsafe { libc::fork() }).context("fork")?;
        if pid == 0 {
            child::set_name(b"fuse-daemon");
            MOUNTPOINT.get_or_init(|| path);
            let tree = Tree::new(files.files, files.bytes, Duration::from_millis(files.delay_ms), served);
            let code = match run_daemon(mountpoint, tree, &gate) {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("iotrace-workload: fuse: {error:#}");
                    1
                }
            };
            child::exit_now(code);
        }
        gate.wait_for_arrival(1)?;
        Ok(Self { pid, served, mountpoint: path })
    }

    /// What it served so far.
    fn json(&self) -> Value {
        json!({"pid": self.pid, "served": self.served.json()})
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        mounts::detach(&self.mountpoint);
        // SAFETY: no address is passed; the child has not been waited for.
        unsafe { libc::kill(self.pid, libc::SIGTERM) };
        drop(child::wait(self.pid));
    }
}

fn run_daemon(mountpoint: &Path, tree: Tree, gate: &Gate) -> Result<()> {
    // SAFETY: the handler unmounts and exits by system calls alone; no address is passed to prctl.
    unsafe {
        libc::signal(libc::SIGTERM, unmount_and_end as *const () as usize);
        // The supervisor hears of these first, and ends the daemon.
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        sys::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))?;
    }
    let mut config = fuser::Config::default();
    config.acl = fuser::SessionACL::All;
    config.mount_options =
        vec![fuser::MountOption::RO, fuser::MountOption::FSName("iotrace-workload".into())];
    let session = fuser::Session::new(tree, mountpoint, &config).context("mounting")?;
    gate.pass();
    session.run().context("serving")
}
