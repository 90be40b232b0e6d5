//! Literal traces: a loader of small files, nothing at all, one with losses, and a whole busy system.

use std::collections::BTreeMap;
use std::sync::Arc;

use iotrace::model::{
    ApartStats, BlockCounts, BlockEntry, BlockOp, BlockStats, Container, Device, FileSizes, Files, Histogram,
    Meta, OpStats, Overhead, Probe, Process, ProgramCost, Runtime, Targets, Trace,
};

#[path = "files.rs"]
mod files;
#[path = "ledgers.rs"]
mod ledgers;

const NVME: (u32, u32) = (259, 0);
const DM: (u32, u32) = (253, 0);
const SDA: (u32, u32) = (8, 0);

/// Values spread evenly over the powers of two between `low` and `high`: the same on every machine and run.
struct Spread(u64);

impl Spread {
    fn next(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let from = u64::from(low.max(1).ilog2());
        let powers = u64::from(high.max(2).ilog2()) - from + 1;
        let power = from + (self.0 >> 33) % powers;
        let value = (1u64 << power) + ((self.0 >> 20) & ((1 << power) - 1));
        value.clamp(low, high)
    }

    fn histogram(&mut self, parts: &[(u64, u64, u64)]) -> Histogram {
        let mut h = Histogram::default();
        for &(count, low, high) in parts {
            (0..count).for_each(|_| h.record(self.next(low, high)));
        }
        h
    }

