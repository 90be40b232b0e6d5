//! What literal traces did with files: a loader of small images with a checkpoint, and a process that does everything
//! one should not, with names chosen to hurt.

use std::collections::BTreeMap;

use iotrace::model::{
    Checkpoint, Class, Extension, Failure, File, FileSystem, FileUse, Files, Folder, MetaStats, Process,
    Sessions,
};
use iotrace_common::file::{CLASSES, FileTotals};

use super::Spread;

impl Spread {
    /// An operation that moves no data.
    fn meta(&mut self, latency: &[(u64, u64, u64)], form: &'static str, waited: u64) -> MetaStats {
        let latency_ns = self.histogram(latency);
        MetaStats {
            count: latency_ns.count,
            forms: vec![(form, latency_ns.count)],
            waited,
            wait_ns: if waited > 0 { latency_ns.sum / 10 * 9 } else { 0 },
            latency_ns,
            ..MetaStats::default()
        }
    }
}

/// What a loader worker does beside reading: opens, stats and closes each of its `files`.
pub fn worker(spread: &mut Spread, process: &mut Process, files: u64) {
    let read = &mut process.read;
    read.waited = files;
    read.wait_ns = read.latency_ns.sum / 10 * 9;
    read.waited_bytes = read.bytes / 5 * 4;
    read.cached_bytes = read.bytes;
    process.meta = vec![
        ("close", spread.meta(&[(files, 900, 3_000)], "close", 0)),
        (
            "open",
            spread.meta(&[(files / 2, 9_000, 30_000), (files / 2, 200_000, 900_000)], "openat", files / 2),
        ),
        ("stat", spread.meta(&[(files, 700, 1_900)], "newfstatat", 0)),
    ];
    let open = &process.meta[1].1;
    let totals = FileTotals {
        reads: process.read.count,
        read_bytes: process.read.bytes,
        read_ns: process.read.latency_ns.sum,
        read_wait_ns: process.read.wait_ns,
        waited_reads: files,
        waited_bytes: process.read.waited_bytes,
        sequential_reads: process.read.count,
        open_ns: open.latency_ns.sum,
        open_wait_ns: open.wait_ns,
        cached_bytes: process.read.cached_bytes,
        ..FileTotals::default()
    };
    process.files = Some(Box::new(FileUse { files, opens: files, whole_file: files, totals }));
}

