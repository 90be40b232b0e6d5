//! Finds what turns `iotrace-ebpf` into a BPF object: a Rust toolchain with `core` for the BPF target, and bpf-linker.
//!
//! Shared by `iotrace/build.rs`, which uses what is found, and `cargo xtask setup`, which installs what is not.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Environment variable that names the rustup toolchain to use, overriding the search.
pub const TOOLCHAIN_VAR: &str = "IOTRACE_BPF_TOOLCHAIN";

/// The rustup name under which setup links the distribution's Rust.
pub const LINKED_NAME: &str = "iotrace-bpf";

/// Searched in this order: what setup linked on purpose comes before what happens to be there.
const CANDIDATES: [&str; 2] = [LINKED_NAME, "nightly"];

/// The LLVM that setup builds bpf-linker with. It reads bitcode of this release and older ones, never newer ones.
pub const LLVM_MAJOR: u32 = 22;

/// Where a toolchain gets `core` for the BPF target from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Ready-made, as in Debian's `libstd-rust-web-dev-bpf`.
    Shipped,
    /// Compiled by `-Z build-std=core` from the `rust-src` component of a nightly.
    FromSource,
}

/// A Rust toolchain that can compile for BPF.
#[derive(Clone, Debug)]
pub struct BpfToolchain {
    /// The name `rustup run` takes.
    pub name: String,
    /// Origin of `core`.
    pub core: Core,
}

/// The first usable toolchain, or for each one looked at the reason why it is not usable.
pub fn find() -> Result<BpfToolchain, Vec<String>> {
    let named = env::var(TOOLCHAIN_VAR).ok().filter(|name| !name.is_empty());
    let candidates: Vec<&str> = named.as_deref().map_or(CANDIDATES.to_vec(), |name| vec![name]);
    let mut reasons = Vec::new();
    for name in candidates {
        match probe(name) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) => reasons.push(format!("{name}: {reason}")),
        }
    }
    Err(reasons)
}

fn probe(name: &str) -> Result<BpfToolchain, String> {
    let sysroot = rustc(name, &["--print", "sysroot"])?;
    let rustlib = Path::new(sysroot.trim()).join("lib/rustlib");
    let verbose = rustc(name, &["--version", "--verbose"])?;
    let field = |key: &str| verbose.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();

    let llvm = field("LLVM version:");
    let major: u32 = llvm.split('.').next().and_then(|part| part.parse().ok()).unwrap_or(0);
    if major > LLVM_MAJOR {
        return Err(format!("its LLVM is {llvm}, newer than bpf-linker's LLVM {LLVM_MAJOR}"));
    }
    let core = if has_core(&rustlib.join("bpfel-unknown-none/lib")) {
        Core::Shipped
    } else if !field("release:").contains("nightly") {
        return Err("has no core for bpfel-unknown-none and is no nightly, which could build it".into());
    } else if rustlib.join("src/rust/library/core").is_dir() {
        Core::FromSource
    } else {
        return Err(format!(
            "a nightly without the rust-src component: `rustup component add rust-src --toolchain {name}`"
        ));
    };
    Ok(BpfToolchain { name: name.into(), core })
}

fn has_core(lib: &Path) -> bool {
    lib.read_dir().is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
    })
}

fn rustc(toolchain: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new("rustup")
        .args(["run", toolchain, "rustc"])
        .args(args)
        // Set by rustup's own proxies for the outer build; it would outrank the name given here in nested proxies.
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .map_err(|error| format!("cannot run rustup ({error})"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(stderr.lines().next().unwrap_or("rustc does not run").trim_start_matches("error: ").to_owned())
    }
}

/// The user's cache folder of iotrace: tools and kernels that outlive a clone.
pub fn cache_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/tmp"))
        .join("iotrace")
}

/// Folder of the tools that setup builds itself.
pub fn tools_bin() -> PathBuf {
    cache_dir().join("tools/bin")
}

/// bpf-linker as setup built it, else the one on `PATH`.
pub fn bpf_linker() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    std::iter::once(tools_bin())
        .chain(env::split_paths(&path))
        .map(|folder| folder.join("bpf-linker"))
        .find(|file| file.is_file())
}
