//! What tracing costs: the kernel's run statistics of our programs, our own CPU time and memory.

use std::{
    collections::HashMap,
    fs, mem,
    os::fd::{FromRawFd as _, OwnedFd},
    time::{Duration, Instant},
};

use crate::cli::SelfStats;

/// bpf(2) command and argument (include/uapi/linux/bpf.h); aya 0.14 has no call for it.
const BPF_ENABLE_STATS: libc::c_long = 32;
const BPF_STATS_RUN_TIME: u32 = 0;

/// Statistics are on for this long in every [`SAMPLE_PERIOD`]: two clock reads a run are a third of a cheap program's cost.
const SAMPLE: Duration = Duration::from_millis(50);
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// Turns run statistics on and off.
pub struct Sampler {
    mode: SelfStats,
    began: Instant,
    on: Option<(OwnedFd, Instant)>,
    sampled: Duration,
    refused: Option<String>,
}

impl Sampler {
    /// Begins the first sample.
    pub fn start(mode: SelfStats) -> Self {
        let mut sampler =
            Self { mode, began: Instant::now(), on: None, sampled: Duration::ZERO, refused: None };
        sampler.tick();
        sampler
    }

    /// Called a few times a second.
    pub fn tick(&mut self) {
        let phase = self.began.elapsed().as_nanos() % SAMPLE_PERIOD.as_nanos();
        let wanted = match self.mode {
            SelfStats::Off => false,
            SelfStats::Full => true,
            SelfStats::Sampled => phase < SAMPLE.as_nanos(),
        };
        match (wanted, self.on.is_some()) {
            (true, false) if self.refused.is_none() => match enable() {
                Ok(fd) => self.on = Some((fd, Instant::now())),
                Err(error) => self.refused = Some(error.to_string()),
            },
            (false, true) => self.stop(),
            _ => {}
        }
    }

    /// Ends a sample.
    pub fn stop(&mut self) {
        if let Some((fd, since)) = self.on.take() {
            self.sampled += since.elapsed();
            drop(fd);
        }
    }

    /// Time with statistics on, and why there is none.
    pub fn finish(mut self) -> (Duration, Option<String>) {
        self.stop();
        (self.sampled, self.refused)
    }
}

fn enable() -> std::io::Result<OwnedFd> {
    let kind: u32 = BPF_STATS_RUN_TIME;
    // SAFETY: the kernel reads 4 bytes; statistics stay on while the descriptor is open.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const kind, size_of::<u32>()) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Numbers the kernel shows of one of our descriptors in /proc/self/fdinfo.
pub fn fd_info(fd: i32) -> HashMap<String, u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

/// Kernel memory behind our maps, as the kernel accounts it.
pub fn map_bytes() -> u64 {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy() == "anon_inode:bpf-map")
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|fd| fd_info(fd).get("memlock").copied())
        .sum()
}

/// User and system time of this process.
pub fn own_cpu_ns() -> u64 {
    let usage = usage();
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Largest resident set of this process. (`ru_maxrss` also holds what the process was before it executed iotrace.)
pub fn max_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|kib| kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

fn usage() -> libc::rusage {
    // SAFETY: plain old data that the call fills.
    unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}