/// The files of the loader and of its trainer, which saves a checkpoint.
pub fn imagenet(processes: &[Process]) -> Files {
    let read =
        processes.iter().filter_map(|p| p.files.as_ref()).fold(FileTotals::default(), |mut sum, of| {
            sum.add(&of.totals);
            sum
        });
    let saved = FileTotals {
        writes: 83,
        written_bytes: 435_159_040,
        write_ns: 1_500_000_000,
        write_wait_ns: 1_310_000_000,
        syncs: 2,
        sync_ns: 640_000_000,
        open_ns: 40_000,
        ..FileTotals::default()
    };
    let mut classes: [Class; CLASSES] = Default::default();
    classes[2] = Class { files: 1_322, opens: 1_322, totals: tenths(&read, 4) };
    classes[3] = Class { files: 1_998, opens: 1_998, totals: tenths(&read, 5) };
    classes[4] = Class { files: 120, opens: 120, totals: tenths(&read, 1) };
    classes[6] = Class { files: 1, opens: 1, totals: saved };
    let image = |name: &str, wait_ns| File {
        path: format!("/data/imagenet/train/{name}").into(),
        device: (259, 1),
        ino: 7_340_000 + wait_ns % 1000,
        size: 110_231,
        opens: 1,
        reads: 4,
        read_bytes: 110_231,
        wait_ns,
        pid: 51_207,
        ..File::default()
    };
    let folder = |name: &str, files, share| Folder {
        path: format!("/data/imagenet/train/{name}").into(),
        files,
        opens: files,
        totals: tenths(&read, share),
    };
    Files {
        distinct: 3_441,
        sessions: Sessions {
            opened: 3_441,
            closed: 3_440,
            open_before: 9,
            open_at_end: 10,
            whole_file: 3_440,
        },
        classes,
        top: vec![
            File {
                path: b"/ckpt/run-17/step_900.pt".to_vec(),
                device: (259, 1),
                ino: 12,
                size: 435_159_040,
                opens: 1,
                written_bytes: 435_159_040,
                wait_ns: 1_950_000_000,
                pid: 51_190,
                ..File::default()
            },
            image("n02105855/n02105855_2933.JPEG", 19_000_123),
            image("n02105855/n02105855_1021.JPEG", 14_400_777),
            image("n01440764/n01440764_10026.JPEG", 9_100_400),
        ],
        folders: vec![
            folder("n02105855", 1_300, 6),
            folder("n01440764", 2_140, 4),
            Folder { path: b"/ckpt/run-17".to_vec(), files: 1, opens: 1, totals: saved },
        ],
        folder_count: 3,
        extensions: vec![
            Extension {
                extension: b".jpeg".to_vec(),
                files: 3_440,
                opens: 3_440,
                read_bytes: read.read_bytes,
                wait_ns: read.read_wait_ns + read.open_wait_ns,
                ..Extension::default()
            },
            Extension {
                extension: b".pt".to_vec(),
                files: 1,
                opens: 1,
                written_bytes: 435_159_040,
                wait_ns: 1_950_000_000,
                ..Extension::default()
            },
        ],
        file_systems: vec![FileSystem {
            mount_point: b"/data".to_vec(),
            fs_type: "ext4".to_owned(),
            backing: "block",
            source: b"/dev/nvme0n1p1".to_vec(),
            device: (259, 1),
            files: 3_441,
            opens: 3_441,
            totals: read,
        }],
        checkpoint_count: 1,
        checkpoints: vec![Checkpoint {
            path: b"/ckpt/run-17/step_900.pt".to_vec(),
            temporary: Some(b"/ckpt/run-17/step_900.pt.tmp".to_vec()),
            rules: vec!["name", "large write", "temporary renamed", "fsync"],
            pid: 51_190,
            bytes: 435_159_040,
            writes: 83,
            syncs: 2,
            duration_ns: 2_400_000_000,
            stall_ns: 2_140_000_000,
            began_ns: 12_000_000_000,
        }],
        failures: vec![],
        records_lost: 0,
    }
}

fn tenths(totals: &FileTotals, share: u64) -> FileTotals {
    let of = |n: u64| n / 10 * share;
    FileTotals {
        reads: of(totals.reads),
        read_bytes: of(totals.read_bytes),
        read_ns: of(totals.read_ns),
        read_wait_ns: of(totals.read_wait_ns),
        waited_reads: of(totals.waited_reads),
        waited_bytes: of(totals.waited_bytes),
        sequential_reads: of(totals.sequential_reads),
        open_ns: of(totals.open_ns),
        open_wait_ns: of(totals.open_wait_ns),
        cached_bytes: of(totals.cached_bytes),
        ..FileTotals::default()
    }
}

