//! The Rust toolchain for BPF and bpf-linker: finding and making them.

#[path = "../../../iotrace/build/bpf_toolchain.rs"]
pub mod bpf_toolchain;

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use bpf_toolchain::{Core, LINKED_NAME, LLVM_MAJOR, tools_bin};

use super::{Need, Remedy, Tool, found, missing, packages};
use crate::process::{command, output, run};

/// Debian's Rust as built for its browsers: recent, and with `core` for BPF.
const DISTRIBUTION_RUST: [&str; 3] = ["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"];

/// LLVM for bpf-linker. Its major version is [`LLVM_MAJOR`].
const LLVM_PACKAGE: &str = "llvm-22-dev";
const LLVM_BIN: &str = "/usr/lib/llvm-22/bin";
const LINKER_VERSION: &str = "^0.13";

pub(super) fn rust() -> Tool {
    let (name, why) = ("Rust for BPF", "compiles the kernel programs");
    match bpf_toolchain::find() {
        Ok(toolchain) => {
            let core = match toolchain.core {
                Core::Shipped => "with core for BPF",
                Core::FromSource => "a nightly with rust-src",
            };
            found(name, why, Need::Build, format!("rustup toolchain {} ({core})", toolchain.name))
        }
        Err(reasons) => {
            let reason = format!("no usable toolchain ({})", reasons.join("; "));
            let remedies = if distribution_has_it() {
                vec![Remedy::Packages(DISTRIBUTION_RUST.to_vec()), Remedy::Own(link_distribution_rust)]
            } else {
                vec![Remedy::Own(install_nightly)]
            };
            missing(name, why, Need::Build, reason, remedies)
        }
    }
}

/// Debian 12 carries these packages in its security archive; elsewhere the package lists tell.
fn distribution_has_it() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has = |line: &str| release.lines().any(|other| other.replace('"', "") == line);
    has("ID=debian") && (has("VERSION_ID=12") || packages::offered(DISTRIBUTION_RUST[2]))
}

fn link_distribution_rust() -> Result<()> {
    eprintln!("linking the distribution's Rust as rustup toolchain {LINKED_NAME}");
    output(command("rustup").args(["toolchain", "link", LINKED_NAME, "/usr"]))
        .context("cannot make the distribution's Rust known to rustup")
        .map(drop)
}

fn install_nightly() -> Result<()> {
    eprintln!("installing rustup toolchain nightly with rust-src");
    run(command("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal", "-c", "rust-src"]))
}

pub(super) fn linker() -> Tool {
    let (name, why) = ("bpf-linker", "links the kernel programs");
    let reason = match bpf_toolchain::bpf_linker() {
        // Its LLVM is a shared library: a linker from an older machine's cache folder may lack it.
        Some(place) => match output(command(&place).arg("--version")) {
            Ok(version) => {
                return found(name, why, Need::Build, format!("{} ({})", place.display(), version.trim()));
            }
            Err(_) => format!("{} does not run", place.display()),
        },
        None => "not found".to_owned(),
    };
    missing(
        name,
        why,
        Need::Build,
        reason,
        vec![Remedy::Packages(vec![LLVM_PACKAGE]), Remedy::Own(make_linker)],
    )
}

fn make_linker() -> Result<()> {
    if let Some(place) = bpf_toolchain::bpf_linker()
        && output(command(&place).arg("--version")).is_ok()
    {
        // It lacked only the shared library that has just been installed.
        return Ok(());
    }
    if !Path::new(LLVM_BIN).is_dir() {
        bail!("bpf-linker needs LLVM {LLVM_MAJOR}, but {LLVM_BIN} does not exist: install {LLVM_PACKAGE}");
    }
    let root = tools_bin().parent().context("the tools folder has no parent")?.to_owned();
    eprintln!("building bpf-linker {LINKER_VERSION} into {}", root.display());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([LLVM_BIN.into()].into_iter().chain(std::env::split_paths(&path)))?;
    let mut install = command("cargo");
    // A toolchain of its own choosing, not the one linked for BPF; and no settings of the build that runs this.
    install.env("PATH", path).env_remove("CARGO_TARGET_DIR").current_dir("/");
    install.args([
        "install",
        "bpf-linker",
        "--version",
        LINKER_VERSION,
        "--locked",
        "--force",
        "--no-default-features",
    ]);
    // LLVM, which is compiled already, does all the work: the optimiser would make setup slower and links no faster.
    install.args(["--profile", "dev"]).env("CARGO_PROFILE_DEV_DEBUG", "false");
    install.args(["--features", &format!("llvm-{LLVM_MAJOR}"), "--root"]).arg(&root);
    output(&mut install).context("cannot build bpf-linker").map(drop)
}
