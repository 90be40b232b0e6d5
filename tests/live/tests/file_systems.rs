//! File systems that no block request tells of, and those that lie on others.

use std::process::Command;

use iotrace_live::{
    Hold, Report, assert_conserved, assert_in_sessions, assert_matches, live, module, num, text,
};
use serde_json::Value;

fn file_system<'a>(report: &'a Report, mount: &str) -> &'a Value {
    let known = report.list("/files/file_systems");
    known
        .iter()
        .find(|of| text(of, "/mount_point") == mount)
        .unwrap_or_else(|| panic!("no {mount} in {known:#?}"))
}

/// Why the workload could not do its work, if it could not.
fn lacking(truth: &Value) -> Option<String> {
    truth["unsupported"].as_array().map(|reasons| format!("{reasons:?}"))
}

#[test]
fn reads_of_fuse_wait_though_there_is_no_block_request() {
    let Some(live) = live!() else { return };
    if let Err(reason) = module::ensure_filesystem("fuse") {
        return live.skip(&reason);
    }
    let outcome = live.run().workload(["fuse-read", "--dir", live.dir_arg()]).outcome();
    if let Some(reason) = lacking(&outcome.truth()) {
        return live.skip(&reason);
    }
    let (report, truth) = outcome.assert_truth();
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    let planted = &truth["processes"][0];
    let reader = report.process(num(planted, "/pid"));
    let reads = num(&truth, "/daemon/served/reads");
    assert_eq!(reader.num("/ops/read/count"), reads);
    assert_eq!(reader.num("/ops/read/waited"), reads, "every read waits for the daemon");
    let least = num(&truth, "/delay_ms") * 1_000_000;
    assert!(reader.num("/ops/read/latency/min") >= least, "a read takes as long as the daemon sleeps");
    assert!(reader.num("/ops/read/wait_ns") >= reads * least * 9 / 10);
    assert_eq!(reader.num("/block/read/count"), 0);
    let of = file_system(&report, text(&truth, "/mount"));
    assert!(text(of, "/fs_type").starts_with("fuse") && text(of, "/backing") == "fuse", "{of}");
    assert_eq!(num(of, "/reads"), reads);
    for file in planted["files"].as_array().expect("files") {
        let seen = report.file(text(file, "/path"));
        assert_eq!(num(seen, "/reads"), num(file, "/reads"), "{seen}");
        assert!(num(seen, "/wait_ns") >= num(file, "/reads") * least * 9 / 10, "{seen}");
    }
    assert_in_sessions(&report, num(planted, "/pid"));
}

#[test]
fn a_read_through_an_overlay_is_one_read_of_the_overlay() {
    let Some(live) = live!() else { return };
    if let Err(reason) = module::ensure_filesystem("overlay") {
        return live.skip(&reason);
    }
    let calls = live.scaled("200", "40");
    let mut command = Command::new(&live.workload);
    command.args(["overlay", "--hold", "--calls", calls, "--dir", live.dir_arg()]);
    let hold = Hold::of(command);
    if let Some(reason) = lacking(&hold.ready) {
        return live.skip(&reason);
    }
    // Held, because a mount that is gone within one drain of the ring buffer is not seen.
    let (report, truth) = live.trace_held(hold);
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    assert_matches(&report, &truth);
    assert_conserved(&report);
    let planted = &truth["processes"][0];
    assert_in_sessions(&report, num(planted, "/pid"));
    let of = file_system(&report, text(&truth, "/mount"));
    assert_eq!((text(of, "/fs_type"), text(of, "/backing")), ("overlay", "stacked"));
    for (field, op) in [("reads", "read"), ("writes", "write")] {
        assert_eq!(num(of, &format!("/{field}")), num(planted, &format!("/ops/{op}/count")), "{field}");
    }
    for file in planted["files"].as_array().expect("files") {
        let seen = report.file(text(file, "/path"));
        assert_eq!(num(seen, "/opens"), 1, "{seen}");
        let pairs = [
            ("reads", "reads"),
            ("read_bytes", "read_bytes"),
            ("written_bytes", "write_bytes"),
            ("size", "size"),
        ];
        for (field, truth) in pairs {
            assert_eq!(num(seen, &format!("/{field}")), num(file, &format!("/{truth}")), "{field}: {seen}");
        }
    }
}
