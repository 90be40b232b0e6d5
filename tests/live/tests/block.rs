//! Block requests: how many, how large, whose, on which device.

use iotrace_live::device::{Disk, Loop, extents};
use iotrace_live::{Process, Report, live, num, text};
use serde_json::Value;

const COUNT: u64 = 1000;
const SIZE: u64 = 65_536;

/// Requests and bytes of `op` on `disk` by one process, metadata left out.
fn on_disk(process: &Process<'_>, disk: &Disk, op: &str) -> (u64, u64) {
    let of_op = |d: &&Value| disk.is_of(d) && text(d, "/op") == op && d["meta"] == false;
    process.block_detail().iter().filter(of_op).fold((0, 0), |(count, bytes), detail| {
        (count + num(detail, "/stats/count"), bytes + num(detail, "/stats/bytes"))
    })
}

fn planted<'a>(report: &'a Report, truth: &Value) -> Process<'a> {
    report.process(num(truth, "/processes/0/pid"))
}

/// Checks bytes to the byte. On some virtual machines the interrupt that ends a request is not traced when it hits an
/// idle CPU; where that was a request's last sight, it counts as in flight, and its bytes (at most `largest`) are missing.
fn assert_bytes(report: &Report, bytes: u64, truth: u64, largest: u64) {
    let unseen = report.block("in_flight_at_end") + report.skipped_runs();
    let all_but = truth.saturating_sub(unseen * largest);
    assert!(
        (all_but..=truth).contains(&bytes),
        "{bytes} bytes of {truth}, {unseen} requests not seen to end"
    );
}

/// Checks that every request of `op` has its size and each phase, but for the end of those whose end was not seen.
fn assert_phases(report: &Report, process: &Process<'_>, op: &str) {
    let number = |field: &str| process.num(&format!("/block/{op}/{field}"));
    let count = number("count");
    assert_eq!((number("errors"), number("size/count"), number("queue/count")), (0, count, count), "{op}");
    for phase in ["device", "total"] {
        let seen = number(&format!("{phase}/count"));
        assert!(
            seen <= count && seen + report.block("abandoned") >= count,
            "{op}: {seen} of {count} in {phase}"
        );
    }
}

fn direct_io_on_a_file(live: &iotrace_live::Live, rw: &str) {
    let Some(disk) = Disk::of(live.dir()) else {
        return live.skip("the scratch folder is on no one disk");
    };
    let file = live.file("direct", COUNT * SIZE);
    let pieces = extents(file.as_ref()).expect("count the extents");
    let args = ["dio", "--file", &file, "--rw", rw, "--count", "1000", "--size", "65536"];
    let (report, truth) = live.run().workload(args).outcome().assert_truth();
    let process = planted(&report, &truth);
    let (count, bytes) = on_disk(&process, &disk, rw);
    // A transfer that crosses from one extent to the next is two requests, and two that touch may be merged.
    let merged = report.block("merged_bios") + report.block("merged_requests");
    let unseen = report.block("in_flight_at_end") + report.skipped_runs();
    assert!(
        count <= COUNT + pieces && count + merged + unseen >= COUNT,
        "{count} requests, {pieces} extents, {merged} merged, {unseen} not seen to end"
    );
    assert_bytes(&report, bytes, COUNT * SIZE, SIZE);
    assert_phases(&report, &process, rw);
    report.assert_block_ledger();
}

#[test]
fn a_thousand_direct_reads_are_a_thousand_requests_of_the_reader() {
    let Some(live) = live!() else { return };
    direct_io_on_a_file(&live, "read");
}

#[test]
fn a_thousand_direct_writes_are_a_thousand_requests_of_the_writer() {
    let Some(live) = live!() else { return };
    direct_io_on_a_file(&live, "write");
}

