//! io_uring and AIO: each transfer once, with its bytes, its errno, its file and the time it took, and none in flight
//! at the end.

use std::process::Command;

use iotrace_live::module::NullBlk;
use iotrace_live::{
    Hold, Live, Need, Process, Report, assert_conserved, assert_in_sessions, assert_matches, live, num, text,
};
use serde_json::Value;

/// Holds a workload of transfers by `interface`.
fn hold(live: &Live, interface: &str, args: &[&str]) -> Hold {
    let mut command = Command::new(&live.workload);
    command.args([interface, "--hold"]).args(args);
    Hold::of(command)
}

/// Traces held workloads, one after the other, in one trace; nothing may be lost. The report and the truths.
fn trace(live: &Live, mut holds: Vec<Hold>) -> (Report, Vec<Value>) {
    let pids = holds.iter().flat_map(|hold| ["-p".to_owned(), hold.pid_arg()]);
    let trace = live.attach(pids);
    let truths = holds.iter_mut().map(Hold::go).collect();
    let report = trace.stop().report();
    holds.into_iter().for_each(|hold| drop(hold.end()));
    report.assert_nothing_lost();
    (report, truths)
}

/// Why these transfers cannot be followed here. Then none of them may have been counted.
fn lacking(report: &Report, truth: &Value) -> Option<String> {
    let planted = &truth["processes"][0];
    if let Some(reason) = planted["reason"].as_str() {
        return Some(reason.to_owned());
    }
    let probe = report.list("/probes").iter().find(|probe| probe["metric"] == "io_uring");
    let probe = probe.expect("the report tells how io_uring was traced");
    if text(truth, "/workload") != "uring" || !probe["variant"].is_null() {
        return None;
    }
    let process = report.process(num(planted, "/pid"));
    let counted = ["read", "write"].map(|op| process.num(&format!("/ops/{op}/count")));
    assert_eq!(counted, [0, 0], "reads and writes by an io_uring that is not traced");
    Some(format!("io_uring is not traced: {}", text(probe, "/reason")))
}

/// Traces held workloads and checks each against its truth, and that nothing is in flight at the end. `None`: skipped.
fn followed(live: &Live, holds: Vec<Hold>) -> Option<(Report, Vec<Value>)> {
    let (report, truths) = trace(live, holds);
    if let Some(reason) = lacking(&report, &truths[0]) {
        live.skip(&reason);
        return None;
    }
    truths.iter().for_each(|truth| assert_matches(&report, truth));
    if report.excusable() > 0 {
        live.skip("this kernel skipped runs of programs it had preempted");
        return None;
    }
    assert_conserved(&report);
    assert_none_in_flight(&report);
    Some((report, truths))
}

/// Checks that every transfer and every request has ended.
fn assert_none_in_flight(report: &Report) {
    let in_flight = ["Asynchronous transfers not seen to complete", "Calls on files still in progress"];
    for note in report.list("/notes").iter().filter_map(Value::as_str) {
        assert!(!in_flight.iter().any(|start| note.starts_with(start)), "{note}");
    }
    report.assert_block_ledger();
}

/// Checks that the latencies lie within what the workload took from before each submission to its being reaped.
fn assert_within(process: &Process<'_>, planted: &Value, op: &str) {
    let seen = |field: &str| process.num(&format!("/ops/{op}/latency/{field}"));
    let took = |field: &str| num(planted, &format!("/latency/{field}"));
    // The truth's mean is cut to whole nanoseconds.
    let (sum, bound) = (seen("sum"), (took("mean_ns") + 1) * took("count"));
    println!("{op}: {} ns a transfer of {} ns in the workload", sum / seen("count"), took("mean_ns"));
    assert!(sum <= bound && seen("max") <= took("max_ns"), "{sum} ns of {bound}, longest {} ns", seen("max"));
}

/// Checks one workload's transfers against its truth.
fn assert_planted(report: &Report, truth: &Value) {
    let (planted, op) = (&truth["processes"][0], text(truth, "/op"));
    let pid = num(planted, "/pid");
    let process = report.process(pid);
    let (count, bytes) = (num(truth, "/count"), num(truth, "/count") * num(truth, "/size"));
    let of = |field: &str| process.num(&format!("/ops/{op}/{field}"));
    assert_eq!((of("count"), of("bytes"), of("latency/count")), (count, bytes, count), "{truth}");
    assert_in_sessions(report, pid);
    assert_within(&process, planted, op);
    let file = report.file(text(truth, "/path"));
    let seen = ["reads", "read_bytes", "written_bytes"].map(|field| num(file, &format!("/{field}")));
    let expected = if op == "read" { [count, bytes, 0] } else { [0, 0, bytes] };
    assert_eq!(seen, expected, "[reads, read_bytes, written_bytes] of {file}");
    assert_eq!(num(file, "/pid"), process.num("/pid"), "{file}");
}

