//! Many threads, or threads that keep still. Each has a name of its own, by which it is found in any pid namespace.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Meter, timers};
use crate::{child, sys};

const STACK: usize = 64 << 10;

/// Uses the CPU with `count` threads until time is up.
pub fn spin(count: u64, meter: &mut Meter) -> Result<()> {
    let end = meter.end;
    let work = |number| {
        start(move || {
            child::set_name(format!("spin-{number}").as_bytes());
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            schedstat()
        })
    };
    meter.threads = join((0..count).map(work))?;
    Ok(())
}

/// `count` threads that each sleep, wait on a futex and compute, again and again. The more there are, the longer they sleep.
pub fn crowd(count: u64, meter: &mut Meter) -> Result<()> {
    let end = meter.end;
    let pause = Duration::from_millis((count / 5).max(5));
    let work = |number| {
        start(move || {
            child::set_name(format!("crowd-{number}").as_bytes());
            let (mut rounds, mut slept) = (0u64, Duration::ZERO);
            // One that starts late waits once.
            while rounds == 0 || Instant::now() < end {
                let began = Instant::now();
                std::thread::sleep(pause);
                slept += began.elapsed();
                timers::wait_on_futex(Some(pause));
                rounds += 1;
                (0..1000).for_each(|_| std::hint::spin_loop());
            }
            let least = rounds * pause.as_nanos() as u64;
            json!({"name": child::name(), "least_ns": least, "slept_ns": slept.as_nanos() as u64})
        })
    };
    meter.threads = join((0..count).map(work))?;
    Ok(())
}

/// `count` threads that end at once, each after the one before, `pace_ms` apart.
pub fn churn(count: u64, pace_ms: u64, meter: &mut Meter) -> Result<()> {
    for _ in 0..count {
        meter.calls += 1;
        join([start(|| {
            child::set_name(b"short");
            Value::Null
        })])?;
        if pace_ms > 0 {
            std::thread::sleep(Duration::from_millis(pace_ms));
        }
    }
    Ok(())
}

/// Threads that sleep until the process ends. They are asleep, or nearly, on return.
pub fn still() -> Result<()> {
    let (reader, writer) = sys::pipe()?;
    let (end, other) = UnixStream::pair()?;
    let mut threads = Vec::new();
    let mut add = |name: &'static str, wait: Box<dyn FnOnce() + Send>| {
        threads.push(start(move || {
            child::set_name(name.as_bytes());
            wait();
            Value::Null
        }));
    };
    let read = |from: OwnedFd, kept: OwnedFd| {
        sys::read(&from, &mut [0]);
        drop(kept);
    };
    add("still-pipe", Box::new(move || read(reader, writer)));
    add("still-socket", Box::new(move || read(end.into(), other.into())));
    add("still-futex", Box::new(|| timers::wait_on_futex(None)));
    add("still-sleep", Box::new(|| std::thread::sleep(Duration::from_secs(1 << 20))));
    let poll = || {
        // SAFETY: no descriptors, no timeout.
        unsafe { libc::poll(std::ptr::null_mut(), 0, -1) };
    };
    add("still-poll", Box::new(poll));
    for thread in threads {
        // Never joined: they end with the process.
        drop(thread?);
    }
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

fn start(work: impl FnOnce() -> Value + Send + 'static) -> Result<JoinHandle<Value>> {
    Builder::new().stack_size(STACK).spawn(work).context("start a thread")
}

fn join(threads: impl IntoIterator<Item = Result<JoinHandle<Value>>>) -> Result<Vec<Value>> {
    let threads: Vec<_> = threads.into_iter().collect::<Result<_>>()?;
    threads.into_iter().map(|thread| thread.join().ok().context("a thread panicked")).collect()
}

/// Name of the thread, and what the scheduler knows of it: time on a CPU and time waiting for one, ns, of its whole life.
fn schedstat() -> Value {
    let told = || -> Result<Value> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
        let numbers: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(numbers.len() == 3, "schedstat is {text:?}");
        Ok(json!({"name": child::name(), "run_ns": numbers[0], "wait_ns": numbers[1]}))
    };
    told().unwrap_or(Value::Null)
}
