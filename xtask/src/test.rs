//! `cargo xtask test`: every check and test in order. The last line counts the tests.

use std::{
    io::{IsTerminal as _, Write as _},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::Result;
use iotrace_vm::Tally;

use crate::{
    paths,
    process::{cargo, is_root, transcript},
    setup::{self, Need},
    vm::{self, Boot, Guest, Lockdown, SERIES},
};

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Leave the virtual machines out
    #[arg(long)]
    quick: bool,
}

/// Runs `cargo xtask test`.
pub fn run(args: &Args) -> Result<ExitCode> {
    let total = all(args).unwrap_or_else(|error| {
        println!("error: {error:#}");
        Tally::broken()
    });
    for skip in &total.skips {
        println!("SKIP {skip}");
    }
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(args: &Args) -> Result<Tally> {
    let mut total = Tally::default();
    let needs: &[Need] =
        if args.quick { &[Need::Build, Need::Test] } else { &[Need::Build, Need::Test, Need::Vm] };
    setup::ensure(needs)?;
    step(&mut total, "format", cargo().args(["fmt", "--all", "--check"]))?;
    step(&mut total, "lints", cargo().args(["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]))?;
    step(&mut total, "lints, kernel side", &mut kernel_lints())?;
    let built = step(&mut total, "build", &mut release_build())?;
    step(&mut total, "unit tests", &mut unit_tests())?;
    if built {
        step(&mut total, "live tests", &mut live_tests())?;
    }
    if built && !args.quick {
        total.add(&machines()?);
    }
    Ok(total)
}

fn release_build() -> Command {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "-p", "iotrace", "-p", "iotrace-workload"]);
    build
}

fn unit_tests() -> Command {
    let mut test = cargo();
    test.args(["test", "--quiet", "--no-fail-fast", "--workspace"]);
    test.args(["--exclude", "iotrace-ebpf", "--exclude", "iotrace-live", "--", "--show-output"]);
    test
}

fn live_tests() -> Command {
    if !is_root() {
        println!("not root: live tests that load kernel programs will skip themselves");
    }
    let mut test = cargo();
    test.args(["test", "--quiet", "--no-fail-fast", "--release", "-p", "iotrace-live"]);
    test.args(["--", "--test-threads=1", "--show-output"]);
    for (variable, program) in [("IOTRACE_BIN", "iotrace"), ("IOTRACE_WORKLOAD", "iotrace-workload")] {
        test.env(variable, paths::target().join("release").join(program));
    }
    test
}

/// clippy reads the kernel programs as if for the host: the distribution's Rust, which has `core` for BPF, has no clippy.
fn kernel_lints() -> Command {
    let mut clippy = cargo();
    clippy.args(["clippy", "--quiet", "-p", "iotrace-ebpf", "--config", "profile.dev.panic='abort'"]);
    clippy.arg("--target-dir").arg(paths::target().join("ebpf-lints")).args(["--", "-D", "warnings"]);
    clippy.env("RUSTC_BOOTSTRAP", "1");
    // As aya-build passes it: the registers of the traced machine.
    clippy.env("RUSTFLAGS", format!("--cfg=bpf_target_arch=\"{}\"", std::env::consts::ARCH));
    clippy
}

/// What every kernel of the matrix is asked each time: does every program load by each kind of hook, is every form of call
/// counted once, are requests followed, do filters hold, is nothing lost under load. Checking the programs takes an emulated CPU
/// ten seconds a trace, so all live tests take hours there: `cargo xtask vm` runs them.
const EVERY_KERNEL: [&str; 6] = [
    "two_hundred_calls",
    "every_form_is_counted",
    "requests_are_counted_where_only",
    "filter_keeps",
    "sixty_four_threads",
    "each_timer_message_and_lock",
];

/// The matrix, one kernel without BTF, and one that is locked down, in both modes.
fn machines() -> Result<Tally> {
    let start = Instant::now();
    let guest = Guest::build()?;
    println!("{:<20} {:6.1} s", "programs for VMs", start.elapsed().as_secs_f64());
    let boot = |series| Boot {
        series,
        no_btf: false,
        lockdown: None,
        timeout: Duration::from_secs(1200),
        filter: EVERY_KERNEL.map(String::from).to_vec(),
    };
    let mut boots: Vec<Boot> = SERIES.iter().map(|series| boot(series.name)).collect();
    boots.push(Boot { no_btf: true, filter: vec!["without_btf".into()], ..boot("6.1") });
    // What a locked kernel forbids decides alone; the whole of the tests has run on it unlocked.
    for mode in [Lockdown::Integrity, Lockdown::Confidentiality] {
        boots.push(Boot { lockdown: Some(mode), filter: vec!["locked_down".into()], ..boot("6.12") });
    }
    Ok(vm::matrix(&boots, &guest, 2, false))
}

/// Runs one step, prints a line about it, and what it printed if it failed. Returns whether it succeeded.
fn step(total: &mut Tally, name: &str, command: &mut Command) -> Result<bool> {
    if std::io::stdout().is_terminal() {
        print!("{name:<20} ...\r");
        std::io::stdout().flush()?;
    }
    let start = Instant::now();
    let transcript = transcript(command)?;
    let mut tally = Tally::default();
    transcript.text.lines().for_each(|line| tally.feed(line));
    let counts = if tally == Tally::default() { String::new() } else { format!("  {tally}") };
    let verdict = if transcript.success { "" } else { "  FAILED" };
    println!("{name:<20} {:6.1} s{counts}{verdict}", start.elapsed().as_secs_f64());
    if !transcript.success {
        println!("{}", transcript.text);
        // A step that broke off counts, even if every test it came to had passed.
        tally.failed = tally.failed.max(1);
    }
    total.add(&tally);
    Ok(transcript.success)
}
