//! Each pattern from literal models: what makes it appear, and what is not enough.

use std::collections::BTreeMap;

use iotrace_common::file::FileTotals;

use super::*;
use crate::model::{
    Checkpoint, Class, Failure, File, FileSystem, FileUse, Folder, Histogram, Meta, MetaStats, OpStats,
};

const SECOND: u64 = 1_000_000_000;

fn trace(processes: Vec<Process>) -> Trace {
    Trace { meta: Meta { duration_ns: 10 * SECOND, ..Meta::default() }, processes, ..Trace::default() }
}

fn one_value(value: u64) -> Histogram {
    let mut h = Histogram::default();
    h.record(value);
    h
}

fn meta(count: u64, time_ns: u64) -> MetaStats {
    MetaStats { count, latency_ns: one_value(time_ns), ..MetaStats::default() }
}

fn using(pid: u32, opens: u64, whole_file: u64, totals: FileTotals) -> Process {
    Process {
        pid,
        files: Some(Box::new(FileUse { files: opens, opens, whole_file, totals })),
        ..Process::default()
    }
}

fn kinds(trace: &Trace) -> Vec<&'static str> {
    patterns(trace).iter().map(|pattern| pattern.evidence.kind()).collect()
}

fn found(trace: &Trace, kind: &str) -> Option<Pattern> {
    patterns(trace).into_iter().find(|pattern| pattern.evidence.kind() == kind)
}

#[test]
fn nothing_stands_out_of_nothing() {
    assert!(patterns(&Trace::default()).is_empty());
    assert!(patterns(&trace(vec![Process::default()])).is_empty());
}

#[test]
fn too_much_lost_and_nothing_is_said() {
    let reads = OpStats { count: 1_000, bytes: 1 << 20, ..OpStats::default() };
    let mut trace = trace(vec![Process { read: reads, ..Process::default() }]);
    assert_eq!(kinds(&trace), ["warm_reads"]);
    trace.lost = BTreeMap::from([("program_runs_skipped", 10)]);
    assert_eq!(kinds(&trace), ["warm_reads"], "one per cent will do");
    trace.lost = BTreeMap::from([("program_runs_skipped", 11)]);
    assert!(patterns(&trace).is_empty() && too_much_lost(&trace));
}

fn of_sizes(small: u64, large: u64) -> Trace {
    let mut trace = trace(vec![using(7, small + large, 0, FileTotals::default())]);
    let totals = FileTotals {
        reads: 3 * small,
        read_bytes: 900 * small,
        open_ns: 70,
        read_ns: 30,
        ..FileTotals::default()
    };
    trace.files.classes[3] = Class { files: small, opens: small, totals };
    trace.files.classes[4] = Class { files: large, opens: large, totals: FileTotals::default() };
    trace.files.folders = vec![Folder { path: b"/d/train".to_vec(), opens: small, ..Folder::default() }];
    trace
}

#[test]
fn small_files_are_most_files() {
    let pattern = found(&of_sizes(900, 100), "small_files").unwrap();
    let Evidence::SmallFiles(of) = pattern.evidence else { unreachable!() };
    assert_eq!((of.small_files, of.files, of.small_reads, of.small_open_ns), (900, 1_000, 2_700, 70));
    assert_eq!((pattern.pids.as_slice(), pattern.path.as_deref()), (&[7][..], Some(&b"/d/train"[..])));
    assert_eq!(found(&of_sizes(99, 0), "small_files"), None, "few");
    assert_eq!(found(&of_sizes(400, 500), "small_files"), None, "a minority");
}

fn reading(count: u64, waited: u64, bytes: u64, waited_bytes: u64, cached_bytes: u64) -> Process {
    let read = OpStats { count, waited, bytes, waited_bytes, cached_bytes, ..OpStats::default() };
    Process { pid: 1, read, ..Process::default() }
}

#[test]
fn cold_is_what_came_from_storage_and_warm_what_did_not() {
    let of = |process| kinds(&trace(vec![process]));
    assert_eq!(of(reading(1_000, 300, 1 << 20, 1 << 19, 1 << 19)), ["cold_reads"]);
    assert_eq!(of(reading(1_000, 0, 1 << 20, 0, 1 << 20)), ["cold_reads"], "readahead hides the wait alone");
    assert_eq!(of(reading(1_000, 5, 1 << 20, 1 << 10, 0)), ["warm_reads"]);
    assert!(of(reading(1_000, 50, 1 << 20, 50 << 10, 0)).is_empty(), "between the two");
    assert!(of(reading(99, 99, 1 << 20, 1 << 20, 1 << 20)).is_empty(), "few");
}

