//! Whose I/O it is: short-lived processes, namespaces, threads, descendants.

use std::process::Command;

use iotrace_live::{Attach, Hold, Need, assert_matches, live, num, num_or_zero, text};
use serde_json::Value;

#[test]
fn five_thousand_short_lived_processes_are_all_counted() {
    let Some(live) = live!() else { return };
    let file = live.file("to-read", 100_000);
    let (count, seconds) = live.scaled(("5000", "10"), ("200", "4"));
    let outcome =
        live.run().workload(["spawn", "--count", count, "--seconds", seconds, "--file", &file]).outcome();
    let (report, truth) = outcome.clean();
    if report.excusable() > 0 {
        let skipped = report.excusable();
        return live.skip(&format!("this kernel skipped {skipped} runs of programs it had preempted"));
    }
    let spawner = report.process(num(&truth, "/pid")).num("/pid");
    for (name, children) in truth["names"].as_object().expect("names") {
        let found = report.named(name);
        assert_eq!(Some(found.len() as u64), children.as_u64(), "processes named {name}");
        for child in found {
            assert!(child.exited(), "{name} {} has ended", child.pid());
            assert_eq!(child.num("/ppid"), spawner, "parent of {name} {}", child.pid());
            let (reads, bytes) = (child.num("/ops/read/count"), child.num("/ops/read/bytes"));
            let (reads_each, bytes_each) = (num(&truth, "/reads_each"), num(&truth, "/bytes_each"));
            if name == "short-cat" && truth["static"] != true {
                // The loader reads the headers of the shared libraries.
                assert!(reads >= reads_each && bytes >= bytes_each, "{name} {}: {reads} reads", child.pid());
            } else {
                assert_eq!((reads, bytes), (reads_each, bytes_each), "{name} {}", child.pid());
            }
        }
    }
}

#[test]
fn every_thread_and_descendant_of_a_running_process_is_traced() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&["--threads", "3", "--before", "2", "--after", "2"]);
    let trace = live.attach(["-p", &hold.pid_arg()]);
    let truth = hold.go();
    let outcome = trace.stop();
    let report = outcome.report();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    report.assert_nothing_lost();
    assert_eq!(truth["processes"].as_array().map(Vec::len), Some(1 + 2 + 2 * 2));
    assert_matches(&report, &truth);
    assert!(!report.process(hold.pid().into()).exited(), "the process outlives the trace");
    hold.end();
}

#[test]
fn descendants_can_be_left_out() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&["--threads", "3", "--before", "1", "--after", "1"]);
    let trace = live.attach(["--no-follow", "-p", &hold.pid_arg()]);
    let truth = hold.go();
    let report = trace.stop().report();
    let pid = u64::from(hold.pid());
    let reads = report.process(pid).num("/ops/read/count");
    assert!(reads <= 800 && reads + report.excusable() >= 800, "{reads} reads by 4 threads");
    for planted in truth["processes"].as_array().expect("processes").iter().filter(|p| num(p, "/pid") != pid)
    {
        let reads = report.find(num(planted, "/pid")).map_or(0, |p| p.num("/ops/read/count"));
        assert_eq!(reads, 0, "reads of {planted}");
    }
    hold.end();
}

#[test]
fn two_pids_are_two_targets() {
    let Some(live) = live!() else { return };
    let (mut one, mut two, mut other) = (live.hold(&[]), live.hold(&["--calls", "77"]), live.hold(&[]));
    let trace = live.attach(["-p", &one.pid_arg(), "-p", &two.pid_arg()]);
    let truths = [one.go(), two.go()];
    other.go();
    let report = trace.stop().report();
    truths.iter().for_each(|truth| assert_matches(&report, truth));
    let foreign = report.find(other.pid().into()).map_or(0, |p| p.num("/ops/read/count"));
    assert_eq!(foreign, 0, "reads of a process that is no target");
    for hold in [one, two, other] {
        hold.end();
    }
}

#[test]
fn a_process_that_ends_in_the_trace_keeps_its_numbers() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&[]);
    let pid = hold.pid();
    let trace = live.attach(["-p", &hold.pid_arg()]);
    let truth = hold.go();
    hold.end();
    let outcome = trace.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    assert_matches(&outcome.report(), &truth);
    assert!(outcome.report().process(pid.into()).exited());
}

#[test]
fn the_whole_system_is_everybody() {
    let Some(live) = live!() else { return };
    let (mut one, mut two) = (live.hold(&["--after", "1"]), live.hold(&[]));
    let trace = live.attach(["-a"]);
    let truths = [one.go(), two.go()];
    let report = trace.stop().report();
    report.assert_nothing_lost();
    truths.iter().for_each(|truth| assert_matches(&report, truth));
    for hold in [one, two] {
        hold.end();
    }
}