/// A process that misses files by the thousand, stats in a loop, scans, reads bytewise and at random, faults a model in,
/// syncs each line of its log, and reads from a bucket; some of its names are traps.
pub fn clumsy(spread: &mut Spread) -> (Process, Files) {
    let mut open = spread.meta(&[(40_000, 1_500, 9_000)], "openat", 120);
    open.errors = BTreeMap::from([(2, 30_000), (13, 12)]);
    let mut fault = spread.meta(&[(9_000, 20_000, 900_000)], "fault", 8_000);
    fault.cached_bytes = 1 << 30;
    let mut read = spread.op(
        &[(60_000, 500, 2_000), (20_000, 200_000, 4_000_000)],
        &[(60_000, 100, 512), (20_000, 4_096, 4_096)],
        &[("pread64", 20_000), ("read", 60_000)],
    );
    read.waited = 20_000;
    read.wait_ns = read.latency_ns.sum / 10 * 9;
    read.waited_bytes = 20_000 * 4_096;
    read.cached_bytes = 20_000 * (128 << 10);
    let mut write = spread.op(&[(900, 2_000, 9_000)], &[(900, 60, 300)], &[("write", 900)]);
    write.cached_bytes = 900 * 4_096;
    let sync = spread.meta(&[(900, 2_000_000, 4_000_000)], "fsync", 900);
    let totals = FileTotals {
        reads: read.count,
        read_bytes: read.bytes,
        read_ns: read.latency_ns.sum,
        read_wait_ns: read.wait_ns,
        waited_reads: read.waited,
        waited_bytes: read.waited_bytes,
        sequential_reads: 59_000,
        strided_reads: 1_000,
        random_reads: 20_000,
        tiny_reads: 60_000,
        writes: write.count,
        written_bytes: write.bytes,
        write_ns: write.latency_ns.sum,
        write_wait_ns: 0,
        tiny_writes: 900,
        open_ns: open.latency_ns.sum,
        open_wait_ns: open.wait_ns,
        syncs: 900,
        sync_ns: sync.latency_ns.sum,
        faults: 9_000,
        fault_wait_ns: fault.wait_ns,
        cached_bytes: read.cached_bytes + write.cached_bytes + fault.cached_bytes,
    };
    let process = Process {
        pid: 7_001,
        ns_pid: 7_001,
        ppid: 1,
        comm: b"clumsy".to_vec(),
        cmdline: ["clumsy", "--data=/mnt/bucket/set \x1b[31m", "/models/base.safetensors", "-v"]
            .map(|arg| arg.as_bytes().to_vec())
            .to_vec()
            .into(),
        meta: vec![
            ("close", spread.meta(&[(10_000, 600, 1_200)], "close", 0)),
            ("fsync", sync),
            ("getdents", spread.meta(&[(20_000, 90_000, 900_000)], "getdents64", 11_000)),
            ("mmap_fault", fault),
            ("open", open),
            ("rename", spread.meta(&[(3, 9_000, 12_000)], "renameat2", 0)),
            ("stat", spread.meta(&[(120_000, 900, 4_000)], "statx", 0)),
            ("truncate", spread.meta(&[(1, 9_000, 12_000)], "ftruncate", 0)),
            ("unlink", spread.meta(&[(4, 9_000, 12_000)], "unlink", 0)),
        ],
        read,
        write,
        files: Some(Box::new(FileUse { files: 40, opens: 9_988, whole_file: 2, totals })),
        ..Process::default()
    };
    let remote = FileTotals {
        syncs: 0,
        sync_ns: 0,
        writes: 0,
        written_bytes: 0,
        write_ns: 0,
        tiny_writes: 0,
        ..totals
    };
    let local = FileTotals {
        writes: totals.writes,
        written_bytes: totals.written_bytes,
        write_ns: totals.write_ns,
        tiny_writes: 900,
        syncs: 900,
        sync_ns: totals.sync_ns,
        ..FileTotals::default()
    };
    let mut classes: [Class; CLASSES] = Default::default();
    classes[4] = Class { files: 1, opens: 1, totals: local };
    classes[6] = Class { files: 39, opens: 9_987, totals: remote };
    let long =
        format!("/mnt/bucket/{}/shard\n-\u{202e}000\x1b[31m.tar", "a-folder-with-a-long-name/".repeat(6));
    let bucket = File {
        path: [long.as_bytes(), b".\xff"].concat(),
        device: (0, 51),
        ino: 9,
        size: 1 << 30,
        opens: 9_900,
        reads: 60_000,
        read_bytes: 3 << 30,
        wait_ns: remote.read_wait_ns,
        pid: 7_001,
        ..File::default()
    };
    let log = File {
        path: b"/var/log/clumsy.log".to_vec(),
        deleted: true,
        device: (8, 1),
        ino: 77,
        size: 200_000,
        opens: 1,
        written_bytes: totals.written_bytes,
        wait_ns: totals.sync_ns,
        pid: 7_001,
        ..File::default()
    };
    let file_system =
        |mount: &[u8], fs_type: &str, backing, source: &[u8], device, files, opens, totals| FileSystem {
            mount_point: mount.to_vec(),
            fs_type: fs_type.to_owned(),
            backing,
            source: source.to_vec(),
            device,
            files,
            opens,
            totals,
        };
    let files = Files {
        distinct: 40,
        sessions: Sessions { opened: 9_988, closed: 9_980, open_before: 3, open_at_end: 11, whole_file: 2 },
        classes,
        top: vec![bucket, log],
        folders: vec![
            Folder { path: b"/mnt/bucket/\xe2\x28set".to_vec(), files: 39, opens: 9_987, totals: remote },
            Folder { path: b"/var/log".to_vec(), files: 1, opens: 1, totals: local },
        ],
        folder_count: 1_204,
        extensions: vec![
            Extension {
                files: 39,
                opens: 9_987,
                read_bytes: 3 << 30,
                wait_ns: remote.read_wait_ns,
                ..Extension::default()
            },
            Extension {
                extension: b".log".to_vec(),
                files: 1,
                opens: 1,
                written_bytes: local.written_bytes,
                wait_ns: local.sync_ns,
                ..Extension::default()
            },
        ],
        file_systems: vec![
            file_system(b"/mnt/bucket", "fuse.s3fs", "fuse", b"s3fs", (0, 51), 39, 9_987, remote),
            file_system(b"/", "ext4", "block", b"/dev/sda1", (8, 1), 1, 1, local),
        ],
        checkpoint_count: 0,
        checkpoints: Vec::new(),
        failures: vec![
            Failure {
                pid: 7_001,
                op: "open",
                errno: 2,
                count: 30_000,
                path: b"cache/\x1b]0;owned\x07.idx".to_vec(),
            },
            Failure { pid: 7_001, op: "open", errno: 13, count: 12, path: b"/root/secret.key".to_vec() },
        ],
        records_lost: 31,
    };
    (process, files)
}

