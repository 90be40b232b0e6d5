//! `fuse-read`: the daemon and a reader of every file, in one mount namespace of their own.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Daemon, Files, LARGEST_READ, lacking};
use crate::counted::c_path;
use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::tally::Tally;
use crate::{mounts, truth};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the mount point; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    files: Files,
    /// Bytes a read.
    #[arg(long, default_value_t = 16384)]
    size: usize,
    #[command(flatten)]
    start: Start,
}

/// Mounts, has one child named `fuse-reader` read every file to its end, and tells.
pub fn run(args: &Args) -> Result<()> {
    ensure!((1..=LARGEST_READ).contains(&args.size), "one read of {} bytes is not one request", args.size);
    if let Some(reason) = lacking() {
        return truth::print("fuse-read", &[], json!({"unsupported": [reason]}));
    }
    mounts::leave_namespace()?;
    let scratch = Scratch::new(&args.dir, "fuse")?;
    let daemon = Daemon::start(scratch.path(), &args.files)?;
    let mut stage = Stage::new("fuse-read", &args.start)?;
    stage.add(b"fuse-reader", || read_all(args, &scratch))?;
    let told = stage.run()?;
    let dev = {
        use std::os::unix::fs::MetadataExt;
        let dev = scratch.path().metadata().context("the mount")?.dev();
        format!("{}:{}", libc::major(dev), libc::minor(dev))
    };
    let extra = json!({
        "mount": scratch.path(), "dev": dev, "daemon": daemon.json(), "delay_ms": args.files.delay_ms,
    });
    stage.tell(&told, extra)
}

fn read_all(args: &Args, scratch: &Scratch) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut files = Vec::<Value>::new();
    let mut buffer = vec![0; args.size];
    for number in 0..args.files.files {
        let path = scratch.path().join(format!("file-{number}"));
        let at = c_path(&path)?;
        let (reads_before, ns_before) = (tally.read.count, tally.read.ns);
        let fd = tally.open(&at, libc::O_RDONLY | libc::O_CLOEXEC)?;
        let mut bytes = 0;
        loop {
            match tally.read_some(fd, &mut buffer)? as u64 {
                0 => break,
                some => bytes += some,
            }
        }
        tally.close(fd)?;
        ensure!(bytes == args.files.bytes, "{bytes} bytes of {}", path.display());
        tally.file_sizes.push(bytes);
        files.push(json!({
            "path": path, "inode": super::fs::FIRST_INODE + number, "size": bytes, "bytes": bytes,
            "reads": tally.read.count - reads_before, "read_ns": tally.read.ns - ns_before, "sessions": 1,
        }));
    }
    tally.extra.insert("files".into(), files.into());
    Ok(tally)
}
