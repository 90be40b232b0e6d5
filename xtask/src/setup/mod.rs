//! `cargo xtask setup`: each tool that building, testing or measuring iotrace needs; found where, or installed why.

mod packages;
mod toolchain;

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::{Result, bail};

pub use packages::world;
pub use toolchain::bpf_toolchain::cache_dir;

use crate::process::{is_root, which};

/// Arguments of `cargo xtask setup`.
#[derive(clap::Args)]
pub struct Args {
    /// Only say what is there and what is missing; exit 1 if something is
    #[arg(long)]
    check: bool,
    /// Also what `bench` compares with: bpftrace and libbpf-tools
    #[arg(long)]
    bench: bool,
}

/// What a tool is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Building iotrace.
    Build,
    /// The live tests on this machine.
    Test,
    /// The VM matrix.
    Vm,
    /// Comparing with other tracers.
    Bench,
}

/// How a missing tool comes onto the machine.
enum Remedy {
    /// Debian packages, as root.
    Packages(Vec<&'static str>),
    /// Steps in the user's own folders, after all packages are there.
    Own(fn() -> Result<()>),
}

struct Tool {
    name: &'static str,
    why: &'static str,
    need: Need,
    /// Where it is, or what is wrong with what is there.
    found: Result<String, String>,
    /// Empty if the tool is found.
    remedies: Vec<Remedy>,
}

/// Runs `cargo xtask setup`.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut needs = vec![Need::Build, Need::Test, Need::Vm];
    if args.bench {
        needs.push(Need::Bench);
    }
    let tools = survey(&needs);
    for tool in &tools {
        println!("{}", tool.line());
    }
    let missing = tools.iter().filter(|tool| tool.found.is_err()).count();
    if missing == 0 {
        println!("Nothing is missing.");
    } else if args.check {
        println!("{missing} missing; `cargo xtask setup` installs what is.");
        return Ok(ExitCode::FAILURE);
    } else {
        install(&tools)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes sure that everything for these needs is there. Prints only what is missing.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let tools: Vec<Tool> = survey(needs).into_iter().filter(|tool| tool.found.is_err()).collect();
    for tool in &tools {
        eprintln!("{}", tool.line());
    }
    if tools.is_empty() { Ok(()) } else { install(&tools) }
}

fn survey(needs: &[Need]) -> Vec<Tool> {
    let mut tools = vec![
        c_compiler(),
        toolchain::rust(),
        toolchain::linker(),
        program("fio", "fio", Need::Test, "I/O of known size and depth in the live tests"),
        program("qemu-system-x86_64", "qemu-system-x86", Need::Vm, "runs the kernels of the VM matrix"),
        busybox(),
        program("mkfs.ext4", "e2fsprogs", Need::Vm, "makes the VMs' disks"),
        program("perf", "linux-perf", Need::Bench, "its benchmark of switches"),
        program("bpftrace", "bpftrace", Need::Bench, "a peer to compare cost with"),
        program("biolatency", "libbpf-tools", Need::Bench, "a peer to compare cost with"),
    ];
    tools.retain(|tool| needs.contains(&tool.need));
    tools
}

impl Tool {
    fn line(&self) -> String {
        match &self.found {
            Ok(place) => format!("  ok       {:<20} {place}", self.name),
            Err(reason) => {
                let packages: Vec<&str> = self.packages().collect();
                let how = if packages.is_empty() {
                    "will be made in your own folders".to_owned()
                } else {
                    format!("will be installed from {}", packages.join(" "))
                };
                format!("  missing  {:<20} {reason}; {how}: {}", self.name, self.why)
            }
        }
    }

    fn packages(&self) -> impl Iterator<Item = &'static str> {
        self.remedies.iter().flat_map(|remedy| match remedy {
            Remedy::Packages(names) => names.clone(),
            Remedy::Own(_) => Vec::new(),
        })
    }
}

fn install(tools: &[Tool]) -> Result<()> {
    let wanted: BTreeSet<&str> = tools.iter().flat_map(Tool::packages).collect();
    let absent: Vec<&str> = wanted.into_iter().filter(|name| !packages::installed(name)).collect();
    if !absent.is_empty() {
        for tool in tools {
            for package in tool.packages().filter(|name| absent.contains(name)) {
                eprintln!("package {package}: {}", tool.why);
            }
        }
        packages::install(&absent)?;
    }
    for tool in tools {
        for remedy in &tool.remedies {
            if let Remedy::Own(step) = remedy {
                step()?;
            }
        }
    }
    let still: Vec<String> = survey(&[Need::Build, Need::Test, Need::Vm, Need::Bench])
        .into_iter()
        .filter(|tool| tools.iter().any(|wanted| wanted.name == tool.name))
        .filter_map(|tool| Some(format!("{}: {}", tool.name, tool.found.err()?)))
        .collect();
    if !still.is_empty() {
        bail!("after installing, still missing:\n  {}", still.join("\n  "));
    }
    Ok(())
}

fn program(name: &'static str, package: &'static str, need: Need, why: &'static str) -> Tool {
    match which(name) {
        Some(place) => found(name, why, need, place.display().to_string()),
        None => missing(name, why, need, "not found".into(), vec![Remedy::Packages(vec![package])]),
    }
}

fn found(name: &'static str, why: &'static str, need: Need, place: String) -> Tool {
    Tool { name, why, need, found: Ok(place), remedies: Vec::new() }
}

fn missing(name: &'static str, why: &'static str, need: Need, reason: String, remedies: Vec<Remedy>) -> Tool {
    Tool { name, why, need, found: Err(reason), remedies }
}

fn c_compiler() -> Tool {
    program("cc", "gcc", Need::Build, "links Rust programs and compiles bundled C")
}

/// Only a static busybox runs in an initramfs without libraries.
fn busybox() -> Tool {
    let (name, why) = ("busybox (static)", "shell and insmod inside the VMs");
    let install = || vec![Remedy::Packages(vec!["busybox-static"])];
    match static_busybox() {
        Some(place) => found(name, why, Need::Vm, place.display().to_string()),
        None => missing(name, why, Need::Vm, "no static busybox found".into(), install()),
    }
}

/// Path of a busybox that needs no dynamic loader.
pub fn static_busybox() -> Option<std::path::PathBuf> {
    const LOADER: &[u8] = b"/ld-linux";
    let place = which("busybox")?;
    let bytes = std::fs::read(&place).ok()?;
    (!bytes.windows(LOADER.len()).any(|window| window == LOADER)).then_some(place)
}

/// Fails with the command to type, unless this process may change the system.
fn require_root(what_to_type: &str) -> Result<()> {
    if !is_root() {
        bail!("installing packages needs root; run\n  sudo {what_to_type}\nand then this command again");
    }
    Ok(())
}
