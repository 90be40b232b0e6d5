//! The JSON report: one object on one line. docs/json.md explains each field, docs/report.schema.json checks them.
//! Times are ns, sizes bytes; names are bytes made strings by [`reversible`].

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

use ledger::LedgerInfo;
use shape::{
    Apart, BlockInfo, ByOp, ContainerInfo, Counts, Detail, DeviceInfo, DeviceName, Dist, FileUseInfo,
    FilesInfo, Filter, MetaInfo, OpInfo, Ops, Others, OverheadInfo, ProbeInfo, ProcessInfo, ProgramInfo,
    Report, Targets, Tool, TraceInfo,
};

use super::errno;
use super::escape::{printable, reversible};
use super::rank;
use crate::model::{
    ApartStats, BlockEntry, BlockOp, BlockStats, Container, Device, Histogram, OpStats, Process, Runtime,
    Trace,
};

mod files;
mod ledger;
mod patterns;
mod shape;

/// Changes when a field changes its meaning or goes; new fields leave it alone.
const SCHEMA_VERSION: u32 = 1;

/// Writes `trace` as one line of JSON. Wants a buffered writer of a known type: JSON is written a few bytes at a time.
pub fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, TerminalSafe);
    Report::of(trace).serialize(&mut serializer)?;
    out.write_all(b"\n")
}

/// Compact JSON in which characters a terminal would obey instead of show are `\u` escapes; any parser undoes them.
struct TerminalSafe;

impl Formatter for TerminalSafe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|b| matches!(b, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut plain_from = 0;
        for (at, c) in fragment.char_indices().filter(|&(_, c)| !printable(c)) {
            writer.write_all(&fragment.as_bytes()[plain_from..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            plain_from = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[plain_from..])
    }
}

impl Dist {
    fn of(h: &Histogram) -> Self {
        Self::with(h, Histogram::quantile)
    }

    fn of_sizes(h: &Histogram) -> Self {
        Self::with(h, Histogram::quantile_floor)
    }

    fn with(h: &Histogram, quantile: impl Fn(&Histogram, f64) -> Option<u64>) -> Self {
        Self {
            count: h.count,
            sum: h.sum,
            min: h.min,
            max: h.max,
            p50: quantile(h, 0.5),
            p90: quantile(h, 0.9),
            p99: quantile(h, 0.99),
            p999: quantile(h, 0.999),
            buckets: h.buckets().collect(),
        }
    }
}

impl OpInfo {
    fn of(op: &OpStats) -> Self {
        Self {
            count: op.count,
            bytes: op.bytes,
            error_count: op.errors.values().sum(),
            errors: op.errors.iter().map(|(&errno, &count)| (errno::name(errno), count)).collect(),
            short: op.short,
            eof: op.eof,
            waited: op.waited,
            wait_ns: op.wait_ns,
            waited_bytes: op.waited_bytes,
            cached_bytes: op.cached_bytes,
            forms: op.forms.iter().copied().collect(),
            latency: Dist::of(&op.latency_ns),
            size: Dist::of_sizes(&op.size_bytes),
        }
    }
}

impl Apart {
    fn of(stats: &ApartStats) -> Self {
        let &ApartStats { reads, read_bytes, writes, write_bytes } = stats;
        Self { reads, read_bytes, writes, write_bytes }
    }
}

impl<'a> ContainerInfo<'a> {
    fn of(container: &'a Container) -> Self {
        Self {
            runtime: container.runtime.map(Runtime::name),
            id: container.id.as_deref(),
            pod_uid: container.pod_uid.as_deref(),
        }
    }
}

impl BlockInfo {
    fn of(stats: &BlockStats) -> Self {
        Self {
            count: stats.count,
            bytes: stats.bytes,
            errors: stats.errors,
            size: Dist::of_sizes(&stats.size_bytes),
            queue: Dist::of(&stats.queue_ns),
            device: Dist::of(&stats.device_ns),
            total: Dist::of(&stats.total_ns),
        }
    }
}

impl ByOp {
    fn of(totals: &BTreeMap<BlockOp, BlockStats>) -> Self {
        let none = BlockStats::default();
        let info = |op| BlockInfo::of(totals.get(&op).unwrap_or(&none));
        Self {
            read: info(BlockOp::Read),
            write: info(BlockOp::Write),
            flush: info(BlockOp::Flush),
            discard: info(BlockOp::Discard),
        }
    }
}

/// The processes, each put into its shape when its turn comes: ten thousand of them at once are a lot of memory.
pub struct Processes<'a> {
    trace: &'a Trace,
    names: Names<'a>,
}

impl Serialize for Processes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(rank::by_storage_time(self.trace).into_iter().map(|p| self.names.process(p)))
    }
}

/// Device names by number.
struct Names<'a>(BTreeMap<(u32, u32), &'a str>);

