//! The parts of a trace.

use std::{collections::BTreeMap, sync::Arc};

use super::{Container, FileUse, Files, Histogram, Ledgers, MetaStats, ProcessLedger};

/// All that one trace found.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// When, where and what.
    pub meta: Meta,
    /// One entry a metric: how it was measured, or why not.
    pub probes: Vec<Probe>,
    /// Target processes and kernel threads that touched storage, in no particular order.
    pub processes: Vec<Process>,
    /// Block requests of user processes that are no targets (empty with `-a`).
    pub others: Vec<BlockEntry>,
    /// What was done with files.
    pub files: Files,
    /// Where the time of threads went; `None`: not measured.
    pub ledgers: Option<Box<Ledgers>>,
    /// Block devices that saw requests during the trace.
    pub devices: Vec<Device>,
    /// Block-layer event counts over all devices.
    pub block: BlockCounts,
    /// What could not be counted, by cause. Every known cause is present, at 0 on a clean run.
    pub lost: BTreeMap<&'static str, u64>,
    /// What tracing cost.
    pub overhead: Overhead,
    /// Statements about limits of this trace, one sentence each (e.g. "io_uring, AIO and mmap are not covered").
    pub notes: Vec<String>,
}

impl Trace {
    /// Whether it is of block requests alone: that a process has no reads and writes says nothing then.
    pub fn block_only(&self) -> bool {
        self.probes.iter().any(Probe::is_left_out)
    }
}

/// When, where and what.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// Length of the trace.
    pub duration_ns: u64,
    /// Wall-clock start, ns since the epoch (CLOCK_REALTIME).
    pub started_at_unix_ns: u64,
    /// `uname -r`.
    pub kernel: String,
    /// Host name.
    pub hostname: String,
    /// The traced command line under `run`; empty under `attach`. Bytes as given.
    pub command: Vec<Vec<u8>>,
    /// What was traced, as the user gave it.
    pub targets: Targets,
    /// Filters in force, as given, e.g. `("device", "nvme0n1")`.
    pub filters: Vec<(String, String)>,
    /// Roles given by the user: name and pattern.
    pub roles: Vec<(String, String)>,
    /// Path components were replaced by hashes (`redact`).
    pub redacted: bool,
}

/// The entry of a name in a list sorted by name, made when it is new. (A tree takes half a kilobyte for its first entry,
/// and a system has thousands of processes.)
pub fn named<'a, V: Default>(list: &'a mut Vec<(&'static str, V)>, name: &'static str) -> &'a mut V {
    let place = list.binary_search_by_key(&name, |(known, _)| known).unwrap_or_else(|place| {
        list.reserve_exact(1);
        list.insert(place, (name, V::default()));
        place
    });
    &mut list[place].1
}

/// What was traced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Every process of the system.
    pub all: bool,
    /// Pids as given on the command line (of iotrace's own pid namespace), or the pid started by `run`.
    pub pids: Vec<u32>,
    /// cgroup paths as given.
    pub cgroups: Vec<String>,
    /// Containers and pods as given.
    pub containers: Vec<String>,
    /// Whether descendants are followed.
    pub follow: bool,
}

/// How one metric was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// e.g. `block owner`, `block phases`, `read/write`, `process tree`.
    pub metric: String,
    /// The variant in use, e.g. `tp_btf block_io_start`; `None`: not measured.
    pub variant: Option<String>,
    /// Why better variants were passed over, or why the metric is off; empty when the first choice loaded.
    pub reason: String,
}

/// What stands as the reason of a metric that the user did not want.
const LEFT_OUT: &str = "left out by --block-only";

impl Probe {
    /// A metric that `--block-only` leaves out.
    pub fn left_out(metric: &str) -> Self {
        Self { metric: metric.into(), variant: None, reason: LEFT_OUT.into() }
    }

