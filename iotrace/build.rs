//! Builds the kernel object from `iotrace-ebpf`; it ends up at `$OUT_DIR/iotrace-ebpf`.

use anyhow::{Context as _, Result, bail};
use aya_build::{Package, Toolchain};

#[path = "build/bpf_toolchain.rs"]
mod bpf_toolchain;
#[path = "build/debug_info.rs"]
mod debug_info;

use bpf_toolchain::Core;

/// Crates of the kernel object that use unstable features (inline assembly for BPF, `atomic_xadd`).
///
/// As the value of `RUSTC_BOOTSTRAP` a list of names rather than `1`: aya-build takes `1` as a request to build `core`
/// from source, which a distribution's Rust does not carry. A nightly needs nothing.
const UNSTABLE_CRATES: &str = "iotrace_ebpf,iotrace_common,aya_ebpf,aya_log_ebpf";

/// Folders and files whose change makes another object. aya-build itself watches only the package's own folder.
const INPUTS: [&str; 4] = ["build.rs", "build", "../iotrace-common", "../Cargo.toml"];

fn main() -> Result<()> {
    for input in INPUTS {
        println!("cargo:rerun-if-changed={input}");
    }
    for variable in [bpf_toolchain::TOOLCHAIN_VAR, "XDG_CACHE_HOME", "RUSTC_BOOTSTRAP"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }

    let toolchain = match bpf_toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(reasons) => bail!(
            "no Rust toolchain here can compile the kernel programs:\n  {}\nrun `cargo xtask setup`",
            reasons.join("\n  ")
        ),
    };
    let Some(linker) = bpf_toolchain::bpf_linker() else {
        bail!("bpf-linker, which links the kernel programs, is not installed: run `cargo xtask setup`");
    };

    let folder = linker.parent().context("bpf-linker lies in no folder")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)))?;
    // SAFETY: a build script's `main` has started no other thread.
    unsafe {
        std::env::set_var("PATH", path);
        // aya-build repeats the inner cargo's stderr as warnings; progress lines are none.
        std::env::set_var("CARGO_TERM_QUIET", "true");
        // One folder of intermediate files for all profiles of the outer build: the kernel side is the same in each.
        std::env::set_var("CARGO_BUILD_BUILD_DIR", shared_build_dir());
        match toolchain.core {
            Core::Shipped => std::env::set_var("RUSTC_BOOTSTRAP", UNSTABLE_CRATES),
            Core::FromSource => std::env::remove_var("RUSTC_BOOTSTRAP"),
        }
    }

    aya_build::build_ebpf(
        [Package { name: "iotrace-ebpf", root_dir: "../iotrace-ebpf", ..Default::default() }],
        Toolchain::Custom(&toolchain.name),
    )
    .context("building the kernel programs failed")?;
    let out = std::env::var_os("OUT_DIR").context("cargo names no folder for the output")?;
    debug_info::remove(&std::path::Path::new(&out).join("iotrace-ebpf"))
}

fn shared_build_dir() -> std::path::PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join(target.unwrap_or_else(|| "target".into())).join("ebpf")
}