impl<'a> Names<'a> {
    fn details(&self, entries: &[BlockEntry]) -> Vec<Detail<'a>> {
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|e| (e.device, e.op, e.sync, e.meta, e.readahead));
        let detail = |entry: &BlockEntry| Detail {
            device: DeviceName {
                name: self.0.get(&entry.device).copied(),
                major: entry.device.0,
                minor: entry.device.1,
            },
            op: entry.op.name(),
            sync: entry.sync,
            meta: entry.meta,
            readahead: entry.readahead,
            stats: BlockInfo::of(&entry.stats),
        };
        entries.into_iter().map(detail).collect()
    }

    fn process(&self, p: &'a Process) -> ProcessInfo<'a> {
        ProcessInfo {
            pid: p.pid,
            ns_pid: p.ns_pid,
            ppid: p.ppid,
            start_ns: p.start_ns,
            comm: reversible(&p.comm),
            cmdline: p.cmdline.iter().map(|arg| reversible(arg)).collect(),
            exited: p.exited,
            kernel_thread: p.kernel_thread,
            container: p.container.as_deref().map(ContainerInfo::of),
            storage_ns: p.storage_ns(),
            ops: Ops {
                read: OpInfo::of(&p.read),
                write: OpInfo::of(&p.write),
                others: p.meta.iter().map(|(op, stats)| (*op, MetaInfo::of(stats))).collect(),
            },
            files: p.files.as_deref().map(FileUseInfo::of),
            apart: p.apart.iter().map(|(kind, stats)| (*kind, Apart::of(stats))).collect(),
            block: ByOp::of(&rank::by_op(&p.block)),
            block_detail: self.details(&p.block),
            file_size: Dist::of_sizes(&p.file_sizes().all),
            file_size_read: Dist::of_sizes(&p.file_sizes().read),
            file_size_written: Dist::of_sizes(&p.file_sizes().written),
        }
    }
}

impl<'a> DeviceInfo<'a> {
    fn of(device: &'a Device) -> Self {
        Self {
            name: &device.name,
            major: device.number.0,
            minor: device.number.1,
            alias: device.alias.as_deref(),
            rotational: device.rotational,
            scheduler: device.scheduler.as_deref(),
            nr_requests: device.nr_requests,
            hardware_queues: device.hardware_queues,
            issue_time_source: device.issue_time_source,
            totals: ByOp::of(&device.totals),
        }
    }
}

impl<'a> Report<'a> {
    fn of(trace: &'a Trace) -> Self {
        let names = Names(trace.devices.iter().map(|d| (d.number, d.name.as_str())).collect());
        Self {
            schema_version: SCHEMA_VERSION,
            tool: Tool { name: "iotrace", version: env!("CARGO_PKG_VERSION") },
            trace: trace_info(trace),
            probes: (trace.probes.iter())
                .map(|p| ProbeInfo { metric: &p.metric, variant: p.variant.as_deref(), reason: &p.reason })
                .collect(),
            others: Others {
                block: ByOp::of(&rank::by_op(&trace.others)),
                block_detail: names.details(&trace.others),
            },
            patterns: patterns::of(trace),
            processes: Processes { trace, names },
            files: FilesInfo::of(&trace.files),
            ledger: LedgerInfo::of(trace),
            devices: trace.devices.iter().map(DeviceInfo::of).collect(),
            block: counts(trace),
            lost: &trace.lost,
            overhead: overhead(trace),
            notes: &trace.notes,
        }
    }
}

fn trace_info(trace: &Trace) -> TraceInfo<'_> {
    let meta = &trace.meta;
    let started_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(meta.started_at_unix_ns);
    TraceInfo {
        duration_ns: meta.duration_ns,
        started_at: humantime::format_rfc3339_nanos(started_at).to_string(),
        kernel: &meta.kernel,
        hostname: &meta.hostname,
        command: meta.command.iter().map(|arg| reversible(arg)).collect(),
        targets: Targets {
            all: meta.targets.all,
            pids: &meta.targets.pids,
            cgroups: &meta.targets.cgroups,
            containers: &meta.targets.containers,
            follow: meta.targets.follow,
        },
        filters: meta.filters.iter().map(|(name, value)| Filter { name, value }).collect(),
        redacted: meta.redacted,
    }
}

fn counts(trace: &Trace) -> Counts {
    let c = trace.block;
    Counts {
        started: c.started,
        issued: c.issued,
        requeued: c.requeued,
        merged_bios: c.merged_bios,
        merged_requests: c.merged_requests,
        completed: c.completed,
        errors: c.errors,
        completed_without_start: c.completed_without_start,
        abandoned: c.abandoned,
        in_flight_at_end: c.in_flight_at_end,
        flush_issued: c.flush_issued,
    }
}

fn overhead(trace: &Trace) -> OverheadInfo<'_> {
    let o = &trace.overhead;
    OverheadInfo {
        programs: (o.programs.iter())
            .map(|p| ProgramInfo {
                name: &p.name,
                run_count: p.run_count,
                run_time_ns: p.run_time_ns,
                runs_skipped: p.runs_skipped,
            })
            .collect(),
        sampled_ns: o.sampled_ns,
        user_cpu_ns: o.user_cpu_ns,
        max_rss_bytes: o.max_rss_bytes,
        map_bytes: o.map_bytes,
        attach_ns: o.attach_ns,
    }
}
