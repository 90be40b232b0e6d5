//! Under load nothing is lost, and what it costs stays bounded.

use std::process::Command;

use iotrace_live::{Hold, live, num};

#[test]
fn sixty_four_threads_at_full_rate_lose_nothing() {
    let Some(live) = live!() else { return };
    let seconds = std::env::var("IOTRACE_LOAD_SECONDS").unwrap_or_else(|_| "5".into());
    let args = ["readers", "--procs", "8", "--threads", "8", "--seconds", &seconds, "--dir", live.dir_arg()];
    let (report, truth) = live.run().workload(args).outcome().assert_truth();
    report.assert_block_ledger();
    assert_eq!(truth["processes"].as_array().map(Vec::len), Some(8));
}

#[test]
fn readers_and_synchronous_writers_at_once_lose_nothing() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&["--threads", "8", "--calls", live.scaled("20000", "2000")]);
    let trace = live.attach(["-a"]);
    let mut writers = Command::new(&live.workload);
    writers.args(["writers", "--procs", "8", "--mib", "2", "--dsync", "--dir", live.dir_arg()]);
    let writers = writers.stdout(std::process::Stdio::piped()).spawn().expect("start the writers");
    let reads = hold.go();
    let writers = writers.wait_with_output().expect("wait for the writers");
    let writes: serde_json::Value = serde_json::from_slice(&writers.stdout).expect("the writers' truth");
    let report = trace.stop().report();
    report.assert_nothing_lost();
    report.assert_block_ledger();
    [reads, writes].iter().for_each(|truth| iotrace_live::assert_matches(&report, truth));
    hold.end();
}

#[test]
fn a_system_of_ten_thousand_processes_fits() {
    let Some(live) = live!() else { return };
    if live.vm().is_some() {
        return live.skip("a virtual machine has not the memory for 10 000 processes");
    }
    let free: u64 = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|l| l.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok())
        })
        .unwrap_or(0);
    if free < 4 << 20 {
        return live.skip(&format!("10 000 processes need 4 GiB of memory; {free} KiB are free"));
    }
    let mut command = Command::new(&live.workload);
    command.args(["crowd", "--count", "10000", "--dir", live.dir_arg()]);
    let crowd = Hold::of(command);
    let trace = live.attach(["-a"]);
    let truth = crowd.end().expect("the crowd's truth");
    let report = trace.stop().report();
    report.assert_nothing_lost();
    let members = report.named("crowd");
    assert_eq!(members.len() as u64, num(&truth, "/children"));
    let reads: u64 = members.iter().map(|p| p.num("/ops/read/count")).sum();
    assert_eq!(reads, num(&truth, "/reads"));
    let rss = report.num("/overhead/max_rss_bytes");
    assert!(rss < 40 << 20, "iotrace took {} MiB", rss >> 20);
}
