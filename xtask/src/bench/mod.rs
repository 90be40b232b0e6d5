//! `cargo xtask bench`: what tracing costs, beside other tracers that do the same job on the same machine in the same
//! run.
//!
//! Machines differ and are shared, so no figure stands alone: untraced, iotrace and peer take turns, round after round,
//! and a row is the median of the rounds with its quartiles. docs/performance.md says what each row means.

mod block;
mod files;
mod load;
mod own;
mod peers;
mod pread;
mod proc;
mod programs;
mod rig;
mod sample;
mod sched;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;

use self::{
    rig::Rig,
    table::{Program, Row},
};
use crate::{
    paths,
    process::{cargo, is_root, run as run_command},
    setup::{self, Need},
};

/// More than this share of the CPU time spent on something else makes figures doubtful.
const BUSY: f64 = 0.1;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Fewer and shorter rounds, for a first look
    #[arg(long)]
    quick: bool,
    /// Rounds of each part, in place of its own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Measure this iotrace in place of the one built here
    #[arg(long, value_name = "FILE")]
    iotrace: Option<PathBuf>,
    /// Where the figures are written
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Cached reads, traced and beside a trace
    Pread,
    /// Small cached files, each opened, read and closed
    Files,
    /// Block requests
    Block,
    /// Switches from one thread to another, and ledgers
    Sched,
    /// iotrace's own CPU time, memory and delays
    Own,
}

impl Part {
    fn measure(self, rig: &Rig, plan: &Plan) -> Result<Found> {
        match self {
            Self::Pread => pread::measure(rig, plan),
            Self::Files => files::measure(rig, plan),
            Self::Block => block::measure(rig, plan),
            Self::Sched => sched::measure(rig, plan),
            Self::Own => own::measure(rig, plan),
        }
    }
}

/// How often and how long each part measures.
struct Plan {
    quick: bool,
    rounds: Option<u32>,
}

impl Plan {
    fn rounds(&self, full: u32, quick: u32) -> u32 {
        self.rounds.unwrap_or(if self.quick { quick } else { full })
    }
}

/// What a part found.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    programs: Vec<Program>,
    /// Names of other tracers' programs that were loaded meanwhile.
    others: Vec<String>,
}

/// Runs `cargo xtask bench`.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::ensure(&[Need::Build, Need::Test, Need::Bench])?;
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "-p", "iotrace", "-p", "iotrace-workload"]);
    run_command(&mut build)?;
    if !is_root() {
        bail!("tracing needs root; run\n  sudo -E cargo xtask bench");
    }
    let json = args.json.clone().unwrap_or_else(|| paths::target().join("bench/bench.json"));
    let iotrace = args.iotrace.clone().unwrap_or_else(|| paths::target().join("release/iotrace"));
    let rig = Rig::set_up(&iotrace)?;
    let plan = Plan { quick: args.quick, rounds: args.rounds };

    let mut found = Found::default();
    let mut errors = Vec::new();
    let all = Part::value_variants();
    for part in all.iter().filter(|part| args.only.is_empty() || args.only.contains(part)) {
        let others = programs::tracing();
        if !others.is_empty() {
            let names = others.join(", ");
            eprintln!("warning: another tracer is at work, and every figure holds its cost: {names}");
            found.others.extend(others);
        }
        let busy = proc::busy_ratio()?;
        if busy > BUSY {
            eprintln!(
                "warning: this machine is busy without the bench, {:.0} % of its CPU time",
                100.0 * busy
            );
        }
        match part.measure(&rig, &plan) {
            Ok(new) => {
                found.rows.extend(new.rows);
                found.programs.extend(new.programs);
            }
            Err(error) => errors.push(format!("{part:?}: {error:#}")),
        }
    }
    print!("{}", table::text(&found));
    write(&json, &table::json(&found, args.quick, &errors))?;
    println!("\nThe figures are in {}", json.strip_prefix(paths::root()).unwrap_or(&json).display());
    for error in &errors {
        eprintln!("error: {error}");
    }
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(path: &Path, value: &serde_json::Value) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, format!("{value:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}
