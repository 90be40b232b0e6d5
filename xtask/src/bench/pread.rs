//! Cached 4 KiB preads by one thread: what a tracer adds to each, for the process it traces and for its neighbour.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};

use super::{
    Found, Plan,
    load::Load,
    peers::{self, Ended},
    programs::Stats,
    rig::{Rig, child},
    sample::Sample,
    table::{Limit, Program, Row, Unit},
};

/// Added cost of the traced process, at most this share of what bpftrace adds.
const TARGET_LIMIT: f64 = 0.4;
/// The same of a process that is not traced.
const OTHER_LIMIT: f64 = 0.2;

/// A workload that reads when told to.
pub struct Reader(Load);

/// What a reader says of one spell.
pub struct Spell {
    /// Median nanoseconds a read.
    pub ns: f64,
    /// Reads done.
    pub reads: u64,
}

impl Reader {
    /// Starts one on the load's CPU, at full speed or at a rate in reads a second.
    pub fn start(rig: &Rig, rate: Option<u64>) -> Result<Self> {
        let rate = rate.map(|rate| ["--rate".to_owned(), rate.to_string()]);
        Self::steady(rig, &rig.folder, rate.as_ref().map_or(&[], |rate| rate))
    }

    /// Starts one that opens and closes a file for each read. The file is in memory: it has a name, which stays when the
    /// reader is killed.
    pub fn start_opening(rig: &Rig) -> Result<Self> {
        Self::steady(rig, &rig.memory, &["--open".to_owned()])
    }

    fn steady(rig: &Rig, folder: &Path, options: &[String]) -> Result<Self> {
        let mut command = child(&rig.workload);
        command
            .arg("steady")
            .arg("--dir")
            .arg(folder)
            .args(["--cpu", &rig.load_cpu.to_string()])
            .args(options);
        Load::start(command).map(Self)
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Begins to read for this long.
    pub fn begin(&mut self, time: Duration) -> Result<()> {
        self.0.tell(&time.as_millis().to_string())
    }

    /// Waits until it has read.
    pub fn finish(&mut self) -> Result<Spell> {
        let said = self.0.told()?;
        let ns = said["ns"].as_f64().context("no ns")?;
        Ok(Spell { ns, reads: said["reads"].as_u64().context("no reads")? })
    }

    /// Nanoseconds a read over this long.
    pub fn ns(&mut self, time: Duration) -> Result<f64> {
        self.begin(time)?;
        Ok(self.finish()?.ns)
    }
}

/// Rounds of: untraced, iotrace, untraced, bpftrace, untraced. iotrace traces one of two readers; both are measured.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let time = Duration::from_millis(if plan.quick { 400 } else { 800 });
    let mut readers = [Reader::start(rig, None)?, Reader::start(rig, None)?];
    let pid = readers[0].pid();
    // The first spell warms caches and CPU.
    spells(&mut readers, time)?;
    let [mut untraced, mut traced, mut beside, mut bpftrace] = [const { Sample::new() }; 4];
    let mut programs = Vec::new();
    let rounds = plan.rounds(9, 3);
    for round in 1..=rounds {
        eprintln!("pread: round {round} of {rounds}");
        let before = spells(&mut readers, time)?;

        let tracer = peers::iotrace(rig, pid, &peers::NO_STATS)?;
        let with_iotrace = spells(&mut readers, time)?;
        if round == rounds {
            programs = account(&tracer, &mut readers[0], time)?;
        }
        check(&tracer.stop()?, pid)?;
        let between = spells(&mut readers, time)?;

        let tracer = peers::bpftrace_pread()?;
        let with_bpftrace = spells(&mut readers, time)?;
        tracer.stop()?;
        let after = spells(&mut readers, time)?;

        // Each against its own neighbours: a machine that grows slower through a round wrongs neither.
        untraced.push(between[0]);
        traced.push(with_iotrace[0] - before[0].midpoint(between[0]));
        beside.push(with_iotrace[1] - before[1].midpoint(between[1]));
        bpftrace.push(with_bpftrace[0] - between[0].midpoint(after[0]));
    }
    let row = |key, what, iotrace, limit| Row {
        key,
        what,
        untraced: Some((untraced.clone(), Unit::Ns)),
        iotrace,
        peer: Some(("bpftrace".into(), bpftrace.clone())),
        unit: Unit::Ns,
        limit: Some(Limit::OfPeer(limit)),
    };
    let rows = vec![
        row("pread.target", "added to a cached pread, traced process", traced, TARGET_LIMIT),
        row("pread.other", "added to a cached pread, other process", beside, OTHER_LIMIT),
    ];
    Ok(Found { rows, programs, ..Found::default() })
}

/// Nanoseconds a read of both readers, which take turns within this time.
fn spells(readers: &mut [Reader; 2], time: Duration) -> Result<[f64; 2]> {
    const TURNS: u32 = 4;
    let mut ns = [const { Sample::new() }; 2];
    for _ in 0..TURNS {
        for (reader, sample) in readers.iter_mut().zip(&mut ns) {
            sample.push(reader.ns(time / (2 * TURNS))?);
        }
    }
    Ok(ns.map(|sample| sample.median()))
}

/// What each program takes for a read. Apart from the other spells: the kernel's account has a cost of its own.
fn account(tracer: &peers::Tracer, target: &mut Reader, time: Duration) -> Result<Vec<Program>> {
    let stats = Stats::enable()?;
    let before = tracer.programs()?;
    target.begin(time)?;
    let spell = target.finish()?;
    let accounts = tracer.programs_since(&before)?;
    drop(stats);
    Ok(accounts.into_iter().map(|account| account.under("pread", spell.reads)).collect())
}

/// An iotrace that saw nothing would be cheap.
fn check(ended: &Ended, pid: u32) -> Result<()> {
    let report = ended.json()?;
    let processes = report["processes"].as_array().context("no processes in the report")?;
    let process =
        processes.iter().find(|process| process["pid"] == pid).context("the target is not in the report")?;
    let count = process["ops"]["read"]["count"].as_u64().unwrap_or(0);
    ensure!(count > 0, "iotrace counted no read");
    peers::warn_of_losses(&report)
}
