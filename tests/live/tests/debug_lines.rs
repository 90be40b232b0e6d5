//! Lines of the kernel programs: with `-vv` they are on standard error, without it there are none.

use iotrace_live::{live, num};

/// How `tracing` shows where they come from.
const FROM_KERNEL: &str = " kernel: ";

#[test]
fn the_kernel_side_tells_what_it_does_when_asked_twice() {
    let Some(live) = live!() else { return };
    let workload = ["forms", "--calls", "5", "--dir", live.dir_arg()];
    let outcome = live.run().arg("-vv").workload(workload).outcome();
    let (_, truth) = outcome.assert_truth();
    let lines: Vec<_> = outcome.stderr.lines().filter(|line| line.contains(FROM_KERNEL)).collect();
    let pid = num(&truth, "/processes/0/pid");
    for said in [format!("process {pid} becomes a target: forked by "), format!("of process {pid} has slot ")]
    {
        assert!(lines.iter().any(|line| line.contains(&said)), "no {said:?} in {lines:#?}");
    }
}

#[test]
fn the_kernel_side_is_silent_unless_asked() {
    let Some(live) = live!() else { return };
    for options in [&[][..], &["-v"]] {
        let workload = ["forms", "--calls", "5", "--dir", live.dir_arg()];
        let outcome = live.run().args(options).workload(workload).outcome();
        outcome.assert_truth();
        assert!(!outcome.stderr.contains(FROM_KERNEL), "{options:?}: {}", outcome.stderr);
    }
}
