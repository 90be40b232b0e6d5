//! Operations that move no data: every call once, by its form, with its errno, by the process that made it.

use iotrace_live::{live, num, text};
use serde_json::Value;

#[test]
fn every_call_of_every_form_is_counted_once() {
    let Some(live) = live!() else { return };
    let args = ["metadata", "--calls", live.scaled("100", "20"), "--dir", live.dir_arg()];
    let (report, truth) = live.run().workload(args).outcome().assert_truth();
    let process = report.process(num(&truth, "/processes/0/pid"));
    for op in ["open", "stat", "getdents", "rename", "unlink", "fsync", "close", "truncate"] {
        let count = process.num(&format!("/ops/{op}/count"));
        assert!(count >= num(&truth, "/calls"), "{op}: nothing planted");
    }
}

#[test]
fn the_first_failure_of_a_kind_is_told_with_its_path() {
    let Some(live) = live!() else { return };
    let (report, truth) =
        live.run().workload(["metadata", "--calls", "20", "--dir", live.dir_arg()]).outcome().assert_truth();
    let (pid, dir) = (num(&truth, "/processes/0/pid"), text(&truth, "/dir"));
    let pid = report.process(pid).num("/pid");
    let failures = report.list("/files/failures");
    let of_process: Vec<&Value> = failures.iter().filter(|failure| num(failure, "/pid") == pid).collect();
    let find = |op: &str, errno: &str| {
        let found = of_process.iter().find(|f| text(f, "/op") == op && text(f, "/errno") == errno);
        found.unwrap_or_else(|| panic!("no {op} {errno} in {of_process:?}"))
    };
    for (op, errno, name) in [
        ("open", "ENOENT", "absent"),
        ("open", "EEXIST", "file"),
        ("open", "ENOTDIR", "file/below"),
        ("stat", "ENOENT", "absent"),
    ] {
        let failure = find(op, errno);
        assert_eq!(text(failure, "/path"), format!("{dir}/{name}"), "{op} {errno}");
        assert_eq!(num(failure, "/count"), 20, "{op} {errno}");
    }
    // A call by descriptor has no path; that of an earlier call is not its own.
    assert!(of_process.iter().all(|failure| text(failure, "/op") != "close"), "{of_process:?}");
}