#[test]
fn direct_io_on_a_loop_device_is_counted_exactly() {
    let Some(live) = live!() else { return };
    let file = live.file("backing", COUNT * SIZE);
    let device = match Loop::over(file.as_ref()) {
        Ok(device) => device,
        Err(reason) => return live.skip(&reason),
    };
    let path = device.path.to_str().expect("UTF-8");
    for rw in ["read", "write"] {
        let args = ["dio", "--file", path, "--rw", rw, "--count", "1000", "--size", "65536"];
        let (report, truth) = live.run().workload(args).outcome().assert_truth();
        let process = planted(&report, &truth);
        let (count, bytes) = on_disk(&process, &device.disk, rw);
        assert!(
            count <= COUNT && count + (report.block("in_flight_at_end") + report.skipped_runs()) >= COUNT,
            "{rw}: {count} requests"
        );
        assert_eq!(bytes, count * SIZE, "{rw}");
        assert_phases(&report, &process, rw);
        let size = |field: &str| process.num(&format!("/block/{rw}/size/{field}"));
        assert_eq!((size("min"), size("max")), (SIZE, SIZE), "{rw}: every request is {SIZE} bytes");
        let phase = |phase: &str| process.num(&format!("/block/{rw}/{phase}/sum"));
        assert!(phase("device") > 0 && phase("total") >= phase("queue"), "{rw}: phases have a length");
        report.assert_block_ledger();
    }
}

#[test]
fn block_requests_alone_are_counted_as_exactly_and_no_reads() {
    let Some(live) = live!() else { return };
    let file = live.file("backing", COUNT * SIZE);
    let device = match Loop::over(file.as_ref()) {
        Ok(device) => device,
        Err(reason) => return live.skip(&reason),
    };
    let path = device.path.to_str().expect("UTF-8");
    let args = ["dio", "--file", path, "--rw", "read", "--count", "1000", "--size", "65536"];
    let (report, truth) = live.run().arg("--block-only").workload(args).outcome().clean();
    let process = planted(&report, &truth);
    let (count, bytes) = on_disk(&process, &device.disk, "read");
    let unseen = report.block("in_flight_at_end") + report.skipped_runs();
    assert!(count <= COUNT && count + unseen >= COUNT, "{count} requests, {unseen} not seen to end");
    assert_eq!(bytes, count * SIZE);
    assert_phases(&report, &process, "read");
    report.assert_block_ledger();
    // The process tree is there, too.
    assert_eq!((process.comm(), process.num("/ppid")), ("dio", num(&truth, "/processes/0/ppid")));

    let calls = |op: &str| report.sum(|_| true, &format!("/ops/{op}/count"));
    assert_eq!((calls("read"), calls("write")), (0, 0), "reads and writes are not traced");
    let reads = report.list("/probes").iter().find(|probe| probe["metric"] == "file calls");
    assert!(
        reads.is_some_and(|p| p["variant"].is_null() && text(p, "/reason").contains("--block-only")),
        "{reads:?}"
    );
    let programs: Vec<_> = report.list("/overhead/programs").iter().map(|p| text(p, "/name")).collect();
    let of_block = |name: &&str| {
        ["block_", "sched_process_", "account_", "start_at_"].iter().any(|p| name.starts_with(p))
    };
    assert!(programs.iter().all(of_block), "programs besides: {programs:?}");
}

#[test]
fn a_report_of_block_requests_alone_does_not_claim_that_there_are_no_reads() {
    let Some(live) = live!() else { return };
    let file = live.file("cached", 4096);
    let outcome = live.iotrace(["run", "--block-only"]).args(["--", "cat", file.as_str()]).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    // `cat` prints zeroes before the report.
    let text = outcome.stdout_text();
    assert!(text.contains("left out") && text.contains("--block-only"), "{text}");
    assert!(!text.contains("No storage I/O") && !text.contains("Reads and writes by process"), "{text}");
}

#[test]
fn the_device_filter_keeps_one_disk() {
    let Some(live) = live!() else { return };
    let file = live.file("backing", 100 * SIZE);
    let device = match Loop::over(file.as_ref()) {
        Ok(device) => device,
        Err(reason) => return live.skip(&reason),
    };
    let path = device.path.to_str().expect("UTF-8");
    let args = ["dio", "--file", path, "--rw", "read", "--count", "100"];
    let (report, truth) = live.run().args(["--device", &device.disk.name]).workload(args).outcome().clean();
    assert_eq!(on_disk(&planted(&report, &truth), &device.disk, "read"), (100, 100 * SIZE));
    let names: Vec<_> = report.list("/devices").iter().map(|d| text(d, "/name")).collect();
    assert_eq!(names, [device.disk.name.as_str()], "requests of the disk below are filtered out");
}