#[test]
fn readahead_is_used_when_it_is_read() {
    let of = |process| kinds(&trace(vec![process]));
    assert_eq!(of(reading(1_000, 20, 64 << 20, 1 << 20, 64 << 20)), ["cold_reads", "readahead_used"]);
    assert_eq!(of(reading(1_000, 990, 4 << 20, 4 << 20, 120 << 20)), ["cold_reads", "readahead_unused"]);
    assert_eq!(of(reading(1_000, 500, 64 << 20, 32 << 20, 64 << 20)), ["cold_reads"], "too many wait");
    assert_eq!(of(reading(1_000, 20, 4 << 20, 1 << 20, 4 << 20)), ["cold_reads"], "too little");
}

#[test]
fn each_process_has_its_readahead() {
    let both = trace(vec![
        reading(1_000, 20, 64 << 20, 1 << 20, 64 << 20),
        reading(500, 490, 4 << 20, 4 << 20, 120 << 20),
    ]);
    assert_eq!(kinds(&both), ["cold_reads", "readahead_unused", "readahead_used"]);
}

fn missing(failed: u64, calls: u64) -> Trace {
    let open = MetaStats { errors: BTreeMap::from([(2, failed), (13, 900)]), ..meta(calls, 1) };
    let mut trace = trace(vec![Process { pid: 9, meta: vec![("open", open)], ..Process::default() }]);
    let failure = |op, errno, path: &str| Failure { pid: 9, op, errno, count: failed, path: path.into() };
    trace.files.failures = vec![failure("open", 13, "/root/x"), failure("open", 2, "cache/a.idx")];
    trace
}

#[test]
fn missing_files_are_many_and_often() {
    let pattern = found(&missing(5_000, 9_000), "missing_files").unwrap();
    assert_eq!(pattern.evidence, MissingFiles { failed: 5_000, calls: 9_000, failed_per_second: 500 }.into());
    assert_eq!(pattern.path.as_deref(), Some(&b"cache/a.idx"[..]), "of the misses, not of the denials");
    assert_eq!(found(&missing(99, 100), "missing_files"), None, "a shell does that");
    assert_eq!(found(&missing(500, 6_000), "missing_files"), None, "a small share");
    let mut slow = missing(500, 600);
    slow.meta.duration_ns = 100 * SECOND;
    assert_eq!(found(&slow, "missing_files"), None, "five a second");
}

fn stats(stats: u64, reads: u64) -> Trace {
    let read = OpStats { count: reads, ..OpStats::default() };
    trace(vec![Process { read, meta: vec![("stat", meta(stats, SECOND))], ..Process::default() }])
}

#[test]
fn a_stat_beside_each_open_is_no_storm() {
    let pattern = found(&stats(5_000, 5_000), "stat_storm").unwrap();
    let Evidence::StatStorm(of) = pattern.evidence else { unreachable!() };
    assert_eq!((of.stats, of.calls, of.stats_per_second, of.stat_ns), (5_000, 10_000, 500, SECOND));
    assert_eq!(found(&stats(5_000, 20_000), "stat_storm"), None, "a fifth of the calls");
    assert_eq!(found(&stats(999, 0), "stat_storm"), None, "few");
    let mut slow = stats(5_000, 0);
    slow.meta.duration_ns = 1_000 * SECOND;
    assert_eq!(found(&slow, "stat_storm"), None, "five a second");
}

fn scanning(scan_ns: u64, read_ns: u64) -> Trace {
    let read = OpStats { latency_ns: one_value(read_ns), ..OpStats::default() };
    trace(vec![Process { read, meta: vec![("getdents", meta(20, scan_ns))], ..Process::default() }])
}

#[test]
fn scans_take_a_share_of_the_time() {
    assert!(found(&scanning(SECOND, 2 * SECOND), "directory_scans").is_some());
    assert_eq!(found(&scanning(SECOND, 20 * SECOND), "directory_scans"), None, "a twentieth");
    assert_eq!(found(&scanning(SECOND / 1_000, 0), "directory_scans"), None, "a millisecond");
}

fn syncing(syncs: u64, writes: u64, written_bytes: u64) -> Trace {
    let totals = FileTotals { syncs, writes, written_bytes, sync_ns: SECOND, ..FileTotals::default() };
    let mut trace = trace(vec![using(3, 1, 0, totals)]);
    trace.files.folders = vec![Folder { path: b"/log".to_vec(), totals, ..Folder::default() }];
    trace
}