#[test]
fn a_duration_ends_the_trace() {
    let Some(live) = live!() else { return };
    let outcome = live.iotrace(["attach", "-a", "-d", "2s", "--format", "json"]).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let duration = outcome.report().num("/trace/duration_ns");
    assert!((1_900_000_000..4_000_000_000).contains(&duration), "{duration} ns");
}

#[test]
fn a_cgroup_is_the_processes_in_it() {
    let Some(live) = live!() else { return };
    let Some(cgroup) = Cgroup::new() else {
        return live.skip("no cgroup2 hierarchy to make a group in");
    };
    let (mut inside, mut outside) = (live.hold(&["--after", "1"]), live.hold(&[]));
    cgroup.take(inside.pid());
    let trace = live.attach(["--cgroup", &cgroup.path]);
    let truth = inside.go();
    outside.go();
    let report = trace.stop().report();
    assert_matches(&report, &truth);
    let foreign = report.find(outside.pid().into()).map_or(0, |p| p.num("/ops/read/count"));
    assert_eq!(foreign, 0, "reads of a process outside");
    for hold in [inside, outside] {
        hold.end();
    }
}

#[test]
fn a_process_in_a_container_has_two_pids() {
    let Some(live) = live!() else { return };
    let file = live.file("to-read", 300_000);
    let workload = live.workload.to_str().expect("UTF-8");
    let args = ["container", "--", workload, "cat", &file];
    let (report, truth) = live.run().workload(args).outcome().clean();
    assert_eq!(num(&truth, "/pid"), 1, "the container's first process");
    let inside: Vec<_> = report.processes().filter(|p| p.num("/ns_pid") == 1 && p.num("/pid") != 1).collect();
    assert_eq!(inside.len(), 1, "processes that are pid 1 of a namespace");
    let reads = inside[0].num("/ops/read/bytes");
    assert!(reads >= num(&truth, "/processes/0/ops/read/bytes"), "{reads} bytes");
}

#[test]
fn inside_a_container_its_pids_are_meant() {
    let Some(live) = live!(Need::Root) else { return };
    let workload = live.workload.to_str().expect("UTF-8").to_owned();
    let mut command = Command::new(&workload);
    command.args(["container", "--", &workload, "hold", "--dir", live.dir_arg()]);
    let mut hold = Hold::of(command);
    let outer = child_of(hold.pid());
    let inner = num(&hold.ready, "/pid");
    assert_eq!(inner, 1);
    let mut command = Command::new(&workload);
    command.args(["enter", "--pid", &outer.to_string(), "--"]).arg(&live.iotrace);
    let trace = Attach::of_args(command, ["attach", "--format", "json", "-p", &inner.to_string()]);
    let truth = hold.go();
    let outcome = trace.stop();
    let report = outcome.report();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let target: Vec<_> = report.processes().filter(|p| p.num("/ns_pid") == inner).collect();
    assert_eq!(target.len(), 1, "{}", report.0["processes"]);
    assert_eq!(target[0].num("/ops/read/count"), num(&truth, "/processes/0/ops/read/count"));
    assert_eq!(target[0].num("/pid"), u64::from(outer), "the report shows the host's pid too");
    hold.end();
}

#[test]
fn the_command_line_of_a_process_is_kept() {
    let Some(live) = live!() else { return };
    let file = live.file("to-read", 5000);
    let (report, truth) = live.run().workload(["cat", &file, "--name", "renamed"]).outcome().clean();
    let process = report.process(num(&truth, "/pid"));
    assert_eq!(process.comm(), "renamed", "the name it had last");
    let cmdline: Vec<_> =
        process.0["cmdline"].as_array().expect("cmdline").iter().filter_map(Value::as_str).collect();
    assert_eq!(cmdline.get(1..), Some(&["cat", file.as_str(), "--name", "renamed"][..]));
    assert_eq!(report.list("/trace/command").len(), 5);
    assert!(!text(&report.0, "/trace/kernel").is_empty());
    assert_eq!(num_or_zero(process.0, "/file_size_read/count"), process.num("/file_size/count"));
}

/// The only child of a process.
fn child_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    children.trim().parse().expect("one child")
}

/// A control group of the test, removed when dropped.
struct Cgroup {
    path: String,
}

impl Cgroup {
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mut cgroup2 = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (at, kind) = (fields.next()?, fields.next()?);
            (kind == "cgroup2").then_some(at)
        });
        let path = format!("{}/iotrace-live-{}", cgroup2.next()?, std::process::id());
        std::fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    fn take(&self, pid: u32) {
        std::fs::write(format!("{}/cgroup.procs", self.path), pid.to_string()).expect("move into the group");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path);
        }
    }
}