/// Reads and writes, through the page cache and past it, each by a process of its own.
fn transfers_are_counted(live: &Live, interface: &str) {
    let (count, depth) = (live.scaled("500", "100"), "8");
    let kinds: [&[&str]; 4] = [&[], &["--write"], &["--direct"], &["--direct", "--write"]];
    let base = ["--dir", live.dir_arg(), "--reads", count, "--size", "16384", "--depth", depth];
    let holds = kinds.map(|kind| hold(live, interface, &[&base, kind].concat()));
    let Some((report, truths)) = followed(live, holds.into()) else { return };
    truths.iter().for_each(|truth| assert_planted(&report, truth));
}

#[test]
fn each_transfer_by_io_uring_is_one_read_or_write() {
    let Some(live) = live!() else { return };
    transfers_are_counted(&live, "uring");
}

#[test]
fn each_transfer_by_aio_is_one_read_or_write() {
    let Some(live) = live!() else { return };
    transfers_are_counted(&live, "aio");
}

/// Reads that fail once they are submitted; a descriptor that is not open is no file, and its reads are not counted.
fn failures_are_counted(live: &Live, interface: &str) {
    let args = ["--dir", live.dir_arg(), "--reads", "8", "--failing", "20", "--direct"];
    let Some((report, truths)) = followed(live, vec![hold(live, interface, &args)]) else { return };
    assert_in_sessions(&report, num(&truths[0], "/processes/0/pid"));
}

#[test]
fn reads_by_io_uring_that_fail_are_counted_under_their_errno() {
    let Some(live) = live!() else { return };
    failures_are_counted(&live, "uring");
}

#[test]
fn reads_by_aio_that_fail_are_counted_under_their_errno() {
    let Some(live) = live!() else { return };
    failures_are_counted(&live, "aio");
}

/// One at a time: what waits for another's end is not the disk's time.
fn p50_is_the_disk_s(live: &Live, interface: &str) {
    const LATENCY_NS: u64 = 10_000_000;
    const COUNT: u64 = 100;
    let parameters = format!(
        "nr_devices=1 gb=1 bs=4096 queue_mode=2 submit_queues=1 irqmode=2 completion_nsec={LATENCY_NS}"
    );
    let _null_blk = match NullBlk::load(&parameters) {
        Ok(null_blk) => null_blk,
        Err(reason) => return live.skip(&reason),
    };
    let count = COUNT.to_string();
    let args = ["--file", NullBlk::PATH, "--direct", "--size", "4096", "--depth", "1", "--reads", &count];
    let (report, truths) = trace(live, vec![hold(live, interface, &args)]);
    if let Some(reason) = lacking(&report, &truths[0]) {
        return live.skip(&reason);
    }
    assert_matches(&report, &truths[0]);
    let planted = &truths[0]["processes"][0];
    let process = report.process(num(planted, "/pid"));
    if report.excusable() == 0 {
        assert_within(&process, planted, "read");
    }
    let [min, p50] = ["min", "p50"].map(|field| process.num(&format!("/ops/read/latency/{field}")));
    println!(
        "{interface}: min {min} ns, p50 {p50} ns, of the device {} ns",
        process.num("/block/read/device/p50")
    );
    // The timer interrupt that ends a request reaches an emulated CPU late: by 50 to 150 us, measured.
    const TIMER_NS: u64 = 200_000;
    let (low, high) = (LATENCY_NS * 9 / 10, LATENCY_NS * 11 / 10 + TIMER_NS);
    // The smallest is exact; p50 is the middle of a bucket.
    for (what, ns) in [("min", min), ("p50", p50)] {
        assert!((low..=high).contains(&ns), "{what} is {ns} ns, not {LATENCY_NS} within 10 %");
    }
    assert_none_in_flight(&report);
}

#[test]
fn a_read_by_io_uring_takes_what_the_disk_takes_not_what_its_submission_does() {
    let Some(live) = live!(Need::Vm) else { return };
    p50_is_the_disk_s(&live, "uring");
}

#[test]
fn a_read_by_aio_takes_what_the_disk_takes_not_what_its_submission_does() {
    let Some(live) = live!(Need::Vm) else { return };
    p50_is_the_disk_s(&live, "aio");
}