#[test]
fn syncs_after_small_writes() {
    let pattern = found(&syncing(500, 500, 256_000), "small_synced_writes").unwrap();
    assert_eq!((pattern.pids.as_slice(), pattern.path.as_deref()), (&[3][..], Some(&b"/log"[..])));
    assert_eq!(found(&syncing(2, 2, 100), "small_synced_writes"), None, "two files made safe");
    assert_eq!(found(&syncing(30, 240, 30 << 26), "small_synced_writes"), None, "64 MiB an fsync");
    assert_eq!(found(&syncing(30, 9_000, 30 << 10), "small_synced_writes"), None, "batches");
    assert_eq!(found(&syncing(400, 0, 0), "small_synced_writes"), None, "nothing to make safe");
}

fn tiny(tiny_reads: u64, reads: u64, class: usize) -> Trace {
    let totals = FileTotals { tiny_reads, reads, ..FileTotals::default() };
    let mut trace = trace(vec![using(4, 1, 0, totals)]);
    trace.files.classes[class] = Class { files: 1, opens: 1, totals };
    trace
}

#[test]
fn tiny_reads_of_large_files_only() {
    assert_eq!(found(&tiny(130_000, 131_000, 5), "tiny_reads").unwrap().pids, [4]);
    assert!(found(&tiny(130_000, 131_000, 6), "tiny_reads").is_some());
    assert_eq!(found(&tiny(130_000, 131_000, 4), "tiny_reads"), None, "less than 1 MiB");
    assert_eq!(found(&tiny(999, 999, 6), "tiny_reads"), None, "headers");
    assert_eq!(found(&tiny(5_000, 80_000, 6), "tiny_reads"), None, "a small share");
}

#[test]
fn a_second_epoch_reads_again() {
    let mut epochs = trace(vec![using(5, 2_000, 2_000, FileTotals::default())]);
    (epochs.files.distinct, epochs.files.sessions.whole_file) = (1_000, 2_000);
    let pattern = found(&epochs, "repeated_whole_reads").unwrap();
    assert_eq!(pattern.evidence, RepeatedWholeReads { whole_file: 2_000, files: 1_000 }.into());
    epochs.files.sessions.whole_file = 1_010;
    assert_eq!(found(&epochs, "repeated_whole_reads"), None, "one epoch, and some read twice");
}

#[test]
fn one_file_read_over_and_over() {
    let file = |size, read_bytes| File {
        path: b"/d/index".to_vec(),
        size,
        read_bytes,
        reads: 3,
        opens: 3,
        ..File::default()
    };
    let of = |file| {
        let mut trace = trace(Vec::new());
        trace.files.top = vec![file];
        found(&trace, "repeated_reads").map(|pattern| pattern.path.unwrap())
    };
    assert_eq!(of(file(300_000, 900_000)), Some(b"/d/index".to_vec()));
    assert_eq!(of(file(300_000, 590_000)), None, "less than twice");
    assert_eq!(of(file(4_096, 900_000)), None, "a small file");
    assert_eq!(of(file(0, 900_000)), None, "its size is not known");
}

fn ordered(pid: u32, sequential_reads: u64, strided_reads: u64, random_reads: u64) -> Process {
    using(pid, 1, 0, FileTotals { sequential_reads, strided_reads, random_reads, ..FileTotals::default() })
}

#[test]
fn an_order_for_all_and_for_who_differs() {
    let all = trace(vec![ordered(1, 9_000, 0, 0), ordered(2, 0, 0, 1_000), ordered(3, 5, 0, 90)]);
    let orders: Vec<_> = patterns(&all).into_iter().map(|p| (p.pids, p.evidence)).collect();
    let numbers = |reads, sequential_reads, strided_reads, random_reads| {
        Evidence::from(AccessOrder { reads, sequential_reads, strided_reads, random_reads })
    };
    assert_eq!(
        orders,
        [(vec![1, 2], numbers(10_095, 9_005, 0, 1_090)), (vec![2], numbers(1_000, 0, 0, 1_000))]
    );
    assert!(patterns(&trace(vec![ordered(1, 50, 0, 40)])).is_empty(), "few");
    assert_eq!(
        patterns(&trace(vec![ordered(1, 900, 0, 40), ordered(2, 850, 0, 100)])).len(),
        1,
        "much alike"
    );
}

