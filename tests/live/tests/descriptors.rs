//! A session is one open of one file by one process, however its descriptors are copied, inherited, passed on and closed.

use std::process::Command;

use iotrace_live::{Hold, Report, assert_conserved, assert_matches, live, num, text};
use serde_json::Value;

/// Every file once, with the reads of all who read it, and the reads of each process.
fn assert_files(report: &Report, truth: &Value, held: bool) {
    for planted in truth["files"].as_array().expect("the truth has no files") {
        let (case, seen) = (text(planted, "/case"), report.file(text(planted, "/path")));
        for (field, truth) in [("reads", "reads"), ("read_bytes", "bytes"), ("size", "size")] {
            assert_eq!(
                num(seen, &format!("/{field}")),
                num(planted, &format!("/{truth}")),
                "{case}: {field}"
            );
        }
        let early = held && planted["opened_before_go"] == true;
        // Written by the workload itself before: an open more, unless that was before the trace.
        let opens = u64::from(!early) + u64::from(!held);
        assert_eq!(num(seen, "/opens"), opens, "{case}: opens");
        for (pid, of) in planted["by_pid"].as_object().expect("by_pid") {
            let process = report.process(pid.parse().expect("a pid"));
            let reads = process.num("/files/reads");
            let alone = !case.starts_with("exec") && case != "left-open";
            // What an exec'd program reads of its libraries is not told.
            assert!(
                reads == num(of, "/reads") || !alone && reads > num(of, "/reads"),
                "{case}: {reads} reads of pid {pid}: {of}"
            );
        }
    }
    for planted in truth["processes"].as_array().expect("processes") {
        let (pid, opens) = (num(planted, "/pid"), planted["ops"]["open"]["count"].as_u64().unwrap_or(0));
        if let Some(process) = report.find(pid).filter(|process| !process.0["files"].is_null()) {
            assert_eq!(process.num("/files/opens"), opens, "pid {pid} {}: opens", process.comm());
        }
    }
}

#[test]
fn copied_inherited_and_passed_descriptors_are_one_session() {
    let Some(live) = live!() else { return };
    let (report, truth) = live.run().workload(["fds", "--dir", live.dir_arg()]).outcome().assert_truth();
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    assert_files(&report, &truth, false);
    // The heir of a fork, and the receiver of a message.
    assert_eq!(report.num("/files/sessions/open_before"), 2);
    assert_eq!(report.num("/files/sessions/open_at_end"), 0, "every process has ended");
}

#[test]
fn what_was_open_before_and_what_stays_open_is_told() {
    let Some(live) = live!() else { return };
    let mut command = Command::new(&live.workload);
    command.args(["fds", "--hold", "--dir", live.dir_arg()]);
    let mut hold = Hold::of(command);
    let trace = live.attach(["-p", &hold.pid_arg()]);
    let truth = hold.go();
    let report = trace.stop().report();
    report.assert_nothing_lost();
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    assert_matches(&report, &truth);
    assert_conserved(&report);
    assert_files(&report, &truth, true);
    assert_eq!(report.num("/files/sessions/open_before"), 3, "those two, and the one opened early");
    assert_eq!(report.num("/files/sessions/open_at_end"), 1, "the workload itself keeps one open");
    hold.end();
}
