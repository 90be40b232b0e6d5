//! Two containers at once, each with a cgroup, a pid namespace and mounts of its own: a trace of one has its calls and its
//! paths, and nothing of the other.

use std::process::Command;

use iotrace_live::{Hold, Live, Report, assert_conserved, live, module, num, text};
use serde_json::Value;

/// 64 hex digits that begin with `start` and are of this test run alone.
fn id(start: &str) -> String {
    format!("{start}{:0>width$x}", std::process::id(), width = 64 - start.len())
}

/// An overlay in a container of this id, ready to be used.
fn start(live: &Live, id: &str, calls: &str) -> Hold {
    let mut command = Command::new(&live.workload);
    command.args(["contained", "--cgroup", &format!("docker-{id}.scope"), "--"]);
    command.args(["overlay", "--hold", "--calls", calls, "--dir", live.dir_arg()]);
    Hold::of(command)
}

fn op(truth: &Value, pointer: &str) -> u64 {
    num(&truth["processes"][0], pointer)
}

/// The report has what `wanted` did, under the paths of its own mounts, and nothing of `other`.
fn assert_only(report: &Report, wanted: &Value, other: &Value) {
    report.assert_nothing_lost();
    assert_conserved(report);
    for field in ["/ops/read/count", "/ops/read/bytes", "/ops/write/count", "/ops/write/bytes"] {
        assert_eq!(report.sum(|p| !p.kernel_thread(), field), op(wanted, field), "{field}");
    }
    let (mount, foreign) = (text(wanted, "/mount"), text(other, "/mount"));
    for file in wanted["processes"][0]["files"].as_array().expect("files") {
        let seen = report.file(text(file, "/path"));
        assert_eq!(num(seen, "/reads"), num(file, "/reads"), "{seen}");
        assert_eq!(num(seen, "/written_bytes"), num(file, "/write_bytes"), "{seen}");
    }
    let systems = report.list("/files/file_systems");
    let own = systems.iter().find(|of| text(of, "/mount_point") == mount).expect("its mount");
    assert_eq!((text(own, "/fs_type"), num(own, "/reads")), ("overlay", op(wanted, "/ops/read/count")));
    let listed = report.list("/files/top").iter().chain(report.list("/files/folders"));
    for path in listed.map(|of| text(of, "/path")) {
        assert!(!path.starts_with(foreign), "{path} is the other's");
    }
}

#[test]
fn a_container_has_its_own_calls_under_its_own_paths() {
    let Some(live) = live!() else { return };
    if let Err(reason) = module::ensure_filesystem("overlay") {
        return live.skip(&reason);
    }
    for by_id in [false, true] {
        let ids = [id("c0ffee01"), id("c0ffee02")];
        let (mut one, mut two) = (start(&live, &ids[0], "100"), start(&live, &ids[1], "77"));
        if let Some(reason) = one.ready["unsupported"].as_array().or(two.ready["unsupported"].as_array()) {
            return live.skip(&format!("{reason:?}"));
        }
        let version = num(&one.ready, "/contained/cgroup/version");
        let place = |hold: &Hold| text(&hold.ready, "/contained/cgroup/dir").to_owned();
        let options = |hold: &Hold, id: &str| match by_id {
            true => ["--container".to_owned(), id[..20].to_owned()],
            false => ["--cgroup".to_owned(), place(hold)],
        };
        println!("cgroup version {version}, {:?}", options(&one, &ids[0]));
        let traces = [live.attach(options(&one, &ids[0])), live.attach(options(&two, &ids[1]))];
        let truths = [one.go(), two.go()];
        let reports = traces.map(|trace| trace.stop().report());
        if reports.iter().any(|report| report.excusable() > 0) {
            return live.skip("this kernel skipped runs of programs it had preempted");
        }
        assert_only(&reports[0], &truths[0], &truths[1]);
        assert_only(&reports[1], &truths[1], &truths[0]);
        one.end();
        two.end();
    }
}
