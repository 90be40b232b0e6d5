//! A disk whose latency is known: the null_blk module, in virtual machines.

use iotrace_live::module::NullBlk;
use iotrace_live::{Need, Report, live, num};

/// Loads null_blk with a completion timer of `latency_ns` (irqmode=2) and traces direct reads of it.
fn direct_reads(live: &iotrace_live::Live, null_blk: &NullBlk, count: &str, threads: &str) -> (Report, u64) {
    let path = NullBlk::PATH;
    let args =
        ["dio", "--file", path, "--rw", "read", "--size", "4096", "--count", count, "--threads", threads];
    let (report, truth) =
        live.run().args(["--device", &null_blk.disk.name]).workload(args).outcome().assert_truth();
    report.assert_block_ledger();
    (report, num(&truth, "/processes/0/pid"))
}

fn parameters(latency_ns: u64, depth: u32) -> String {
    format!(
        "nr_devices=1 gb=1 bs=4096 queue_mode=2 submit_queues=1 hw_queue_depth={depth} irqmode=2 \
         completion_nsec={latency_ns}"
    )
}

fn p50_is_the_latency(live: &iotrace_live::Live, latency_ns: u64, count: &str) {
    let null_blk = match NullBlk::load(&parameters(latency_ns, 64)) {
        Ok(null_blk) => null_blk,
        Err(reason) => return live.skip(&reason),
    };
    let (report, pid) = direct_reads(live, &null_blk, count, "1");
    let process = report.process(pid);
    assert_eq!(process.num("/block/read/count").to_string(), count);
    let p50 = process.num("/block/read/device/p50");
    // The timer interrupt that ends a request reaches an emulated CPU late: by 50 to 150 us, measured.
    const TIMER_NS: u64 = 200_000;
    let (low, high) = (latency_ns * 9 / 10, latency_ns * 11 / 10 + TIMER_NS);
    assert!((low..=high).contains(&p50), "p50 of device is {p50} ns, not {latency_ns} within 10 %");
}

#[test]
fn a_disk_of_one_millisecond_has_a_p50_of_one_millisecond() {
    let Some(live) = live!(Need::Vm) else { return };
    p50_is_the_latency(&live, 1_000_000, "300");
}

#[test]
fn a_disk_of_ten_milliseconds_has_a_p50_of_ten_milliseconds() {
    let Some(live) = live!(Need::Vm) else { return };
    p50_is_the_latency(&live, 10_000_000, "100");
}

#[test]
fn what_a_full_queue_adds_is_queue_time_not_device_time() {
    let Some(live) = live!(Need::Vm) else { return };
    const LATENCY_NS: u64 = 5_000_000;
    let null_blk = match NullBlk::load(&parameters(LATENCY_NS, 1)) {
        Ok(null_blk) => null_blk,
        Err(reason) => return live.skip(&reason),
    };
    // Without a scheduler, a thread waits for the one tag before it has a request at all: no queue to measure.
    let schedulers = ["mq-deadline", "kyber", "bfq"];
    if !schedulers.iter().any(|scheduler| null_blk.disk.set_queue("scheduler", scheduler).is_ok()) {
        return live.skip("no I/O scheduler in this kernel");
    }
    if let Err(error) = null_blk.disk.set_queue("nr_requests", "64") {
        return live.skip(&format!("nr_requests: {error}"));
    }
    let p50 = |threads: &str| {
        let (report, pid) = direct_reads(&live, &null_blk, "160", threads);
        let process = report.process(pid);
        (process.num("/block/read/queue/p50"), process.num("/block/read/device/p50"))
    };
    let (queue_alone, device_alone) = p50("1");
    let (queue_full, device_full) = p50("8");
    assert!(queue_alone < LATENCY_NS / 2, "alone, nothing queues: {queue_alone} ns");
    // Some 7 latencies if all threads are in step; an emulated CPU that is late keeps fewer of them waiting.
    assert!(
        queue_full > LATENCY_NS * 3 / 2,
        "8 threads at depth 1 queue for several latencies: {queue_full} ns"
    );
    assert!(
        device_full < device_alone * 5 / 4,
        "device alone {device_alone} ns, with a full queue {device_full} ns"
    );
}
