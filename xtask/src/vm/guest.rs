//! What runs inside the VMs: the programs and tests that also run on this machine, and the libraries they need.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use iotrace_vm::TESTS_DIR;

use crate::{
    paths,
    process::{built_executables, cargo, command, output},
    setup,
};

/// Files for the initramfs, the same for every kernel, as (path in the guest, file here).
#[derive(Clone, Debug)]
pub struct Guest {
    /// Executables and shared libraries.
    pub files: Vec<(String, PathBuf)>,
}

impl Guest {
    /// Builds them.
    pub fn build() -> Result<Self> {
        let mut files = Vec::new();
        let mut build = release("build");
        build.args(["--bins", "-p", "iotrace", "-p", "iotrace-workload", "-p", "iotrace-vm"]);
        for (name, path) in built_executables(&mut build).context("cannot build the programs for the VMs")? {
            let place = if name == "iotrace-vm-init" { "/init".to_owned() } else { format!("/bin/{name}") };
            files.push((place, path));
        }
        let mut build = release("test");
        build.args(["--no-run", "-p", "iotrace-live"]);
        let tests = built_executables(&mut build).context("cannot build the live tests for the VMs")?;
        if tests.is_empty() {
            bail!("cargo built no live test");
        }
        files.extend(tests.into_iter().map(|(name, path)| (format!("{TESTS_DIR}/{name}"), path)));

        let libraries = libraries(files.iter().map(|(_, path)| path.as_path()))?;
        for (place, path) in &mut files {
            *path = without_debug_info(place, path)?;
        }
        files.extend(libraries.into_iter().map(|library| (library.clone(), library.into())));
        let busybox = setup::static_busybox().context("no static busybox; run `cargo xtask setup`")?;
        files.push(("/bin/busybox".to_owned(), busybox));
        Ok(Self { files })
    }
}

fn release(subcommand: &str) -> std::process::Command {
    let mut command = cargo();
    command.args([subcommand, "--quiet", "--release"]);
    command
}

/// Every library that the loader would load, and the loader itself, under the names it looks for them.
fn libraries<'a>(programs: impl Iterator<Item = &'a Path>) -> Result<BTreeSet<String>> {
    let mut libraries = BTreeSet::new();
    for program in programs {
        let listed = output(command("ldd").arg(program))?;
        let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(paths.map(str::to_owned));
    }
    Ok(libraries)
}

/// A copy of a program that is quicker to unpack in the guest. Symbols stay, for backtraces.
fn without_debug_info(place: &str, program: &Path) -> Result<PathBuf> {
    let folder = paths::target().join("vm/programs");
    fs::create_dir_all(&folder)?;
    let copy = folder.join(place.trim_start_matches('/').replace('/', "-"));
    output(command("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(program))?;
    Ok(copy)
}