    /// Whether the user left it out, so that its absence says nothing about the machine.
    pub fn is_left_out(&self) -> bool {
        self.variant.is_none() && self.reason == LEFT_OUT
    }
}

/// One process, kept by (pid, start time), so a reused pid is another process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Pid in the initial namespace.
    pub pid: u32,
    /// Pid in the innermost namespace of the process; equals `pid` outside containers; 0 when unknown.
    pub ns_pid: u32,
    /// Parent's pid in the initial namespace.
    pub ppid: u32,
    /// Start, ns of CLOCK_MONOTONIC; 0 when unknown.
    pub start_ns: u64,
    /// Last known command name; any bytes.
    pub comm: Vec<u8>,
    /// Arguments, shared by all who have the same; any bytes; empty for kernel threads or when unreadable.
    pub cmdline: Arc<Vec<Vec<u8>>>,
    /// The process was gone before the trace ended.
    pub exited: bool,
    /// A kernel thread.
    pub kernel_thread: bool,
    /// The container it runs in, shared by all who do; `None` outside containers, or when it cannot be known.
    pub container: Option<Arc<Container>>,
    /// Reads of regular files and block devices, every form.
    pub read: OpStats,
    /// Writes likewise.
    pub write: OpStats,
    /// Other operations on files, by name (`op::OP_NAMES`); those that did not happen are left out.
    pub meta: Vec<(&'static str, MetaStats)>,
    /// What it did with files; `None`: nothing.
    pub files: Option<Box<FileUse>>,
    /// Reads and writes of what is not storage, by kind: `pipe socket char pseudo other`.
    pub apart: Vec<(&'static str, ApartStats)>,
    /// Block requests by device, operation and flags.
    pub block: Vec<BlockEntry>,
    /// Sizes of the files it used; `None`: none. Apart, for most of 10 000 processes use none.
    pub file_sizes: Option<Box<FileSizes>>,
    /// Where the time of its threads went; `None`: not measured.
    pub ledger: Option<Box<ProcessLedger>>,
}

/// Sizes of distinct regular files, each file once, at its last known size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSizes {
    /// Read or written.
    pub all: Histogram,
    /// Of those, the ones read.
    pub read: Histogram,
    /// Of those, the ones written.
    pub written: Histogram,
}

/// One op of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpStats {
    /// Calls that returned, failed ones included.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Failed calls by errno.
    pub errors: BTreeMap<i32, u64>,
    /// Successful calls that moved fewer bytes than asked for, but more than 0.
    pub short: u64,
    /// Reads that returned 0 though bytes were asked for (end of file).
    pub eof: u64,
    /// Calls that waited: their thread slept.
    pub waited: u64,
    /// How long.
    pub wait_ns: u64,
    /// Bytes moved by calls that waited; the others were served from memory.
    pub waited_bytes: u64,
    /// Bytes that calls brought into the page cache, readahead included.
    pub cached_bytes: u64,
    /// Calls by system call, e.g. `pread64`; zero entries left out.
    pub forms: Vec<(&'static str, u64)>,
    /// Time from entry to return of every call.
    pub latency_ns: Histogram,
    /// Bytes moved per successful call.
    pub size_bytes: Histogram,
}

/// Reads and writes of one kind of non-storage file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApartStats {
    /// Read calls.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// Operation of a block request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockOp {
    /// REQ_OP_READ.
    Read,
    /// REQ_OP_WRITE and its kin.
    Write,
    /// A cache flush without data.
    Flush,
    /// REQ_OP_DISCARD, secure erase, write zeroes.
    Discard,
}

impl BlockOp {
    /// Every operation, in report order.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];

