//! Block requests: fio's 4 KiB random reads on a loop device in memory, 32 in flight. One fio runs throughout; tracers
//! come and go beside it, so that only they differ from one window to the next.

use std::{
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    Found, Plan,
    peers::{self, Tracer},
    proc,
    programs::{Account, Stats},
    rig::{Loop, Rig, child},
    sample::Sample,
    table::{Program, Row, Unit},
};
use crate::process::which;

/// Program time a request, at most this share of biolatency's.
const PROGRAM_LIMIT: f64 = 0.6;
/// Loss of requests a second, at most this share of biolatency's.
const LOSS_LIMIT: f64 = 0.6;
/// Size of the device.
const DISK_MIB: usize = 128;
/// Requests in flight.
const DEPTH: u32 = 32;

/// How fio hands requests over.
struct Load {
    name: &'static str,
    /// Requests that one system call hands over, and another takes back.
    batch: u32,
    rounds: (u32, u32),
    rows: fn(Costs) -> Vec<Row>,
}

/// Two system calls a request, as fio does it when not told otherwise; and a quarter of that, where it shows what is
/// the block layer's alone. The batches make the rate jump about, so nothing is said of that.
const LOADS: [Load; 2] = [
    Load { name: "block", batch: 1, rounds: (20, 4), rows: Costs::rows },
    Load { name: "batched", batch: 8, rounds: (8, 2), rows: Costs::rows_of_batches },
];

/// An fio that reads until it is dropped.
struct Fio(Child);

