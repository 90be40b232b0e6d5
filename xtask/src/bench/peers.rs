//! Tracers as processes: iotrace and its peers, started until they trace, stopped as Ctrl-C does.

use std::{
    collections::BTreeMap,
    io::Read,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc::{Sender, channel},
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    mount::{MountFlags, mount},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

use super::{
    programs::{self, Account},
    rig::{Rig, child, own_mounts},
};
use crate::process::{shown, tail, which};

/// How long a tracer may take to begin or to end. bpftrace compiles first; machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// bpftrace 0.17 misses a Ctrl-C that comes between two of its waits for events, a tenth of a second each: it is told
/// again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Latency of pread64 by process, as iotrace keeps it.
const BPFTRACE_PREAD: &str = "BEGIN { printf(\"ready\\n\"); } \
    tracepoint:syscalls:sys_enter_pread64 { @start[tid] = nsecs; } \
    tracepoint:syscalls:sys_exit_pread64 /@start[tid]/ \
    { @ns[pid] = hist(nsecs - @start[tid]); delete(@start[tid]); }";

/// Opens by path, latency of each of the three calls, of one process: PID stands for it.
const BPFTRACE_FILES: &str = "BEGIN { printf(\"ready\\n\"); } \
    tracepoint:syscalls:sys_enter_openat /pid == PID/ \
    { @opens[pid, str(args->filename)] = count(); @start[tid] = nsecs; } \
    tracepoint:syscalls:sys_enter_read, tracepoint:syscalls:sys_enter_close /pid == PID/ { @start[tid] = nsecs; } \
    tracepoint:syscalls:sys_exit_openat /@start[tid]/ \
    { @open_ns[pid] = hist(nsecs - @start[tid]); delete(@start[tid]); } \
    tracepoint:syscalls:sys_exit_read /@start[tid]/ \
    { @read_ns[pid] = hist(nsecs - @start[tid]); delete(@start[tid]); } \
    tracepoint:syscalls:sys_exit_close /@start[tid]/ \
    { @close_ns[pid] = hist(nsecs - @start[tid]); delete(@start[tid]); }";

/// What biolatency does, for where it does not run.
const BPFTRACE_BLOCK: &str = "BEGIN { printf(\"ready\\n\"); } \
    tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; } \
    tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ \
    { @ns[args->dev] = hist(nsecs - @start[args->dev, args->sector]); delete(@start[args->dev, args->sector]); }";

/// A tracer that traces.
pub struct Tracer {
    name: String,
    process: Child,
    streams: Option<[JoinHandle<Stream>; 2]>,
    /// From its start until it said that it traces.
    pub attach: Duration,
}

/// A tracer that has ended.
pub struct Ended {
    /// Its stdout.
    pub stdout: Vec<u8>,
    /// From Ctrl-C to the last byte on its stdout.
    pub report: Duration,
    /// From Ctrl-C until the process was gone.
    pub end: Duration,
}

struct Stream {
    bytes: Vec<u8>,
    /// When the last byte came.
    last: Instant,
}

/// `iotrace attach` to a process, with further options.
pub fn iotrace(rig: &Rig, pid: u32, options: &[&str]) -> Result<Tracer> {
    let mut command = child(&rig.iotrace);
    command.args(["attach", "--format", "json", "-p"]).arg(pid.to_string()).args(options);
    Tracer::start(command, "tracing")
}

/// The same, of every process.
pub fn iotrace_all(rig: &Rig) -> Result<Tracer> {
    let mut command = child(&rig.iotrace);
    command.args(["attach", "--format", "json", "-a"]).args(NO_STATS);
    Tracer::start(command, "tracing")
}

/// bpftrace with a program at every switch that does nothing.
pub fn bpftrace_empty_switch() -> Result<Tracer> {
    bpftrace("BEGIN { printf(\"ready\\n\"); } tracepoint:sched:sched_switch { }")
}

/// Without run statistics of its own, which slow down what is measured.
pub const NO_STATS: [&str; 2] = ["--self-stats", "off"];

/// The same, of block requests alone.
pub const BLOCK_ONLY: [&str; 3] = ["--self-stats", "off", "--block-only"];

/// bpftrace with a histogram of pread64 by process.
pub fn bpftrace_pread() -> Result<Tracer> {
    bpftrace(BPFTRACE_PREAD)
}

/// bpftrace with the opens of a process by path, and histograms of its openat, read and close.
pub fn bpftrace_files(pid: u32) -> Result<Tracer> {
    bpftrace(&BPFTRACE_FILES.replace("PID", &pid.to_string()))
}

/// biolatency by disk and flags, or bpftrace where that refuses to start; and its name.
pub fn block() -> Result<(&'static str, Tracer)> {
    // biolatency says when it begins, but only once its buffer is full.
    let biolatency = which("biolatency").context("no biolatency")?;
    let mut command = child(which("stdbuf").context("no stdbuf")?);
    command.arg("-oL").arg(biolatency).args(["-D", "-F"]);
    match Tracer::start(command, "Tracing") {
        Ok(tracer) => Ok(("biolatency", tracer)),
        Err(error) => {
            eprintln!("biolatency does not run here, bpftrace takes its place: {error:#}");
            Ok(("bpftrace", bpftrace(BPFTRACE_BLOCK)?))
        }
    }
}

fn bpftrace(program: &str) -> Result<Tracer> {
    let mut command = child(which("bpftrace").context("no bpftrace")?);
    command.args(["-e", program]);
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(mount_debugfs) };
    Tracer::start(command, "ready")
}

