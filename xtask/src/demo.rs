//! `cargo xtask demo`: iotrace over a workload of its own. stdout is iotrace's report and nothing else.

use std::{fs, os::unix::process::CommandExt as _, process::ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::{
    paths,
    process::{cargo, command, is_root, run as run_command},
    setup::{self, Need},
};

/// Arguments of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Format of the report, as `iotrace run --format` takes it
    #[arg(long)]
    format: Option<String>,
}

/// Runs `cargo xtask demo`.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::ensure(&[Need::Build])?;
    run_command(cargo().args(["build", "--release", "-p", "iotrace", "-p", "iotrace-workload"]))?;
    if !is_root() {
        bail!("tracing needs root; run\n  sudo -E cargo xtask demo");
    }
    let folder = paths::target().join("demo");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    rustix::fs::sync();
    // Otherwise the reads would come from memory, and the report would show no storage at work.
    eprintln!("dropping this machine's page cache");
    if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
        eprintln!("warning: cannot drop the page cache ({error}); the report will show cached reads");
    }

    let release = paths::target().join("release");
    let mut trace = command(release.join("iotrace"));
    trace.arg("run");
    if let Some(format) = &args.format {
        trace.args(["--format", format]);
    }
    trace.arg("--").arg(release.join("iotrace-workload")).arg("demo").arg(folder);
    Err(trace.exec()).context("cannot start iotrace")
}