impl Fio {
    fn start(rig: &Rig, disk: &Loop, batch: u32) -> Result<Self> {
        let mut command = child(which("fio").context("no fio")?);
        // On one CPU: where the scheduler puts it makes more difference than any tracer.
        command.arg(format!("--cpus_allowed={}", rig.load_cpu));
        command.arg(format!("--iodepth_batch_submit={batch}"));
        command.arg(format!("--iodepth_batch_complete_min={batch}"));
        command.arg(format!("--filename={}", disk.path.display())).arg(format!("--iodepth={DEPTH}"));
        // A thread: fio is one process, which ends as a whole.
        command.args(["--name=randread", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio"]);
        command.args(["--thread", "--readonly", "--time_based", "--runtime=1d", "--norandommap"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut fio = Self(command.spawn().context("cannot start fio")?);
        let started = Instant::now();
        while disk.reads()? < 10_000 {
            if let Some(status) = fio.0.try_wait()? {
                bail!("fio ended ({status})");
            }
            ensure!(started.elapsed() < Duration::from_secs(30), "fio does not read");
            sleep(Duration::from_millis(50));
        }
        Ok(fio)
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// How the load fared for a while.
#[derive(Clone, Copy)]
struct Pace {
    /// Requests a second.
    iops: f64,
    /// fio's own CPU time for a request, in ns, interrupts that hit it included.
    cpu_ns: f64,
}

impl Pace {
    /// Medians of short windows, of which another program spoils only some.
    fn take(fio: &Fio, disk: &Loop, time: Duration) -> Result<Self> {
        const WINDOWS: u32 = 10;
        let [mut iops, mut cpu_ns] = [const { Sample::new() }; 2];
        for _ in 0..WINDOWS {
            let (reads, cpu, start) = (disk.reads()?, proc::cpu_ns(fio.0.id())?, Instant::now());
            sleep(time / WINDOWS);
            let (reads, cpu) = (disk.reads()? - reads, proc::cpu_ns(fio.0.id())? - cpu);
            iops.push(reads as f64 / start.elapsed().as_secs_f64());
            if reads > 0 {
                cpu_ns.push(cpu as f64 / reads as f64);
            }
        }
        Ok(Self { iops: iops.median(), cpu_ns: cpu_ns.median() })
    }

    /// Percent of the requests a second that are lost, against the time just before and just after.
    fn lost(self, before: Self, after: Self) -> f64 {
        100.0 * (1.0 - self.iops / before.iops.midpoint(after.iops))
    }

    /// CPU time added to a request, in the same way.
    fn added_ns(self, before: Self, after: Self) -> f64 {
        self.cpu_ns - before.cpu_ns.midpoint(after.cpu_ns)
    }
}

/// What one tracer did in one round.
struct Turn {
    pace: Pace,
    /// Requests while run statistics were on, and what the programs did for them.
    requests: u64,
    accounts: Vec<Account>,
}

impl Turn {
    fn take(tracer: &Tracer, fio: &Fio, disk: &Loop, time: Duration) -> Result<Self> {
        let pace = Pace::take(fio, disk, time)?;
        let stats = Stats::enable()?;
        let (before, reads) = (tracer.programs()?, disk.reads()?);
        sleep(time);
        let requests = disk.reads()? - reads;
        let accounts = tracer.programs_since(&before)?;
        drop(stats);
        ensure!(requests > 0, "this machine is too busy: fio did not run for {time:?}");
        Ok(Self { pace, requests, accounts })
    }

    /// Nanoseconds a request of the programs that `which` takes.
    fn program_ns(&self, which: impl Fn(&Account) -> bool) -> f64 {
        let ns: u64 = self.accounts.iter().filter(|account| which(account)).map(|account| account.ns).sum();
        ns as f64 / self.requests as f64
    }
}

/// What all rounds say of one load.
#[derive(Default)]
struct Costs {
    untraced: [Sample; 2],
    /// iotrace's and the peer's.
    lost: [Sample; 2],
    added_ns: [Sample; 2],
    /// iotrace's block_* programs; all of them; the peer's.
    program_ns: [Sample; 3],
    peer: &'static str,
}

impl Costs {
    fn row(&self, key: &'static str, what: &'static str, of: [&Sample; 2], unit: Unit) -> Row {
        let [iotrace, peer] = of.map(Sample::clone);
        Row {
            key,
            what,
            untraced: None,
            iotrace,
            peer: Some((self.peer.to_owned(), peer)),
            unit,
            limit: None,
        }
    }

    fn rows(self) -> Vec<Row> {
        let [block, all, peer] = &self.program_ns;
        let [rate, cpu] = self.untraced.clone();
        let [our_loss, their_loss] = &self.lost;
        let [ours, theirs] = &self.added_ns;
        vec![
            Row {
                limit: Some(PROGRAM_LIMIT),
                ..self.row("block.programs", "program time of a block request", [block, peer], Unit::Ns)
            },
            self.row("block.all_programs", "the same, with fio's system calls", [all, peer], Unit::Ns),
            Row {
                untraced: Some((rate, Unit::PerSecond)),
                limit: Some(LOSS_LIMIT),
                ..self.row("block.loss", "requests a second lost", [our_loss, their_loss], Unit::Percent)
            },
            Row {
                untraced: Some((cpu, Unit::Ns)),
                ..self.row("block.cpu", "added to fio's CPU time for a request", [ours, theirs], Unit::Ns)
            },
        ]
    }

    fn rows_of_batches(self) -> Vec<Row> {
        let [block, _, peer] = &self.program_ns;
        vec![self.row(
            "batched.programs",
            "batched: program time of a block request",
            [block, peer],
            Unit::Ns,
        )]
    }
}

/// Measures each load.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let disk = Loop::new(&rig.memory, DISK_MIB)?;
    let mut found = Found::default();
    for load in &LOADS {
        let (costs, programs) = under(load, rig, &disk, plan)?;
        found.rows.extend((load.rows)(costs));
        found.programs.extend(programs);
    }
    Ok(found)
}

/// Rounds of: untraced, iotrace, untraced, biolatency, untraced.
fn under(load: &Load, rig: &Rig, disk: &Loop, plan: &Plan) -> Result<(Costs, Vec<Program>)> {
    let time = Duration::from_millis(500);
    let fio = Fio::start(rig, disk, load.batch)?;
    let pid = fio.0.id();
    let pace = || Pace::take(&fio, disk, time);
    pace()?;
    let mut costs = Costs::default();
    let mut programs = Vec::new();
    let rounds = plan.rounds(load.rounds.0, load.rounds.1);
    for round in 1..=rounds {
        eprintln!("{}: round {round} of {rounds}", load.name);
        let before = pace()?;

        let tracer = peers::iotrace(rig, pid, Some("off"))?;
        let ours = Turn::take(&tracer, &fio, disk, time)?;
        check(&tracer.stop()?.json()?, pid)?;
        let between = pace()?;

        let (name, tracer) = peers::block()?;
        let theirs = Turn::take(&tracer, &fio, disk, time)?;
        tracer.stop()?;
        let after = pace()?;
        ensure!(round == 1 || costs.peer == name, "{} ran in some rounds only", costs.peer);
        costs.peer = name;

        if [before, between, after].iter().any(|pace| pace.iops == 0.0) {
            eprintln!("this round does not count: the load did not get to run, traced or not");
            continue;
        }
        // Each against its own neighbours: a machine that grows slower through a round wrongs neither.
        costs.untraced[0].push(between.iops);
        costs.untraced[1].push(between.cpu_ns);
        costs.lost[0].push(ours.pace.lost(before, between));
        costs.lost[1].push(theirs.pace.lost(between, after));
        let added_ns = [ours.pace.added_ns(before, between), theirs.pace.added_ns(between, after)];
        // A load that a tracer stopped altogether has lost all its requests, and none has a cost.
        if added_ns.iter().all(|ns| ns.is_finite()) {
            costs.added_ns[0].push(added_ns[0]);
            costs.added_ns[1].push(added_ns[1]);
        }
        costs.program_ns[0].push(ours.program_ns(|account| account.name.starts_with("block_")));
        costs.program_ns[1].push(ours.program_ns(|_| true));
        costs.program_ns[2].push(theirs.program_ns(|_| true));
        let requests = ours.requests;
        programs = ours.accounts.into_iter().map(|account| account.under(load.name, requests)).collect();
    }
    ensure!(!costs.lost[0].values().is_empty(), "this machine is too busy: no round counts");
    Ok((costs, programs))
}

/// An iotrace that records less would be cheap: fio owns reads, and each phase and the sizes are there.
fn check(report: &Value, pid: u32) -> Result<()> {
    let processes = report["processes"].as_array().context("no processes in the report")?;
    let fio = processes.iter().find(|process| process["pid"] == pid).context("fio is not in the report")?;
    let read = &fio["block"]["read"];
    for histogram in ["size", "queue", "device", "total"] {
        let count = read[histogram]["count"].as_u64().unwrap_or(0);
        ensure!(count > 0, "iotrace recorded no {histogram} of fio's requests");
    }
    Ok(())
}
