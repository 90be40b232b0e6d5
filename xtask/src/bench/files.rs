//! Small cached files, each opened, read by one call and closed: what a tracer adds to one, alone on its CPU; and what
//! it costs a crowd of workers, end to end.

use std::{thread::sleep, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    Found, Plan,
    load::Load,
    peers::{self, Tracer},
    pread::Reader,
    proc,
    programs::{Account, Stats},
    rig::{Rig, child_on_all_cpus},
    sample::Sample,
    table::{Limit, Row, Unit},
};

/// Added to an open, read and close, in nanoseconds: three calls, each with a program on its way in and on its way out.
const ADDED_NS: f64 = 2500.0;
/// Time that all files take longer, in percent.
const SLOWDOWN_PERCENT: f64 = 5.0;
/// CPU time of iotrace meanwhile, in percent of one CPU.
const OWN_PERCENT: f64 = 3.0;
/// What the workers read.
const FILES: u64 = 100_000;
const FILE_BYTES: u64 = 16384;
const WORKERS: u64 = 8;
/// iotrace looks at what the kernel side hands over every 50 ms: by then it has seen all.
const SETTLED: Duration = Duration::from_millis(200);

/// Both parts.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let mut found = one_file(rig, plan)?;
    found.rows.extend(many_files(rig, plan)?);
    Ok(found)
}

/// What one tracer did in one round.
struct Turn {
    /// Nanoseconds an open, read and close.
    ns: f64,
    /// How many there were while run statistics were on, and what the programs did for them.
    files: u64,
    accounts: Vec<Account>,
}

impl Turn {
    fn take(tracer: &Tracer, reader: &mut Reader, time: Duration) -> Result<Self> {
        let ns = reader.ns(time)?;
        let stats = Stats::enable()?;
        let before = tracer.programs()?;
        reader.begin(time)?;
        let files = reader.finish()?.reads;
        let accounts = tracer.programs_since(&before)?;
        drop(stats);
        Ok(Self { ns, files, accounts })
    }

    /// Nanoseconds of all programs.
    fn program_ns(&self) -> f64 {
        self.accounts.iter().map(|account| account.ns).sum::<u64>() as f64 / self.files as f64
    }
}

/// Rounds of: untraced, iotrace, untraced, bpftrace, untraced.
fn one_file(rig: &Rig, plan: &Plan) -> Result<Found> {
    let time = Duration::from_millis(if plan.quick { 200 } else { 400 });
    let mut reader = Reader::start_opening(rig)?;
    let pid = reader.pid();
    // The first spell warms caches and CPU.
    reader.ns(time)?;
    let [mut untraced, mut iotrace, mut bpftrace] = [const { Sample::new() }; 3];
    let mut program_ns = [const { Sample::new() }; 2];
    let mut programs = Vec::new();
    let rounds = plan.rounds(9, 3);
    for round in 1..=rounds {
        eprintln!("files: round {round} of {rounds}");
        let before = reader.ns(time)?;
        let tracer = peers::iotrace(rig, pid, &peers::NO_STATS)?;
        let ours = Turn::take(&tracer, &mut reader, time)?;
        check(&tracer.stop()?.json()?, ours.files)?;
        let between = reader.ns(time)?;
        let tracer = peers::bpftrace_files(pid)?;
        let theirs = Turn::take(&tracer, &mut reader, time)?;
        tracer.stop()?;
        let after = reader.ns(time)?;

        untraced.push(between);
        iotrace.push(ours.ns - before.midpoint(between));
        bpftrace.push(theirs.ns - between.midpoint(after));
        program_ns[0].push(ours.program_ns());
        program_ns[1].push(theirs.program_ns());
        let under = |account: Account| account.under("open, read, close", ours.files);
        programs = ours.accounts.into_iter().map(under).collect();
    }
    let [ours, theirs] = program_ns;
    let row = |key, what, untraced, iotrace, peer, limit| Row {
        key,
        what,
        untraced,
        iotrace,
        peer: Some(("bpftrace".into(), peer)),
        unit: Unit::Ns,
        limit,
    };
    let rows = vec![
        row(
            "files.open_read_close",
            "added to an open, read and close",
            Some((untraced, Unit::Ns)),
            iotrace,
            bpftrace,
            Some(Limit::Cost(ADDED_NS)),
        ),
        row("files.programs", "program time of an open, read and close", None, ours, theirs, None),
    ];
    Ok(Found { rows, programs, ..Found::default() })
}

/// Rounds of: untraced, iotrace, untraced. The workers have all CPUs, also iotrace's.
fn many_files(rig: &Rig, plan: &Plan) -> Result<Vec<Row>> {
    let mut command = child_on_all_cpus(rig, &rig.workload);
    command.arg("cached").arg("--dir").arg(&rig.memory).args(["--files", &FILES.to_string()]);
    command.args(["--size", &FILE_BYTES.to_string(), "--workers", &WORKERS.to_string()]);
    let mut load = Load::start(command)?;
    // It says when the files are there.
    load.told()?;
    pass(&mut load)?;
    let [mut untraced, mut slowdown, mut own] = [const { Sample::new() }; 3];
    let rounds = plan.rounds(9, 3);
    for round in 1..=rounds {
        eprintln!("many files: round {round} of {rounds}");
        let before = pass(&mut load)?;
        let tracer = peers::iotrace(rig, load.pid(), &peers::NO_STATS)?;
        let cpu = proc::cpu_ns(tracer.pid())?;
        let traced = pass(&mut load)?;
        sleep(SETTLED);
        let used = proc::cpu_ns(tracer.pid())? - cpu;
        check(&tracer.stop()?.json()?, FILES)?;
        let after = pass(&mut load)?;

        let alone = before.midpoint(after);
        untraced.push(alone / 1e6);
        slowdown.push(100.0 * (traced / alone - 1.0));
        own.push(100.0 * used as f64 / traced);
    }
    let row = |key, what, untraced, iotrace, limit| Row {
        key,
        what,
        untraced,
        iotrace,
        peer: None,
        unit: Unit::Percent,
        limit: Some(Limit::Cost(limit)),
    };
    let untraced = Some((untraced, Unit::Ms));
    Ok(vec![
        row("files.slowdown", "8 workers, 100 000 files: slower by", untraced, slowdown, SLOWDOWN_PERCENT),
        row("files.own_cpu", "iotrace's CPU time meanwhile", None, own, OWN_PERCENT),
    ])
}

/// Nanoseconds that the workers take to read all files once.
fn pass(load: &mut Load) -> Result<f64> {
    load.tell("go")?;
    load.told()?["ns"].as_f64().context("no ns")
}

/// An iotrace that saw nothing would be cheap: each file was opened, read and closed.
fn check(report: &Value, files: u64) -> Result<()> {
    let processes = report["processes"].as_array().context("no processes in the report")?;
    for op in ["open", "read", "close"] {
        let counts = processes.iter().filter_map(|process| process["ops"][op]["count"].as_u64());
        let count: u64 = counts.sum();
        ensure!(count >= files, "iotrace counted {count} of {files}: {op}");
    }
    peers::warn_of_losses(report)
}
