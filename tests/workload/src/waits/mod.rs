//! One child for each thing a thread can wait for, named after it: what it did with its time, measured by itself.

mod files;
mod messages;
mod threads;
mod timers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::sys;
use crate::tally::Tally;

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// nanosleep.
    Sleep,
    /// poll and epoll_wait with timeouts.
    Poll,
    /// Waits on a futex, with a timeout.
    Futex,
    /// Reads a pipe that another child writes to now and then.
    Pipe,
    /// Reads a socket likewise.
    Socket,
    /// O_DIRECT reads.
    DirectRead,
    /// Buffered reads of a file that is not in memory.
    ColdRead,
    /// O_DIRECT writes.
    DirectWrite,
    /// Writes and fsyncs.
    Fsync,
    /// Renames in a folder whose changes are synchronous.
    Rename,
    /// stat of files in folders that are not in memory; drops the caches of the whole machine.
    Stat,
    /// Touches the pages of a mapped file that is not in memory.
    Fault,
    /// Reads of a file that is in memory.
    Warm,
    /// Threads that use the CPU.
    Spin,
    /// Threads that each sleep, wait and use the CPU in turn.
    Crowd,
    /// Threads that end at once, one after the other.
    Churn,
    /// Threads asleep since before the gate: on a pipe, a socket, a futex, in poll and for a time.
    Still,
}

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the files; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Children, one each (repeatable).
    #[arg(long, required = true)]
    kind: Vec<Kind>,
    /// Seconds that each does it.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Threads of spin, crowd and churn.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Milliseconds between the threads of churn.
    #[arg(long, default_value_t = 0)]
    pace_ms: u64,
    #[command(flatten)]
    start: Start,
}

/// Prepares all files, then has the children do their work, all at once.
pub fn run(args: &Args) -> Result<()> {
    let scratch = Scratch::new(&args.dir, "waits")?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut stage = Stage::new("waits", &args.start)?;
    let mut unsupported: Vec<Value> = Vec::new();
    for &kind in &args.kind {
        let name = name_of(kind);
        let mut add = |work: &mut dyn FnMut(&mut Meter) -> Result<()>| {
            stage.add(name.as_bytes(), || {
                let mut meter = Meter::start(time);
                work(&mut meter)?;
                meter.tally(&name)
            })
        };
        match kind {
            Kind::Sleep => add(&mut timers::sleep)?,
            Kind::Poll => add(&mut timers::poll)?,
            Kind::Futex => add(&mut timers::futex)?,
            Kind::Warm => {
                let file = files::Warm::prepare(&scratch)?;
                add(&mut |meter| file.read(meter))?;
            }
            Kind::DirectRead | Kind::DirectWrite | Kind::ColdRead | Kind::Fsync | Kind::Fault => {
                let file = files::Large::prepare(&scratch, &name)?;
                add(&mut |meter| file.work(kind, meter))?;
            }
            Kind::Rename => match files::Synchronous::prepare(&scratch)? {
                Ok(folder) => add(&mut |meter| folder.rename(meter))?,
                Err(reason) => unsupported.push(json!(reason)),
            },
            Kind::Stat => {
                let tree = files::Tree::prepare(&scratch)?;
                add(&mut |meter| tree.stat(meter))?;
            }
            Kind::Spin => add(&mut |meter| threads::spin(args.threads, meter))?,
            Kind::Crowd => add(&mut |meter| threads::crowd(args.threads, meter))?,
            Kind::Churn => add(&mut |meter| threads::churn(args.threads, args.pace_ms, meter))?,
            Kind::Pipe | Kind::Socket => {
                let [reader, writer] = messages::ends(kind == Kind::Socket)?;
                add(&mut |meter| messages::read(&reader, meter))?;
                let writer_name = format!("{name}-writer");
                stage.add(writer_name.as_bytes(), || {
                    let mut meter = Meter::start(time + messages::EVERY * 4);
                    messages::write(&writer, &mut meter)?;
                    meter.tally(&writer_name)
                })?;
            }
            Kind::Still => stage.add_early(name.as_bytes(), |gate| {
                threads::still()?;
                gate.pass();
                Meter::start(time).tally(&name)
            })?,
        }
    }
    let told = stage.run()?;
    stage.tell(&told, json!({"seconds": args.seconds, "lacking": unsupported}))
}

/// As on the command line.
fn name_of(kind: Kind) -> String {
    kind.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The time of one child.
pub struct Meter {
    began: Instant,
    end: Instant,
    /// Time inside of the calls that wait.
    blocked: Duration,
    calls: u64,
    /// Further truth.
    threads: Vec<Value>,
}

impl Meter {
    fn start(time: Duration) -> Self {
        let began = Instant::now();
        Self { began, end: began + time, blocked: Duration::ZERO, calls: 0, threads: Vec::new() }
    }

    /// Time is up.
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Makes a call that waits.
    fn call<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = call();
        self.blocked += began.elapsed();
        self.calls += 1;
        result
    }

    fn tally(self, kind: &str) -> Result<Tally> {
        let mut tally = Tally::default();
        let waits = json!({
            "kind": kind, "wall_ns": self.began.elapsed().as_nanos() as u64,
            "blocked_ns": self.blocked.as_nanos() as u64, "calls": self.calls, "cpu_ns": cpu_ns()?,
            "threads": self.threads,
        });
        tally.extra.insert("waits".into(), waits);
        Ok(tally)
    }
}

/// User and system time of this process so far.
fn cpu_ns() -> Result<u64> {
    // SAFETY: all zeroes is a valid rusage, and getrusage fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a live struct.
    sys::check(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }).context("getrusage")?;
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}