/// Every request that was started was issued once and again for each requeue, but for those that were merged whole into
/// a neighbour, that only flush the device's cache (the flush machinery issues for many at once), or that the end of
/// the trace cut off.
fn assert_issues(report: &Report) {
    let block = |counter| report.block(counter);
    let unissued = (block("started") + block("requeued"))
        .checked_sub(block("issued") + block("merged_requests"))
        .unwrap_or_else(|| panic!("more issues than starts and requeues: {}", report.0["block"]));
    let excused = report.block_total("flush", "count")
        + block("in_flight_at_end")
        + block("abandoned")
        + report.skipped_runs();
    assert!(unissued <= excused, "{unissued} starts never issued, {excused} excused: {}", report.0["block"]);
}

fn writers(live: &iotrace_live::Live, more: &[&str]) -> Option<Report> {
    let disk = Disk::of(live.dir()).or_else(|| {
        live.skip("the scratch folder is on no one disk");
        None
    })?;
    let mib = live.scaled("8", "2");
    let args = ["writers", "--procs", "32", "--mib", mib, "--dir", live.dir_arg()];
    let (report, truth) = live.run().workload(args.iter().chain(more)).outcome().assert_truth();
    report.assert_block_ledger();
    assert_issues(&report);

    // Not write-back: somebody waits for it (sync). The journal's own thread writes the file system's metadata.
    let journal = |p: &Process<'_>| p.comm().starts_with("jbd2/") || p.comm().starts_with("xfs");
    let requests = |p: &Process<'_>| -> u64 {
        let of_file = |d: &&Value| {
            disk.is_of(d) && text(d, "/op") == "write" && d["sync"] == true && d["meta"] == false
        };
        p.block_detail().iter().filter(of_file).map(|d| num(d, "/stats/count")).sum()
    };
    let (mut by_kernel, mut by_writers) = (0, 0);
    for process in report.processes().filter(|p| !journal(p)) {
        *(if process.kernel_thread() { &mut by_kernel } else { &mut by_writers }) += requests(&process);
    }
    assert!(by_writers + report.skipped_runs() >= 32, "{by_writers} requests by 32 writers");
    assert!(
        by_kernel * 20 < by_kernel + by_writers,
        "{by_kernel} by kernel threads, {by_writers} by the writers"
    );
    let bytes = report.block_total("write", "bytes");
    let truth = num(&truth, "/bytes");
    let unseen = report.block("in_flight_at_end") + report.skipped_runs();
    assert!(
        bytes >= truth || unseen > 0,
        "{bytes} bytes reached the device of {truth}, {unseen} requests not seen to end"
    );
    Some(report)
}

#[test]
fn writes_that_are_fsynced_belong_to_their_writers() {
    let Some(live) = live!() else { return };
    writers(&live, &[]);
}

#[test]
fn synchronous_writes_belong_to_their_writers() {
    let Some(live) = live!() else { return };
    writers(&live, &["--dsync"]);
}

#[test]
fn small_files_read_cold_come_from_the_device_once() {
    let Some(live) = live!() else { return };
    let Some(disk) = Disk::of(live.dir()) else {
        return live.skip("the scratch folder is on no one disk");
    };
    let files = live.scaled("1000", "200");
    let args = ["small-files", "--dir", live.dir_arg(), "--files", files, "--workers", "4"];
    let (report, truth) = live.run().workload(args).outcome().assert_truth();
    for worker in report.named("pt_data_worker") {
        let (_, bytes) = on_disk(&worker, &disk, "read");
        let (files, sizes) = (worker.num("/file_size/count"), worker.num("/file_size/sum"));
        let seen = bytes >= sizes || (report.block("in_flight_at_end") + report.skipped_runs()) > 0;
        assert!(seen, "{bytes} bytes from the device for {sizes} of files: {}", report.0["block"]);
        assert!(bytes <= sizes + files * 4096, "{bytes} bytes from the device for {sizes} in {files} files");
    }
    assert_eq!(report.named("pt_data_worker").len(), 4);
    assert!(num(&truth, "/bytes") > 0);
}
