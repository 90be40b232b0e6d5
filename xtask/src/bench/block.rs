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
    table::{Limit, Program, Row, Unit},
};
use crate::process::which;

/// Program time a request under `--block-only`, at most this share of biolatency's, which records nothing but block
/// requests either.
const PROGRAM_LIMIT: f64 = 0.6;
/// Loss of requests a second, likewise.
const LOSS_LIMIT: f64 = 0.6;
/// Size of the device.
const DISK_MIB: usize = 128;
/// Requests in flight.
const DEPTH: u32 = 32;

/// How fio hands requests over.
struct Load {
    name: &'static str,
    /// The same where `--block-only` traces it.
    block_only_name: &'static str,
    /// Requests that one system call hands over, and another takes back.
    batch: u32,
    rounds: (u32, u32),
    rows: fn(Rounds) -> Vec<Row>,
}

/// Two system calls a request, as fio does it when not told otherwise; and a quarter of that, where it shows what is
/// the block layer's alone. The batches make the rate jump about, so nothing is said of that.
const LOADS: [Load; 2] = [
    Load { name: "block", block_only_name: "block only", batch: 1, rounds: (20, 4), rows: Rounds::rows },
    Load {
        name: "batched",
        block_only_name: "batched only",
        batch: 8,
        rounds: (8, 2),
        rows: Rounds::rows_of_batches,
    },
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

    /// Nanoseconds a request of all programs.
    fn program_ns(&self) -> f64 {
        let ns: u64 = self.accounts.iter().map(|account| account.ns).sum();
        ns as f64 / self.requests as f64
    }

    /// Each program, under `load`.
    fn programs(&self, load: &'static str) -> Vec<Program> {
        self.accounts.iter().map(|account| account.clone().under(load, self.requests)).collect()
    }
}

/// What all rounds say of one tracer under one load.
#[derive(Default)]
struct Costs {
    /// Percent of the requests a second.
    lost: Sample,
    /// CPU time added to a request.
    added_ns: Sample,
    /// Of its programs, for a request.
    program_ns: Sample,
}

impl Costs {
    /// Adds a round. Against the untraced time just before and just after: a machine that grows slower through a round
    /// wrongs nobody.
    fn push(&mut self, turn: &Turn, before: Pace, after: Pace) {
        self.lost.push(turn.pace.lost(before, after));
        self.program_ns.push(turn.program_ns());
    }
}

/// What all rounds say of one load.
#[derive(Default)]
struct Rounds {
    /// Requests a second, and CPU time of one.
    untraced: [Sample; 2],
    /// iotrace with `--block-only`: it records what the peer records, and more of it. Limits are for this one.
    block_only: Costs,
    /// iotrace as it comes: reads and writes too.
    all: Costs,
    peer: Costs,
    peer_name: &'static str,
}

impl Rounds {
    fn row(&self, key: &'static str, what: &'static str, of: [&Sample; 2], unit: Unit) -> Row {
        let [iotrace, peer] = of.map(Sample::clone);
        let peer = Some((self.peer_name.to_owned(), peer));
        Row { key, what, untraced: None, iotrace, peer, unit, limit: None }
    }

    fn rows(self) -> Vec<Row> {
        let Self { block_only, all, peer, .. } = &self;
        let programs =
            |key, what, of: &Costs| self.row(key, what, [&of.program_ns, &peer.program_ns], Unit::Ns);
        let loss = |key, what, of: &Costs| Row {
            untraced: Some((self.untraced[0].clone(), Unit::PerSecond)),
            ..self.row(key, what, [&of.lost, &peer.lost], Unit::Percent)
        };
        let cpu = |key, what, of: &Costs| Row {
            untraced: Some((self.untraced[1].clone(), Unit::Ns)),
            ..self.row(key, what, [&of.added_ns, &peer.added_ns], Unit::Ns)
        };
        vec![
            Row {
                limit: Some(Limit::OfPeer(PROGRAM_LIMIT)),
                ..programs("block.programs", "--block-only: program time of a block request", block_only)
            },
            Row {
                limit: Some(Limit::OfPeer(LOSS_LIMIT)),
                ..loss("block.loss", "--block-only: requests a second lost", block_only)
            },
            cpu("block.cpu", "--block-only: added to fio's CPU time for a request", block_only),
            programs("block.all_programs", "with reads and writes: program time", all),
            loss("block.all_loss", "with reads and writes: requests a second lost", all),
            cpu("block.all_cpu", "with reads and writes: added to fio's CPU time", all),
        ]
    }

