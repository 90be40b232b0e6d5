//! Whatever hooks the kernel allows, the numbers are the same.

use iotrace_live::{live, num};

/// By the best hooks and by those every kernel has.
#[test]
fn every_form_is_counted_once_by_either_kind_of_hook() {
    let Some(live) = live!() else { return };
    for without in ["kprobe", "fentry,kprobe,tracepoint"] {
        let run = live.run().args(["--without", without]);
        let (report, _) =
            run.workload(["forms", "--calls", "50", "--dir", live.dir_arg()]).outcome().assert_truth();
        println!("--without {without}: attached in {} ms", report.num("/overhead/attach_ns") / 1_000_000);
        let hooks = report.list("/probes").iter().find(|probe| probe["metric"] == "file calls").cloned();
        let variant = hooks.and_then(|probe| Some(probe["variant"].as_str()?.to_owned())).expect("a variant");
        assert!(
            without == "kprobe" || variant.starts_with("tp_btf sys_enter"),
            "{variant} with --without {without}"
        );
    }
}

/// Where no hook runs at the start of a request, whoever inserts or issues it is its owner: for direct I/O, the same.
#[test]
fn requests_are_counted_where_only_their_issue_is_seen() {
    let Some(live) = live!() else { return };
    let file = live.file("direct", 100 * 65536);
    let args = ["dio", "--file", &file, "--rw", "read", "--count", "100", "--size", "65536"];
    let (report, truth) =
        live.run().args(["--without", "fentry,kprobe"]).workload(args).outcome().assert_truth();
    report.assert_block_ledger();
    let process = report.process(num(&truth, "/processes/0/pid"));
    assert!(process.num("/block/read/count") > 0, "{}", report.0["probes"]);
}

/// With the lines of `-vv` in them, programs are longer: the verifier must accept the same ones.
#[test]
fn debug_lines_keep_no_program_from_loading() {
    let Some(live) = live!() else { return };
    let variants = |options: &[&str]| {
        let outcome = live.iotrace(["check", "--format", "json"]).args(options).outcome();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
        let check: serde_json::Value = serde_json::from_slice(&outcome.stdout).expect("check prints JSON");
        let metrics = check["metrics"].as_array().expect("metrics").iter();
        metrics.map(|metric| metric["variant"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    for without in ["kprobe", "fentry,kprobe,tracepoint"] {
        assert_eq!(variants(&["-vv", "--without", without]), variants(&["--without", without]));
    }
}

#[test]
fn every_call_that_moves_no_data_is_counted_once_by_either_kind_of_hook() {
    let Some(live) = live!() else { return };
    for without in ["kprobe", "fentry,kprobe"] {
        let run = live.run().args(["--without", without]);
        run.workload(["metadata", "--calls", "10", "--dir", live.dir_arg()]).outcome().assert_truth();
    }
}

/// By fentry and fexit where there is, so that a fault has a latency; else by what the kernel has.
#[test]
fn page_faults_are_counted_by_the_best_hook() {
    let Some(live) = live!() else { return };
    let args = ["mapped", "--mib", "2", "--advise", "random", "--dir", live.dir_arg()];
    let (report, truth) = live.run().args(["--without", "kprobe"]).workload(args).outcome().assert_truth();
    let hooks = report.list("/probes").iter().find(|probe| probe["metric"] == "mmap faults").cloned();
    let hooks = hooks.expect("the metric is listed");
    println!("{hooks}");
    let Some(variant) = hooks["variant"].as_str() else {
        return live.skip("this kernel has no hook on page faults but kprobes");
    };
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    let planted = &truth["processes"][0];
    let process = report.process(num(planted, "/pid"));
    let (faults, major) = (process.num("/ops/mmap_fault/count"), num(planted, "/mapped/major_faults"));
    assert!(
        faults >= major && major >= num(&truth, "/pages") / 2,
        "{variant}: {faults} faults, {major} major"
    );
    let (wait, latency) =
        (process.num("/ops/mmap_fault/wait_ns"), process.num("/ops/mmap_fault/latency/sum"));
    assert!(0 < wait && wait <= latency, "{variant}: {wait} ns waited in {latency} ns");
    assert!(process.num("/ops/mmap_fault/cached_bytes") >= num(&truth, "/bytes"), "{variant}");
}
