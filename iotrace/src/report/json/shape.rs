//! The shape of the JSON report, field for field. docs/report.schema.json says the same to machines and docs/json.md to
//! people; a test holds the three together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Processes, ledger::LedgerInfo};

#[derive(Serialize)]
pub struct Report<'a> {
    pub schema_version: u32,
    pub tool: Tool,
    pub trace: TraceInfo<'a>,
    pub probes: Vec<ProbeInfo<'a>>,
    pub patterns: Vec<PatternInfo>,
    pub processes: Processes<'a>,
    pub others: Others<'a>,
    pub files: FilesInfo<'a>,
    pub ledger: Option<LedgerInfo<'a>>,
    pub devices: Vec<DeviceInfo<'a>>,
    pub block: Counts,
    pub lost: &'a BTreeMap<&'static str, u64>,
    pub overhead: OverheadInfo<'a>,
    pub notes: &'a [String],
}

#[derive(Serialize)]
pub struct Tool {
    pub name: &'static str,
    pub version: &'static str,
}

#[derive(Serialize)]
pub struct TraceInfo<'a> {
    pub duration_ns: u64,
    pub started_at: String,
    pub kernel: &'a str,
    pub hostname: &'a str,
    pub command: Vec<String>,
    pub targets: Targets<'a>,
    pub filters: Vec<Filter<'a>>,
    pub redacted: bool,
}

#[derive(Serialize)]
pub struct Targets<'a> {
    pub all: bool,
    pub pids: &'a [u32],
    pub cgroups: &'a [String],
    pub containers: &'a [String],
    pub follow: bool,
}

#[derive(Serialize)]
pub struct Filter<'a> {
    pub name: &'a str,
    pub value: &'a str,
}

#[derive(Serialize)]
pub struct ProbeInfo<'a> {
    pub metric: &'a str,
    pub variant: Option<&'a str>,
    pub reason: &'a str,
}

#[derive(Serialize)]
pub struct PatternInfo {
    pub kind: &'static str,
    pub text: String,
    pub evidence: BTreeMap<&'static str, u64>,
    pub pids: Vec<u32>,
    pub path: Option<String>,
}

#[derive(Serialize)]
pub struct ProcessInfo<'a> {
    pub pid: u32,
    pub ns_pid: u32,
    pub ppid: u32,
    pub start_ns: u64,
    pub comm: String,
    pub cmdline: Vec<String>,
    pub exited: bool,
    pub kernel_thread: bool,
    pub container: Option<ContainerInfo<'a>>,
    pub storage_ns: u64,
    pub ops: Ops,
    pub files: Option<FileUseInfo>,
    pub apart: BTreeMap<&'static str, Apart>,
    pub block: ByOp,
    pub block_detail: Vec<Detail<'a>>,
    pub file_size: Dist,
    pub file_size_read: Dist,
    pub file_size_written: Dist,
}

#[derive(Serialize)]
pub struct ContainerInfo<'a> {
    pub runtime: Option<&'static str>,
    pub id: Option<&'a str>,
    pub pod_uid: Option<&'a str>,
}

#[derive(Serialize)]
pub struct Ops {
    pub read: OpInfo,
    pub write: OpInfo,
    #[serde(flatten)]
    pub others: BTreeMap<&'static str, MetaInfo>,
}

#[derive(Serialize)]
pub struct MetaInfo {
    pub count: u64,
    pub error_count: u64,
    pub errors: BTreeMap<Cow<'static, str>, u64>,
    pub forms: BTreeMap<&'static str, u64>,
    pub waited: u64,
    pub wait_ns: u64,
    pub cached_bytes: u64,
    pub latency: Dist,
}

#[derive(Serialize)]
pub struct FileUseInfo {
    pub files: u64,
    pub opens: u64,
    pub whole_file: u64,
    #[serde(flatten)]
    pub totals: TotalsInfo,
}

#[derive(Serialize)]
pub struct TotalsInfo {
    pub reads: u64,
    pub read_bytes: u64,
    pub read_ns: u64,
    pub read_wait_ns: u64,
    pub waited_reads: u64,
    pub waited_bytes: u64,
    pub sequential_reads: u64,
    pub strided_reads: u64,
    pub random_reads: u64,
    pub tiny_reads: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub write_ns: u64,
    pub write_wait_ns: u64,
    pub tiny_writes: u64,
    pub open_ns: u64,
    pub open_wait_ns: u64,
    pub syncs: u64,
    pub sync_ns: u64,
    pub faults: u64,
    pub fault_wait_ns: u64,
    pub cached_bytes: u64,
    pub wait_ns: u64,
}

#[derive(Serialize)]
pub struct FilesInfo<'a> {
    pub distinct: u64,
    pub sessions: SessionsInfo,
    pub size_classes: Vec<ClassInfo>,
    pub top: Vec<FileInfo>,
    pub folders: Vec<FolderInfo>,
    pub folder_count: u64,
    pub extensions: Vec<ExtensionInfo>,
    pub file_systems: Vec<FileSystemInfo<'a>>,
    pub checkpoint_count: u64,
    pub checkpoints: Vec<CheckpointInfo<'a>>,
    pub failures: Vec<FailureInfo>,
    pub records_lost: u64,
}