    fn rows_of_batches(self) -> Vec<Row> {
        let of = |costs: &Costs| [costs.program_ns.clone(), self.peer.program_ns.clone()];
        let ([block_only, peer], [all, _]) = (of(&self.block_only), of(&self.all));
        vec![
            self.row(
                "batched.programs",
                "--block-only, batched: program time",
                [&block_only, &peer],
                Unit::Ns,
            ),
            self.row("batched.all_programs", "with reads and writes, batched", [&all, &peer], Unit::Ns),
        ]
    }
}

/// Measures each load.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let disk = Loop::new(&rig.memory, DISK_MIB)?;
    let mut found = Found::default();
    for load in &LOADS {
        let (rounds, programs) = under(load, rig, &disk, plan)?;
        found.rows.extend((load.rows)(rounds));
        found.programs.extend(programs);
    }
    Ok(found)
}

/// Rounds of iotrace, the same with `--block-only`, and biolatency, with untraced time before, between and after.
fn under(load: &Load, rig: &Rig, disk: &Loop, plan: &Plan) -> Result<(Rounds, Vec<Program>)> {
    let time = Duration::from_millis(500);
    let fio = Fio::start(rig, disk, load.batch)?;
    let pid = fio.0.id();
    let pace = || Pace::take(&fio, disk, time);
    let iotrace = |options: &[&str]| {
        let tracer = peers::iotrace(rig, pid, options)?;
        let turn = Turn::take(&tracer, &fio, disk, time)?;
        check(&tracer.stop()?.json()?, pid)?;
        Ok::<_, anyhow::Error>(turn)
    };
    pace()?;
    let mut rounds = Rounds::default();
    let mut programs = Vec::new();
    let count = plan.rounds(load.rounds.0, load.rounds.1);
    for round in 1..=count {
        eprintln!("{}: round {round} of {count}", load.name);
        let first = pace()?;
        let all = iotrace(&peers::NO_STATS)?;
        let second = pace()?;
        let block_only = iotrace(&peers::BLOCK_ONLY)?;
        let third = pace()?;
        let (name, tracer) = peers::block()?;
        let theirs = Turn::take(&tracer, &fio, disk, time)?;
        tracer.stop()?;
        let last = pace()?;
        ensure!(round == 1 || rounds.peer_name == name, "{} ran in some rounds only", rounds.peer_name);
        rounds.peer_name = name;

        if [first, second, third, last].iter().any(|pace| pace.iops == 0.0) {
            eprintln!("this round does not count: the load did not get to run, traced or not");
            continue;
        }
        rounds.untraced[0].push(second.iops.midpoint(third.iops));
        rounds.untraced[1].push(second.cpu_ns.midpoint(third.cpu_ns));
        let turns = [
            (&mut rounds.all, &all, first, second),
            (&mut rounds.block_only, &block_only, second, third),
            (&mut rounds.peer, &theirs, third, last),
        ];
        // A load that a tracer stopped altogether has lost all its requests, and none has a cost.
        let costs_known =
            turns.iter().all(|(_, turn, before, after)| turn.pace.added_ns(*before, *after).is_finite());
        for (costs, turn, before, after) in turns {
            costs.push(turn, before, after);
            if costs_known {
                costs.added_ns.push(turn.pace.added_ns(before, after));
            }
        }
        programs = [all.programs(load.name), block_only.programs(load.block_only_name)].concat();
    }
    ensure!(!rounds.peer.lost.values().is_empty(), "this machine is too busy: no round counts");
    Ok((rounds, programs))
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