    /// The JSON key and report word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

/// Block requests of one owner, device, operation and set of flags.
#[derive(Debug, Clone)]
pub struct BlockEntry {
    /// Device number as `(major, minor)`, a key into [`Trace::devices`].
    pub device: (u32, u32),
    /// Operation.
    pub op: BlockOp,
    /// REQ_SYNC: somebody waits for it.
    pub sync: bool,
    /// REQ_META: file-system metadata.
    pub meta: bool,
    /// REQ_RAHEAD: speculative readahead.
    pub readahead: bool,
    /// Numbers.
    pub stats: BlockStats,
}

/// Numbers of a set of block requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Requests ended; a few of them may lack latencies (see [`BlockCounts::abandoned`]).
    pub count: u64,
    /// Bytes of completed requests.
    pub bytes: u64,
    /// Requests completed with an error.
    pub errors: u64,
    /// Request sizes.
    pub size_bytes: Histogram,
    /// Start to last issue to the device.
    pub queue_ns: Histogram,
    /// Last issue to completion.
    pub device_ns: Histogram,
    /// Start to completion.
    pub total_ns: Histogram,
}

impl BlockStats {
    /// Adds `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.size_bytes.merge(&other.size_bytes);
        self.queue_ns.merge(&other.queue_ns);
        self.device_ns.merge(&other.device_ns);
        self.total_ns.merge(&other.total_ns);
    }
}

/// Block-layer events. `started = completed + merged_requests + abandoned + in_flight` holds exactly when nothing is lost, and
/// without flushes `started + requeued = issued` once nothing waits to be issued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Requests whose start was seen.
    pub started: u64,
    /// Issues to a driver; a requeued request is issued again. Flush-machinery requests are left out.
    pub issued: u64,
    /// Requests handed back by the driver.
    pub requeued: u64,
    /// Bios merged into an existing request (they never become requests).
    pub merged_bios: u64,
    /// Requests merged whole into a neighbour (they never complete).
    pub merged_requests: u64,
    /// Requests completed whose start was seen.
    pub completed: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Completions of requests begun before the trace, or whose start was not seen.
    pub completed_without_start: u64,
    /// Requests whose end was not seen, found when they began again: counted with their bytes, but without latency.
    pub abandoned: u64,
    /// Started and not completed at the end of the trace.
    pub in_flight_at_end: u64,
    /// Requests issued by the flush machinery on behalf of several owners.
    pub flush_issued: u64,
}

/// A block device.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Major and minor number.
    pub number: (u32, u32),
    /// Kernel name, e.g. `nvme0n1`; `8:16` when sysfs does not know it.
    pub name: String,
    /// Device-mapper, md or loop-file name, e.g. `vg-data`.
    pub alias: Option<String>,
    /// Spins, per sysfs; `None` when unknown.
    pub rotational: Option<bool>,
    /// Active I/O scheduler, e.g. `none`, `mq-deadline`.
    pub scheduler: Option<String>,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// Hardware queues.
    pub hardware_queues: Option<u32>,
    /// How issue times were had: `request` (the kernel's own stamp) or `probe` (stamped at block_rq_issue).
    pub issue_time_source: &'static str,
    /// All requests on it by any owner, summed by operation.
    pub totals: BTreeMap<BlockOp, BlockStats>,
}

/// What tracing cost.
#[derive(Debug, Clone, Default)]
pub struct Overhead {
    /// By kernel program, over `sampled_ns` of the trace.
    pub programs: Vec<ProgramCost>,
    /// How long the kernel's BPF run statistics were on; they cost time themselves, so they are sampled.
    pub sampled_ns: u64,
    /// iotrace's own CPU time, user and system.
    pub user_cpu_ns: u64,
    /// iotrace's largest resident set.
    pub max_rss_bytes: u64,
    /// Kernel memory held by maps, as the kernel accounts it.
    pub map_bytes: u64,
    /// Time from start until every probe was attached.
    pub attach_ns: u64,
}

/// Run statistics of one kernel program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramCost {
    /// Program name.
    pub name: String,
    /// Runs while statistics were on.
    pub run_count: u64,
    /// Time in them.
    pub run_time_ns: u64,
    /// Runs the kernel skipped in the whole trace.
    pub runs_skipped: u64,
}