#[test]
fn whole_files_are_most_openings_of_a_process() {
    let all =
        trace(vec![using(1, 500, 500, FileTotals::default()), using(2, 4_000, 9, FileTotals::default())]);
    let pattern = found(&all, "whole_files").unwrap();
    assert_eq!(
        (pattern.evidence, pattern.pids),
        (WholeFiles { whole_file: 500, opens: 500 }.into(), vec![1])
    );
    assert!(patterns(&trace(vec![using(1, 500, 249, FileTotals::default())])).is_empty());
}

fn mapping(wait_ns: u64, cached_bytes: u64, read_wait_ns: u64) -> Trace {
    let fault = MetaStats { waited: 8, wait_ns, cached_bytes, ..meta(10, wait_ns) };
    let read = OpStats { wait_ns: read_wait_ns, ..OpStats::default() };
    trace(vec![Process { pid: 6, read, meta: vec![("mmap_fault", fault)], ..Process::default() }])
}

#[test]
fn mapping_loads_when_much_comes_in_or_is_waited_for() {
    assert_eq!(found(&mapping(0, 64 << 20, 0), "mmap_loading").unwrap().pids, [6]);
    assert!(found(&mapping(SECOND, 0, SECOND), "mmap_loading").is_some());
    assert_eq!(found(&mapping(SECOND, 0, 100 * SECOND), "mmap_loading"), None, "one per cent of the wait");
    assert_eq!(found(&mapping(1_000_000, 1 << 20, 0), "mmap_loading"), None, "a library");
}

#[test]
fn checkpoints_add_up_and_the_longest_is_named() {
    let save = |pid, path: &str, stall_ns| Checkpoint {
        pid,
        path: path.into(),
        bytes: 100,
        writes: 3,
        syncs: 1,
        stall_ns,
        rules: vec!["name", "fsync"],
        ..Checkpoint::default()
    };
    let mut saved = trace(Vec::new());
    saved.files.checkpoints =
        vec![save(1, "/c/1.pt", SECOND), save(2, "/c/2.pt", 2 * SECOND), save(1, "/c/3.pt", 5)];
    let pattern = found(&saved, "checkpoint_writes").unwrap();
    let Evidence::CheckpointWrites(of) = pattern.evidence else { unreachable!() };
    assert_eq!((of.files, of.bytes, of.stall_ns, of.duration_ns), (3, 300, 3 * SECOND + 5, 10 * SECOND));
    assert_eq!(
        (pattern.pids, pattern.path.unwrap(), pattern.detail),
        (vec![2, 1], b"/c/2.pt".to_vec(), "name, fsync".to_owned())
    );
}

#[test]
fn a_renamed_output_is_told_of_when_it_costs() {
    let save = |rule, stall_ns| {
        let mut saved = trace(Vec::new());
        saved.files.checkpoints =
            vec![Checkpoint { rules: vec![rule, "rename"], stall_ns, ..Checkpoint::default() }];
        saved
    };
    assert!(found(&save("name", 1), "checkpoint_writes").is_some());
    assert!(found(&save("large write", SECOND / 10), "checkpoint_writes").is_some());
    assert_eq!(found(&save("large write", SECOND / 11), "checkpoint_writes"), None);
}

#[test]
fn remote_storage_is_what_is_waited_for_and_not_local() {
    let on = |backing, wait| FileSystem {
        mount_point: b"/m".to_vec(),
        fs_type: "nfs4".to_owned(),
        backing,
        totals: FileTotals { read_wait_ns: wait, ..FileTotals::default() },
        ..FileSystem::default()
    };
    let of = |list| {
        let mut trace = trace(Vec::new());
        trace.files.file_systems = list;
        patterns(&trace)
    };
    let found = of(vec![on("network", SECOND), on("block", SECOND)]);
    assert_eq!((found.len(), found[0].path.as_deref()), (1, Some(&b"/m"[..])));
    assert_eq!(found[0].detail, "nfs4, behind it a server");
    assert!(of(vec![on("block", SECOND), on("memory", SECOND), on("unknown", SECOND)]).is_empty());
    assert!(of(vec![on("fuse", SECOND), on("block", 20 * SECOND)]).is_empty(), "a twentieth of the wait");
    assert!(of(vec![on("network", 1_000_000)]).is_empty(), "a millisecond");
}

#[test]
fn at_most_eight_processes_are_named_and_none_with_a_small_part() {
    let all = trace((1..=30).map(|pid| ordered(pid, if pid <= 12 { 1_000 } else { 1 }, 0, 0)).collect());
    assert_eq!(patterns(&all)[0].pids, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn every_kind_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = KINDS.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), KINDS.len());
}