    fn op(
        &mut self,
        latency: &[(u64, u64, u64)],
        size: &[(u64, u64, u64)],
        forms: &[(&'static str, u64)],
    ) -> OpStats {
        let latency_ns = self.histogram(latency);
        let size_bytes = self.histogram(size);
        OpStats {
            count: latency_ns.count,
            bytes: size_bytes.sum,
            forms: forms.to_vec(),
            latency_ns,
            size_bytes,
            ..OpStats::default()
        }
    }

    fn requests(
        &mut self,
        device: (u32, u32),
        op: BlockOp,
        flags: &str,
        count: u64,
        device_ns: (u64, u64),
    ) -> BlockEntry {
        let mut stats = BlockStats { count, ..BlockStats::default() };
        for _ in 0..count {
            let size = if op == BlockOp::Flush { 0 } else { self.next(4096, 1 << 18) & !4095 };
            let (queue, device) = (self.next(900, 60_000), self.next(device_ns.0, device_ns.1));
            stats.bytes += size;
            stats.size_bytes.record(size);
            stats.queue_ns.record(queue);
            stats.device_ns.record(device);
            stats.total_ns.record(queue + device);
        }
        let (sync, meta, readahead) = (flags.contains('S'), flags.contains('M'), flags.contains('R'));
        BlockEntry { device, op, sync, meta, readahead, stats }
    }
}

fn args(args: &[&str]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.as_bytes().to_vec()).collect()
}

fn probes() -> Vec<Probe> {
    let probe = |metric: &str, variant: Option<&str>, reason: &str| Probe {
        metric: metric.to_owned(),
        variant: variant.map(str::to_owned),
        reason: reason.to_owned(),
    };
    vec![
        probe("block owner", Some("tp_btf block_io_start"), ""),
        probe("block phases", Some("tp_btf block_rq_issue, block_rq_complete"), ""),
        probe(
            "read/write",
            Some("raw_tp sys_enter, sys_exit"),
            "fentry vfs_read: EPERM on load, the kernel is locked down (integrity); kprobe vfs_read: kernel built without CONFIG_KPROBES",
        ),
        probe("process tree", Some("tp_btf sched_process_fork, exec, exit"), ""),
    ]
}

fn lost(causes: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    let known = ["in_flight_full", "process_table_full", "ring_full", "thread_slots_full"];
    known.into_iter().map(|cause| (cause, 0)).chain(causes.iter().copied()).collect()
}

fn overhead() -> Overhead {
    let program = |name: &str, run_count, run_time_ns| ProgramCost {
        name: name.to_owned(),
        run_count,
        run_time_ns,
        runs_skipped: 0,
    };
    Overhead {
        programs: vec![
            program("sys_enter", 402_113, 31_364_814),
            program("sys_exit", 402_113, 58_306_385),
            program("block_rq_issue", 1_911, 321_048),
            program("block_rq_complete", 1_911, 697_515),
            program("block_io_start", 1_902, 494_520),
            program("sched_process_exit", 0, 0),
        ],
        sampled_ns: 3_000_000_000,
        user_cpu_ns: 214_000_000,
        max_rss_bytes: 19_083_264,
        map_bytes: 12_582_912,
        attach_ns: 312_000_000,
    }
}

fn notes() -> Vec<String> {
    vec![
        "io_uring and AIO are not covered.".to_owned(),
        "Processes that began and ended between two looks at /proc have no command line.".to_owned(),
    ]
}

fn meta() -> Meta {
    Meta {
        duration_ns: 30_004_118_220,
        started_at_unix_ns: 1_796_052_449_123_456_789,
        kernel: "6.8.0-45-generic".to_owned(),
        hostname: "gpu-node-7".to_owned(),
        targets: Targets { pids: vec![1], follow: true, ..Targets::default() },
        ..Meta::default()
    }
}

fn nvme(processes: &[Process], others: &[BlockEntry]) -> Device {
    let mut totals: BTreeMap<BlockOp, BlockStats> = BTreeMap::new();
    for entry in processes.iter().flat_map(|p| &p.block).chain(others).filter(|e| e.device == NVME) {
        totals.entry(entry.op).or_default().merge(&entry.stats);
    }
    Device {
        number: NVME,
        name: "nvme0n1".to_owned(),
        rotational: Some(false),
        scheduler: Some("none".to_owned()),
        nr_requests: Some(1023),
        hardware_queues: Some(64),
        issue_time_source: "request",
        totals,
        ..Device::default()
    }
}

/// The pod's container of the trainer and its workers.
fn container() -> Option<Arc<Container>> {
    Some(Arc::new(Container {
        runtime: Some(Runtime::Containerd),
        id: Some("4f66b8a7d2c0e5913b7f0a9c8d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e".to_owned()),
        pod_uid: Some("8dc1a1c5-3d3d-4f0f-9a52-0f6c2a0e9b11".to_owned()),
    }))
}

fn worker(spread: &mut Spread, index: u32) -> Process {
    let files = 800 + u64::from(index) * 40;
    let mut read = spread.op(
        &[(files * 3, 700, 14_000), (files, 64_000, 8_000_000)],
        &[(files, 4096, 4096), (files * 2, 20_000, 240_000), (files, 0, 0)],
        &[("read", files * 4)],
    );
    read.short = files;
    read.eof = files;
    let file_size = spread.histogram(&[(files - 30, 24_000, 130_000), (30, 140_000, 900_000)]);
    Process {
        pid: 51_207 + index,
        ns_pid: 17 + index,
        ppid: 51_190,
        comm: b"pt_data_worker".to_vec(),
        cmdline: args(&["python", "train.py", "--data", "/data/imagenet/train", "--workers", "4"]).into(),
        container: container(),
        read,
        apart: Vec::from([
            ("pipe", ApartStats { reads: 201, read_bytes: 3_216, writes: 200, write_bytes: 41_200 }),
            ("char", ApartStats { reads: 2, read_bytes: 64, ..ApartStats::default() }),
        ]),
        block: vec![
            spread.requests(NVME, BlockOp::Read, "R", files / 3, (60_000, 900_000)),
            spread.requests(NVME, BlockOp::Read, "SM", files / 20, (60_000, 400_000)),
        ],
        file_sizes: Some(Box::new(FileSizes {
            all: file_size.clone(),
            read: file_size,
            written: Histogram::default(),
        })),
        ..Process::default()
    }
}

/// A trainer and four loader workers in a container; one of them chose its name to hurt.
pub fn loader() -> Trace {
    let mut spread = Spread(1);
    let mut trainer = Process {
        pid: 51_190,
        ns_pid: 1,
        ppid: 50_988,
        comm: b"python".to_vec(),
        cmdline: args(&["python", "train.py", "--data", "/data/imagenet/train", "--workers", "4"]).into(),
        container: container(),
        read: spread.op(&[(412, 600, 30_000)], &[(412, 100, 65_536)], &[("pread64", 200), ("read", 212)]),
        write: spread.op(
            &[(77, 400_000, 9_000_000), (6, 90_000_000, 400_000_000)],
            &[(83, 1 << 20, 1 << 23)],
            &[("writev", 77), ("write", 6)],
        ),
        block: vec![spread.requests(NVME, BlockOp::Write, "S", 120, (20_000, 2_000_000))],
        ..Process::default()
    };
    let read = spread.histogram(&[(40, 200, 90_000)]);
    let written = spread.histogram(&[(1, 200 << 20, 200 << 20)]);
    let mut all = read.clone();
    all.merge(&written);
    trainer.file_sizes = Some(Box::new(FileSizes { all, read, written }));
    trainer.read.errors = BTreeMap::from([(5, 1), (21, 3)]);
    (trainer.write.waited, trainer.write.wait_ns) = (81, trainer.write.latency_ns.sum / 10 * 9);
    let mut processes: Vec<_> = (0..4).map(|index| worker(&mut spread, index)).collect();
    // A spread of its own: what was there before stays as it was.
    let mut beside = Spread(11);
    for (worker, index) in processes.iter_mut().zip(0..) {
        files::worker(&mut beside, worker, 800 + index * 40);
    }
    processes[2].comm = b"evil\x1b[31m\n\xff".to_vec();
    processes[2].exited = true;
    processes.push(trainer);
    processes.push(Process {
        pid: 312,
        ns_pid: 312,
        ppid: 2,
        comm: b"kworker/u64:3".to_vec(),
        kernel_thread: true,
        block: vec![
            spread.requests(NVME, BlockOp::Write, "", 240, (30_000, 4_000_000)),
            spread.requests(NVME, BlockOp::Flush, "S", 2, (900_000, 2_000_000)),
        ],
        ..Process::default()
    });
    let others = vec![spread.requests(NVME, BlockOp::Read, "", 25, (60_000, 900_000))];
    let meta = meta();
    let ledgers = Some(Box::new(ledgers::of(&mut processes, meta.duration_ns)));
    let completed = processes.iter().flat_map(|p| &p.block).chain(&others).map(|e| e.stats.count).sum();
    Trace {
        meta,
        ledgers,
        probes: probes(),
        devices: vec![nvme(&processes, &others)],
        files: files::imagenet(&processes),
        processes,
        others,
        block: BlockCounts {
            started: completed + 7,
            issued: completed + 14,
            requeued: 12,
            merged_bios: 302,
            merged_requests: 5,
            completed,
            in_flight_at_end: 2,
            ..BlockCounts::default()
        },
        lost: lost(&[]),
        overhead: overhead(),
        notes: notes(),
    }
}

/// The same loader, of which only block requests were traced.
pub fn block_only() -> Trace {
    let mut trace = loader();
    trace.ledgers = None;
    for probe in trace.probes.iter_mut().filter(|probe| probe.metric == "read/write") {
        *probe = Probe::left_out("read/write");
    }
    for process in &mut trace.processes {
        let Process { pid, ns_pid, ppid, kernel_thread, exited, .. } = *process;
        let (comm, cmdline, block) =
            (process.comm.clone(), process.cmdline.clone(), std::mem::take(&mut process.block));
        *process =
            Process { pid, ns_pid, ppid, comm, cmdline, exited, kernel_thread, block, ..Process::default() };
    }
    trace
}

/// A process that did nothing, not even block requests, which was all that was asked for.
pub fn block_only_idle() -> Trace {
    let mut trace = empty();
    trace.probes = block_only().probes;
    trace
}

/// A process that did nothing.
pub fn empty() -> Trace {
    Trace {
        meta: Meta { targets: Targets { pids: vec![4121], follow: true, ..Targets::default() }, ..meta() },
        probes: probes(),
        processes: vec![Process {
            pid: 4121,
            ns_pid: 4121,
            ppid: 4000,
            comm: b"sleep".to_vec(),
            cmdline: args(&["sleep", "infinity"]).into(),
            ..Process::default()
        }],
        lost: lost(&[]),
        overhead: Overhead { programs: Vec::new(), sampled_ns: 0, ..overhead() },
        notes: notes(),
        ..Trace::default()
    }
}

/// A command whose trace lost events, has a metric that cannot be measured, and a ledger that does not balance.
pub fn lossy() -> Trace {
    let mut spread = Spread(7);
    let mut trace = loader();
    let command = args(&[
        "sh",
        "-c",
        "cat /data/*\n# done",
        "",
        "it's",
        "--a-long-option=that-does-not-end-before-the-line-does",
    ]);
    trace.meta.command = command.clone();
    trace.meta.targets.pids = vec![900];
    trace.meta.filters =
        vec![("device".to_owned(), "nvme0n1".to_owned()), ("op".to_owned(), "read".to_owned())];
    trace.files = Files::default();
    trace.processes = vec![Process {
        pid: 900,
        ns_pid: 0,
        ppid: 899,
        comm: "sh\u{202e}gpj".as_bytes().to_vec(),
        cmdline: command.into(),
        exited: true,
        container: Some(Arc::new(Container {
            pod_uid: Some("d3f1c7e5a9b80246813579acebdf0f1e".to_owned()),
            ..Container::default()
        })),
        read: spread.op(&[(5_000, 600, 40_000)], &[(5_000, 131_072, 131_072)], &[("read", 5_000)]),
        ..Process::default()
    }];
    trace.probes[1].variant = None;
    trace.probes[1].reason = "request.start_time_ns: no such field in the kernel's BTF".to_owned();
    trace.lost = lost(&[("ring_full", 1_204), ("thread_slots_full", 31)]);
    trace.block.started += 3;
    trace.block.errors = 4;
    trace
}

/// One process that does everything one should not, on storage behind a daemon.
pub fn clumsy() -> Trace {
    let (process, files) = files::clumsy(&mut Spread(5));
    Trace {
        meta: Meta { targets: Targets { pids: vec![7_001], follow: true, ..Targets::default() }, ..meta() },
        probes: probes(),
        processes: vec![process],
        files,
        lost: lost(&[]),
        overhead: Overhead { programs: Vec::new(), sampled_ns: 0, ..overhead() },
        ..Trace::default()
    }
}

/// A server that reads the same shards twice, from start to end, the second time from memory.
pub fn epochs() -> Trace {
    let (process, files) = files::epochs(&mut Spread(13));
    Trace {
        meta: Meta { targets: Targets { pids: vec![8_002], follow: true, ..Targets::default() }, ..meta() },
        processes: vec![process],
        files,
        ..clumsy()
    }
}

/// A whole system: many short-lived processes, disks of each kind, kernel threads at work.
pub fn system() -> Trace {
    let mut spread = Spread(3);
    let mut processes: Vec<Process> = (0..300u32)
        .map(|i| Process {
            pid: 2_000 + i * 7,
            ns_pid: 2_000 + i * 7,
            ppid: 1_999,
            comm: b"cat".to_vec(),
            cmdline: args(&["cat", &format!("/srv/файлы/{i}.txt")]).into(),
            exited: true,
            read: spread.op(&[(4, 900, 60_000)], &[(3, 131_072, 131_072), (1, 0, 0)], &[("read", 4)]),
            file_sizes: Some(Box::new(FileSizes {
                all: spread.histogram(&[(1, 300_000, 400_000)]),
                ..FileSizes::default()
            })),
            ..Process::default()
        })
        .collect();
    processes.push(Process {
        pid: 1_204_118,
        ns_pid: 1_204_118,
        ppid: 1,
        comm: "模型-сервер".as_bytes().to_vec(),
        cmdline: args(&["/opt/serve/bin/server", "--model", "/models/模型.safetensors"]).into(),
        read: spread.op(&[(90_000, 1_000, 90_000_000)], &[(90_000, 4_096, 1 << 20)], &[("preadv2", 90_000)]),
        write: spread.op(&[(11, 40, 900)], &[(11, 80, 200)], &[("write", 11)]),
        block: vec![spread.requests(SDA, BlockOp::Read, "SR", 4_100, (2_000_000, 40_000_000))],
        ..Process::default()
    });
    for (index, name) in ["jbd2/dm-0-8", "kworker/u8:1-flush-253:0", "kswapd0"].into_iter().enumerate() {
        processes.push(Process {
            pid: 80 + index as u32,
            ns_pid: 80 + index as u32,
            ppid: 2,
            comm: name.as_bytes().to_vec(),
            kernel_thread: true,
            block: vec![
                spread.requests(
                    DM,
                    BlockOp::Write,
                    if index == 0 { "SM" } else { "" },
                    700,
                    (30_000, 4_000_000),
                ),
                spread.requests(SDA, BlockOp::Discard, "", 3, (30_000, 4_000_000)),
            ],
            ..Process::default()
        });
    }
    let device = |number, name: &str, alias: Option<&str>, rotational| Device {
        name: name.to_owned(),
        number,
        alias: alias.map(str::to_owned),
        rotational: Some(rotational),
        scheduler: rotational.then(|| "mq-deadline".to_owned()),
        nr_requests: rotational.then_some(64),
        hardware_queues: Some(1),
        issue_time_source: "probe",
        totals: BTreeMap::new(),
    };
    let mut devices = vec![device(SDA, "sda", None, true), device(DM, "dm-0", Some("vg-data"), false)];
    for device in &mut devices {
        for entry in processes.iter().flat_map(|p| &p.block).filter(|e| e.device == device.number) {
            device.totals.entry(entry.op).or_default().merge(&entry.stats);
        }
    }
    if let Some(stats) = devices[0].totals.get_mut(&BlockOp::Read) {
        stats.errors = 2;
    }
    let completed = processes.iter().flat_map(|p| &p.block).map(|e| e.stats.count).sum();
    Trace {
        meta: Meta { targets: Targets { all: true, follow: true, ..Targets::default() }, ..meta() },
        probes: probes(),
        processes,
        devices,
        block: BlockCounts {
            started: completed,
            issued: completed,
            completed,
            errors: 2,
            ..BlockCounts::default()
        },
        lost: lost(&[]),
        overhead: overhead(),
        notes: notes(),
        ..Trace::default()
    }
}

/// As many short-lived processes as a shell loop leaves behind.
pub fn crowd(size: u32) -> Trace {
    let mut trace = system();
    let cat = trace.processes[0].clone();
    trace.processes = (0..size).map(|i| Process { pid: 10_000 + i, ..cat.clone() }).collect();
    trace
}