/// A process that reads each of 100 shards twice, from start to end; readahead is in time.
pub fn epochs(spread: &mut Spread) -> (Process, Files) {
    let mut read = spread.op(
        &[(1_960, 90_000, 400_000), (40, 2_000_000, 9_000_000)],
        &[(2_000, 1 << 20, 1 << 20)],
        &[("read", 2_000)],
    );
    (read.waited, read.waited_bytes) = (40, 40 << 20);
    read.wait_ns = read.latency_ns.sum / 2;
    read.cached_bytes = read.bytes / 2;
    let totals = FileTotals {
        reads: read.count,
        read_bytes: read.bytes,
        read_ns: read.latency_ns.sum,
        read_wait_ns: read.wait_ns,
        waited_reads: 40,
        waited_bytes: read.waited_bytes,
        sequential_reads: read.count,
        cached_bytes: read.cached_bytes,
        ..FileTotals::default()
    };
    let mut classes: [Class; CLASSES] = Default::default();
    classes[5] = Class { files: 100, opens: 200, totals };
    let files = Files {
        distinct: 100,
        sessions: Sessions { opened: 200, closed: 200, whole_file: 200, ..Sessions::default() },
        classes,
        folders: vec![Folder { path: b"/shards".to_vec(), files: 100, opens: 200, totals }],
        folder_count: 1,
        ..Files::default()
    };
    let process = Process {
        pid: 8_002,
        ns_pid: 8_002,
        ppid: 1,
        comm: b"shards".to_vec(),
        read,
        files: Some(Box::new(FileUse { files: 100, opens: 200, whole_file: 200, totals })),
        ..Process::default()
    };
    (process, files)
}