#[derive(Serialize)]
pub struct SessionsInfo {
    pub opened: u64,
    pub closed: u64,
    pub open_before: u64,
    pub open_at_end: u64,
    pub whole_file: u64,
}

#[derive(Serialize)]
pub struct ClassInfo {
    pub low: u64,
    pub high: Option<u64>,
    pub files: u64,
    pub opens: u64,
    #[serde(flatten)]
    pub totals: TotalsInfo,
}

#[derive(Serialize)]
pub struct FileInfo {
    pub path: String,
    pub deleted: bool,
    pub major: u32,
    pub minor: u32,
    pub ino: u64,
    pub size: u64,
    pub opens: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub wait_ns: u64,
    pub pid: u32,
}

#[derive(Serialize)]
pub struct FolderInfo {
    pub path: String,
    pub files: u64,
    pub opens: u64,
    #[serde(flatten)]
    pub totals: TotalsInfo,
}

#[derive(Serialize)]
pub struct ExtensionInfo {
    pub extension: String,
    pub files: u64,
    pub opens: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub wait_ns: u64,
}

#[derive(Serialize)]
pub struct FileSystemInfo<'a> {
    pub mount_point: String,
    pub fs_type: &'a str,
    pub backing: &'static str,
    pub source: String,
    pub major: u32,
    pub minor: u32,
    pub files: u64,
    pub opens: u64,
    #[serde(flatten)]
    pub totals: TotalsInfo,
}

#[derive(Serialize)]
pub struct CheckpointInfo<'a> {
    pub path: String,
    pub temporary: Option<String>,
    pub rules: &'a [&'static str],
    pub pid: u32,
    pub bytes: u64,
    pub writes: u64,
    pub syncs: u64,
    pub duration_ns: u64,
    pub stall_ns: u64,
    pub began_ns: u64,
}

#[derive(Serialize)]
pub struct FailureInfo {
    pub pid: u32,
    pub op: &'static str,
    pub errno: Cow<'static, str>,
    pub count: u64,
    pub path: String,
}

#[derive(Serialize)]
pub struct OpInfo {
    pub count: u64,
    pub bytes: u64,
    pub error_count: u64,
    pub errors: BTreeMap<Cow<'static, str>, u64>,
    pub short: u64,
    pub eof: u64,
    pub waited: u64,
    pub wait_ns: u64,
    pub waited_bytes: u64,
    pub cached_bytes: u64,
    pub forms: BTreeMap<&'static str, u64>,
    pub latency: Dist,
    pub size: Dist,
}

#[derive(Serialize)]
pub struct Apart {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

#[derive(Serialize)]
pub struct ByOp {
    pub read: BlockInfo,
    pub write: BlockInfo,
    pub flush: BlockInfo,
    pub discard: BlockInfo,
}

#[derive(Serialize)]
pub struct BlockInfo {
    pub count: u64,
    pub bytes: u64,
    pub errors: u64,
    pub size: Dist,
    pub queue: Dist,
    pub device: Dist,
    pub total: Dist,
}

#[derive(Serialize)]
pub struct Detail<'a> {
    pub device: DeviceName<'a>,
    pub op: &'static str,
    pub sync: bool,
    pub meta: bool,
    pub readahead: bool,
    pub stats: BlockInfo,
}

#[derive(Serialize)]
pub struct DeviceName<'a> {
    /// `null` for a device the trace has no description of.
    pub name: Option<&'a str>,
    pub major: u32,
    pub minor: u32,
}

#[derive(Serialize)]
pub struct Others<'a> {
    pub block: ByOp,
    pub block_detail: Vec<Detail<'a>>,
}

#[derive(Serialize)]
pub struct DeviceInfo<'a> {
    pub name: &'a str,
    pub major: u32,
    pub minor: u32,
    pub alias: Option<&'a str>,
    pub rotational: Option<bool>,
    pub scheduler: Option<&'a str>,
    pub nr_requests: Option<u32>,
    pub hardware_queues: Option<u32>,
    pub issue_time_source: &'static str,
    pub totals: ByOp,
}

#[derive(Serialize)]
pub struct Counts {
    pub started: u64,
    pub issued: u64,
    pub requeued: u64,
    pub merged_bios: u64,
    pub merged_requests: u64,
    pub completed: u64,
    pub errors: u64,
    pub completed_without_start: u64,
    pub abandoned: u64,
    pub in_flight_at_end: u64,
    pub flush_issued: u64,
}

#[derive(Serialize)]
pub struct OverheadInfo<'a> {
    pub programs: Vec<ProgramInfo<'a>>,
    pub sampled_ns: u64,
    pub user_cpu_ns: u64,
    pub max_rss_bytes: u64,
    pub map_bytes: u64,
    pub attach_ns: u64,
}

#[derive(Serialize)]
pub struct ProgramInfo<'a> {
    pub name: &'a str,
    pub run_count: u64,
    pub run_time_ns: u64,
    pub runs_skipped: u64,
}

/// A histogram; quantiles are `null` when it is empty.
#[derive(Serialize)]
pub struct Dist {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub buckets: Vec<(u64, u64, u64)>,
}
