//! The ledger of waits: what it adds to a switch from one thread to another, of a traced process and of others; and what
//! reading the ledgers costs iotrace.

use std::{process::Stdio, thread::sleep, time::Duration};

use anyhow::{Context as _, Result, ensure};

use super::{
    Found, Plan,
    load::Load,
    peers::{self, Tracer},
    proc,
    programs::{Account, Stats},
    rig::{Rig, child, child_on_load_cpu},
    sample::Sample,
    table::{Limit, Row, Unit},
};
use crate::process::which;

/// Program time of a switch between threads of a target, in nanoseconds.
const TARGET_NS: f64 = 400.0;
/// Of other threads, above what an empty program takes.
const OTHER_NS: f64 = 60.0;
/// Time that a program which does nothing but switch takes longer beside a trace, in percent.
const SLOWDOWN_PERCENT: f64 = 5.0;
/// Threads whose ledgers are read, and CPU time of iotrace for it, in percent of one CPU.
const CROWDS: [(&str, &str, &str, f64); 2] = [
    ("ledger.64", "iotrace's CPU time, 64 threads' ledgers", "64", 0.5),
    ("ledger.2000", "iotrace's CPU time, 2000 threads' ledgers", "2000", 3.0),
];

/// All parts.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let mut found = switches(rig, plan)?;
    for crowd in CROWDS {
        found.rows.push(snapshots(rig, plan, crowd)?);
    }
    Ok(found)
}

/// Seconds that `perf bench sched pipe` takes on the load's CPU: two processes that pass a word to and fro.
fn pipe(rig: &Rig, loops: u64) -> Result<f64> {
    let mut command = child_on_load_cpu(rig, which("perf").context("no perf")?);
    command.args(["bench", "-f", "simple", "sched", "pipe", "-l", &loops.to_string()]).stderr(Stdio::null());
    let output = command.output().context("perf bench sched pipe")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("perf bench sched pipe said {text:?}"))
}

/// Mean run time of the program at a switch during a spell of switching.
fn switch_ns(rig: &Rig, tracer: &Tracer, loops: u64) -> Result<(f64, Vec<Account>)> {
    let stats = Stats::enable()?;
    let before = tracer.programs()?;
    pipe(rig, loops)?;
    let accounts = tracer.programs_since(&before)?;
    drop(stats);
    // bpftrace names its only one otherwise.
    let alone = accounts.iter().filter(|a| a.runs > 0).count() == 1;
    let at_switch = |a: &&Account| alone || a.name.starts_with("sched_switch");
    let switches: Vec<_> = accounts.iter().filter(at_switch).collect();
    let runs: u64 = switches.iter().map(|a| a.runs).sum();
    ensure!(runs >= loops, "{runs} runs at {loops} round trips");
    let ns: u64 = switches.iter().map(|a| a.ns).sum();
    Ok((ns as f64 / runs as f64, accounts))
}

/// Rounds of: untraced, a trace of everything, a trace of a process that sleeps, an empty program.
fn switches(rig: &Rig, plan: &Plan) -> Result<Found> {
    let loops = if plan.quick { 30_000 } else { 100_000 };
    let mut sleeper = threads(rig, "1")?;
    let [mut untraced, mut target, mut other, mut empty, mut slower] = [const { Sample::new() }; 5];
    let mut programs = Vec::new();
    pipe(rig, loops)?;
    let rounds = plan.rounds(9, 3);
    for round in 1..=rounds {
        eprintln!("switches: round {round} of {rounds}");
        let tracer = peers::iotrace_all(rig)?;
        let (ns, accounts) = switch_ns(rig, &tracer, loops)?;
        tracer.stop()?;
        target.push(ns);
        programs = accounts.into_iter().map(|account| account.under("switches", 2 * loops)).collect();

        let before = pipe(rig, loops)?;
        let tracer = peers::iotrace(rig, sleeper.pid(), &peers::NO_STATS)?;
        let beside = pipe(rig, loops)?;
        let (ns, _) = switch_ns(rig, &tracer, loops)?;
        tracer.stop()?;
        let after = pipe(rig, loops)?;
        untraced.push(before.midpoint(after) * 1e9 / (2 * loops) as f64);
        slower.push(100.0 * (beside / before.midpoint(after) - 1.0));

        let tracer = peers::bpftrace_empty_switch()?;
        let (least, _) = switch_ns(rig, &tracer, loops)?;
        tracer.stop()?;
        empty.push(least);
        other.push(ns - least);
    }
    sleeper.tell("go")?;
    let row = |key, what, untraced, iotrace, peer: Option<Sample>, unit, limit| Row {
        key,
        what,
        untraced,
        iotrace,
        peer: peer.map(|peer| ("empty program".into(), peer)),
        unit,
        limit: Some(Limit::Cost(limit)),
    };
    let rows = vec![
        row(
            "switch.target",
            "program time of a switch, traced",
            None,
            target,
            Some(empty),
            Unit::Ns,
            TARGET_NS,
        ),
        row(
            "switch.other",
            "the same, others: above an empty program",
            None,
            other,
            None,
            Unit::Ns,
            OTHER_NS,
        ),
        row(
            "switch.pipe",
            "perf bench sched pipe beside a trace: slower by",
            Some((untraced, Unit::Ns)),
            slower,
            None,
            Unit::Percent,
            SLOWDOWN_PERCENT,
        ),
    ];
    Ok(Found { rows, programs, ..Found::default() })
}

/// A process of so many threads that sleep.
fn threads(rig: &Rig, count: &str) -> Result<Load> {
    let mut command = child(&rig.workload);
    command.args(["hold", "--calls", "1", "--threads", count, "--dir"]).arg(&rig.memory);
    let mut load = Load::start(command)?;
    load.told()?;
    Ok(load)
}

fn snapshots(rig: &Rig, plan: &Plan, crowd: (&'static str, &'static str, &str, f64)) -> Result<Row> {
    let (key, what, count, limit) = crowd;
    let time = Duration::from_secs(if plan.quick { 2 } else { 5 });
    let load = threads(rig, count)?;
    let mut cpu = Sample::new();
    for round in 1..=plan.rounds(5, 3) {
        eprintln!("{key}: round {round}");
        let tracer = peers::iotrace(rig, load.pid(), &peers::NO_STATS)?;
        let before = proc::cpu_ns(tracer.pid())?;
        sleep(time);
        let used = proc::cpu_ns(tracer.pid())? - before;
        let report = tracer.stop()?.json()?;
        let listed = report["ledger"]["threads"].as_array().map_or(0, Vec::len);
        ensure!(listed as u64 >= count.parse::<u64>()?, "{listed} of {count} threads have a ledger");
        cpu.push(100.0 * used as f64 / time.as_nanos() as f64);
    }
    Ok(Row {
        key,
        what,
        untraced: None,
        iotrace: cpu,
        peer: None,
        unit: Unit::Percent,
        limit: Some(Limit::Cost(limit)),
    })
}
