//! `fuse`: mounts for others until stdin ends or a signal comes. Each line on stdin is answered by a line of counts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Daemon, Files, lacking};
use crate::{sys, truth};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to mount at; it must exist.
    #[arg(long)]
    mount: PathBuf,
    #[command(flatten)]
    files: Files,
}

static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: libc::c_int) {
    ENDED.store(true, Ordering::SeqCst);
}

/// Serves, and unmounts at the end.
pub fn run(args: &Args) -> Result<()> {
    if let Some(reason) = lacking() {
        return truth::print("fuse", &[], json!({"unsupported": [reason]}));
    }
    let mountpoint = args.mount.canonicalize().with_context(|| args.mount.display().to_string())?;
    let daemon = Daemon::start(&mountpoint, &args.files)?;
    // The signal interrupts the read below: without SA_RESTART, which `signal` would set.
    // SAFETY: all zeroes is a valid sigaction; the handler stores a flag.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end as *const () as usize;
        for signal in [libc::SIGTERM, libc::SIGINT] {
            sys::check(libc::sigaction(signal, &raw const action, std::ptr::null_mut()))?;
        }
    }
    let tell = |extra: Value| {
        let mut line = json!({"mount": mountpoint, "daemon": daemon.json(), "delay_ms": args.files.delay_ms});
        if let (Some(line), Value::Object(extra)) = (line.as_object_mut(), extra) {
            line.extend(extra);
        }
        truth::print("fuse", &[], line)
    };
    tell(json!({"ready": true}))?;
    let mut byte = [0];
    while sys::read(&std::io::stdin(), &mut byte) > 0 && !ENDED.load(Ordering::SeqCst) {
        if byte[0] == b'\n' {
            tell(json!({}))?;
        }
    }
    tell(json!({"ended": true}))
}