/// bpftrace wants tracefs at its old place under debugfs: mounted for it alone. iotrace needs neither.
fn mount_debugfs() -> std::io::Result<()> {
    own_mounts()?;
    // Where that fails, bpftrace says what it lacks.
    let _ = mount(c"none", c"/sys/kernel/debug", c"debugfs", MountFlags::empty(), None);
    Ok(())
}

impl Tracer {
    /// Starts it and waits until it has said `ready` on either stream.
    fn start(mut command: Command, ready: &'static str) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the bench; each tracer is told when it has to end.
        command.process_group(0);
        let started = Instant::now();
        let mut process = command.spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
        let (sender, said) = channel();
        let stdout = process.stdout.take().context("no stdout")?;
        let stderr = process.stderr.take().context("no stderr")?;
        let streams = [drain(stdout, ready, sender.clone()), drain(stderr, ready, sender)];
        let name = command.get_program().to_string_lossy().into_owned();
        let mut tracer = Self { name, process, streams: Some(streams), attach: Duration::ZERO };
        match said.recv_timeout(PATIENCE) {
            Ok(at) => tracer.attach = at - started,
            // It ended, or kept silent.
            Err(_) => {
                drop(tracer.process.kill());
                let status = tracer.process.wait()?;
                let [stdout, stderr] = tracer.collect();
                let text = [stdout.bytes, stderr.bytes].concat();
                let text = String::from_utf8_lossy(&text);
                bail!("{} never traced ({status}):\n{}", shown(&command), tail(&text));
            }
        }
        Ok(tracer)
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The kernel's account of its programs so far, by id.
    pub fn programs(&self) -> Result<BTreeMap<u32, Account>> {
        programs::of_process(self.pid())
    }

    /// What they have done since. Counts only while run statistics are on.
    pub fn programs_since(&self, before: &BTreeMap<u32, Account>) -> Result<Vec<Account>> {
        Ok(programs::between(before, &self.programs()?))
    }

    /// Ends it as Ctrl-C does. `watch` is called again and again until it is gone.
    pub fn stop_watched(mut self, mut watch: impl FnMut(u32)) -> Result<Ended> {
        let pid = Pid::from_child(&self.process);
        let asked = Instant::now();
        let mut ask_again = asked + ASK_AGAIN;
        kill_process(pid, Signal::INT).context("cannot end a tracer")?;
        let status = loop {
            watch(self.pid());
            if let Some(status) = self.process.try_wait()? {
                break status;
            }
            if self.name.ends_with("bpftrace") && Instant::now() > ask_again {
                kill_process(pid, Signal::INT).context("cannot end bpftrace")?;
                ask_again += ASK_AGAIN;
            }
            if asked.elapsed() > PATIENCE {
                bail!("{} does not end", self.name);
            }
            sleep(Duration::from_micros(500));
        };
        let end = asked.elapsed();
        let [stdout, stderr] = self.collect();
        if !status.success() {
            bail!("a tracer failed ({status}):\n{}", tail(&String::from_utf8_lossy(&stderr.bytes)));
        }
        Ok(Ended { stdout: stdout.bytes, report: stdout.last.saturating_duration_since(asked), end })
    }

    /// Ends it as Ctrl-C does.
    pub fn stop(self) -> Result<Ended> {
        self.stop_watched(|_| ())
    }

    fn collect(&mut self) -> [Stream; 2] {
        let streams = self.streams.take().expect("collected once, when the tracer has ended");
        streams.map(|stream| stream.join().expect("the reader does not panic"))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) && self.process.kill().is_ok() {
            drop(self.process.wait());
        }
    }
}

impl Ended {
    /// iotrace's report.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.stdout).context("iotrace printed no JSON")
    }
}

/// Says what iotrace's report calls lost.
pub fn warn_of_losses(report: &Value) -> Result<()> {
    for (name, lost) in report["lost"].as_object().context("no losses in the report")? {
        if lost.as_u64().is_some_and(|lost| lost > 0) {
            eprintln!("warning: iotrace lost {lost}: {name}");
        }
    }
    Ok(())
}

/// Reads a pipe to its end beside the bench, and tells when `ready` came.
fn drain(
    mut pipe: impl Read + Send + 'static,
    ready: &'static str,
    said: Sender<Instant>,
) -> JoinHandle<Stream> {
    std::thread::spawn(move || {
        let mut said = Some(said);
        let mut stream = Stream { bytes: Vec::new(), last: Instant::now() };
        let mut piece = vec![0; 1 << 16];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            stream.last = Instant::now();
            stream.bytes.extend_from_slice(&piece[..length]);
            let is_there = || stream.bytes.windows(ready.len()).any(|window| window == ready.as_bytes());
            if said.is_some() && is_there() {
                said.take().map(|said| said.send(stream.last));
            }
        }
        stream
    })
}
