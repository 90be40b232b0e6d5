//! The programs that run inside the VMs, linked so that they need no library there.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::{
    paths,
    process::{built_executables, cargo},
    setup,
};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Files for the initramfs, the same for every kernel.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Runs as process 1.
    pub init: PathBuf,
    /// (name under `/bin`, file).
    pub programs: Vec<(String, PathBuf)>,
    /// (name under `/tests`, file).
    pub tests: Vec<(String, PathBuf)>,
}

impl Guest {
    /// Builds them.
    pub fn build() -> Result<Self> {
        let mut build = static_cargo("build");
        build.args(["--bins", "-p", "iotrace", "-p", "iotrace-workload", "-p", "iotrace-vm"]);
        let mut programs =
            built_executables(&mut build).context("cannot build static programs for the VMs")?;
        let init =
            programs.iter().position(|(name, _)| name == "iotrace-vm-init").context("no init was built")?;
        let (_, init) = programs.swap_remove(init);
        let busybox = setup::static_busybox().context("no static busybox; run `cargo xtask setup`")?;
        programs.push(("busybox".to_owned(), busybox));

        let mut build = static_cargo("test");
        build.args(["--no-run", "-p", "iotrace-live"]);
        let tests = built_executables(&mut build).context("cannot build the live tests for the VMs")?;
        if tests.is_empty() {
            bail!("cargo built no live test");
        }
        Ok(Self { init, programs, tests })
    }
}

fn static_cargo(subcommand: &str) -> std::process::Command {
    let mut command = cargo();
    command.args([subcommand, "--quiet", "--release", "--target", TARGET]);
    command.arg("--target-dir").arg(paths::target().join("static"));
    // Less to unpack for the guest. As an argument, since the environment would reach the kernel object's build too.
    command.args(["--config", "profile.release.strip='debuginfo'"]);
    command.env_remove("RUSTFLAGS");
    command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
    command
}
