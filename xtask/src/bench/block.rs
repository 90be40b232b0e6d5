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
    programs::{Account, Stats},
    rig::{Loop, Rig},
    sample::Sample,
    table::{Row, Unit},
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
    /// Key and text of the row of block_* programs.
    programs: (&'static str, &'static str),
    /// The same of all programs.
    all: (&'static str, &'static str),
    /// The same of requests a second.
    loss: (&'static str, &'static str),
    /// The load's name among the programs.
    name: &'static str,
    /// Requests that one system call hands over, and another takes back.
    batch: u32,
}

/// Two system calls a request, as fio does it and as most programs with few requests in flight do; and a quarter of
/// that, where the cost of tracing system calls hardly shows.
const LOADS: [Load; 2] = [
    Load {
        programs: ("block.programs", "program time of a block request"),
        all: ("block.all_programs", "the same, with fio's system calls"),
        loss: ("block.loss", "requests a second lost"),
        name: "block",
        batch: 1,
    },
    Load {
        programs: ("batched.programs", "batched: program time of a block request"),
        all: ("batched.all_programs", "batched: the same, with fio's system calls"),
        loss: ("batched.loss", "batched: requests a second lost"),
        name: "batched",
        batch: 8,
    },
];

/// An fio that reads until it is dropped.
struct Fio(Child);

impl Fio {
    fn start(rig: &Rig, disk: &Loop, batch: u32) -> Result<Self> {
        let mut command = Rig::load(which("fio").context("no fio")?);
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

/// What one tracer did in one round.
struct Turn {
    /// Requests a second.
    iops: f64,
    /// Requests while run statistics were on, and what the programs did for them.
    requests: u64,
    accounts: Vec<Account>,
}

impl Turn {
    fn take(tracer: &Tracer, disk: &Loop, time: Duration) -> Result<Self> {
        let iops = iops(disk, time)?;
        let stats = Stats::enable()?;
        let (before, reads) = (tracer.programs()?, disk.reads()?);
        sleep(time);
        let requests = disk.reads()? - reads;
        let accounts = tracer.programs_since(&before)?;
        drop(stats);
        ensure!(requests > 0, "no request completed");
        Ok(Self { iops, requests, accounts })
    }

    /// Nanoseconds a request of the programs that `which` takes.
    fn program_ns(&self, which: impl Fn(&Account) -> bool) -> f64 {
        let ns: u64 = self.accounts.iter().filter(|account| which(account)).map(|account| account.ns).sum();
        ns as f64 / self.requests as f64
    }
}

/// Measures each load.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let disk = Loop::new(&rig.memory, DISK_MIB)?;
    let mut found = Found::default();
    for load in &LOADS {
        let new = under(load, rig, &disk, plan)?;
        found.rows.extend(new.rows);
        found.programs.extend(new.programs);
    }
    Ok(found)
}

/// Rounds of: untraced, iotrace, untraced, biolatency, untraced.
fn under(load: &Load, rig: &Rig, disk: &Loop, plan: &Plan) -> Result<Found> {
    let time = Duration::from_millis(500);
    let fio = Fio::start(rig, disk, load.batch)?;
    let pid = fio.0.id();
    iops(disk, time)?;
    let [mut untraced, mut lost, mut peer_lost] = [const { Sample::new() }; 3];
    let [mut block, mut all, mut peer_programs] = [const { Sample::new() }; 3];
    let mut programs = Vec::new();
    let mut peer_name = "";
    let rounds = plan.rounds(20, 4);
    for round in 1..=rounds {
        eprintln!("{}: round {round} of {rounds}", load.name);
        let before = iops(disk, time)?;

        let tracer = peers::iotrace(rig, pid, Some("off"))?;
        let ours = Turn::take(&tracer, disk, time)?;
        check(&tracer.stop()?.json()?, pid)?;
        let between = iops(disk, time)?;

        let (name, tracer) = peers::block(rig)?;
        let theirs = Turn::take(&tracer, disk, time)?;
        tracer.stop()?;
        let after = iops(disk, time)?;
        ensure!(peer_name.is_empty() || peer_name == name, "{peer_name} ran in some rounds only");
        peer_name = name;

        // Each against its own neighbours: a machine that grows slower through a round wrongs neither.
        untraced.push(between);
        lost.push(100.0 * (1.0 - ours.iops / before.midpoint(between)));
        peer_lost.push(100.0 * (1.0 - theirs.iops / between.midpoint(after)));
        block.push(ours.program_ns(|account| account.name.starts_with("block_")));
        all.push(ours.program_ns(|_| true));
        peer_programs.push(theirs.program_ns(|_| true));
        let requests = ours.requests;
        programs = ours.accounts.into_iter().map(|account| account.under(load.name, requests)).collect();
    }
    drop(fio);
    let row = |(key, what), iotrace, peer, unit, limit| Row {
        key,
        what,
        untraced: None,
        iotrace,
        peer: Some((peer_name.to_owned(), peer)),
        unit,
        limit,
    };
    let rows = vec![
        row(load.programs, block, peer_programs.clone(), Unit::Ns, Some(PROGRAM_LIMIT)),
        row(load.all, all, peer_programs, Unit::Ns, None),
        Row {
            untraced: Some((untraced, Unit::PerSecond)),
            ..row(load.loss, lost, peer_lost, Unit::Percent, Some(LOSS_LIMIT))
        },
    ];
    Ok(Found { rows, programs, ..Found::default() })
}

/// Requests a second over this long: the median of short windows, of which another program spoils only some.
fn iops(disk: &Loop, time: Duration) -> Result<f64> {
    const WINDOWS: u32 = 10;
    let mut rates = Sample::default();
    for _ in 0..WINDOWS {
        let (reads, start) = (disk.reads()?, Instant::now());
        sleep(time / WINDOWS);
        rates.push((disk.reads()? - reads) as f64 / start.elapsed().as_secs_f64());
    }
    Ok(rates.median())
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
