//! Containers without a runtime: processes in pid and mount namespaces of their own, in cgroups that are named as
//! runtimes name them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrace_live::{Hold, Live, Report, live, num};
use serde_json::Value;

const POD: &str = "8dc1a1c5-3d3d-4f0f-9a52-0f6c2a0e9b11";
const POD_SLICE: &str = "kubepods-burstable-pod8dc1a1c5_3d3d_4f0f_9a52_0f6c2a0e9b11.slice";

/// 64 hex digits that begin with `start` and are of this test run alone.
fn id(start: &str) -> String {
    format!("{start}{:0>width$x}", std::process::id(), width = 64 - start.len())
}

/// A mounted hierarchy that groups can be made in.
fn hierarchy(version: u32) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let (at, kind, options) = (fields[1], fields[2], fields[3]);
        // Of version 1 one that limits nothing and needs nothing set before a process enters.
        let wanted = match version {
            2 => kind == "cgroup2",
            _ => kind == "cgroup" && options.split(',').any(|option| option == "pids"),
        };
        wanted.then(|| PathBuf::from(at))
    })
}

/// Groups of a test, innermost last; removed when dropped, with those above that it made.
struct Groups(Vec<PathBuf>);

impl Groups {
    fn make(top: &Path, below: &str) -> Self {
        let mut made = Vec::new();
        let mut path = top.to_owned();
        for name in below.split('/') {
            path.push(name);
            if !path.exists() {
                std::fs::create_dir(&path).expect("make a cgroup");
                made.push(path.clone());
            }
        }
        Self(made)
    }

    fn take(&self, pid: u32) {
        let group = self.0.last().expect("a group of our own");
        std::fs::write(group.join("cgroup.procs"), pid.to_string()).expect("move into the group");
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            if let Err(error) = std::fs::remove_dir(path) {
                eprintln!("cannot remove {}: {error}", path.display());
            }
        }
    }
}

/// A process in namespaces of its own and in a cgroup; it reads when told.
struct Boxed {
    hold: Hold,
    pid: u32,
    _groups: Groups,
}

impl Boxed {
    fn start(live: &Live, top: &Path, group: &str) -> Self {
        let groups = Groups::make(top, group);
        let workload = live.workload.to_str().expect("UTF-8");
        let mut command = Command::new(workload);
        command.args(["container", "--", workload, "hold", "--dir", live.dir_arg(), "--after", "1"]);
        let hold = Hold::of(command);
        let parent = hold.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("children");
        let pid = children.trim().parse().expect("one child");
        groups.take(pid);
        Self { hold, pid, _groups: groups }
    }

    /// Reads, and checks that the report of `stop` has its reads and its children's.
    fn reads(&mut self) -> u64 {
        reads_of(&self.hold.go())
    }

    fn end(self) {
        self.hold.end();
    }
}

fn reads_of(truth: &Value) -> u64 {
    truth["processes"].as_array().expect("processes").iter().map(|p| num(p, "/ops/read/count")).sum()
}

/// Reads of storage of all processes in the report.
fn all_reads(report: &Report) -> u64 {
    report.sum(|p| !p.kernel_thread(), "/ops/read/count")
}

fn container<'a>(report: &'a Report, pid: u32, field: &str) -> Option<&'a str> {
    let process =
        report.processes().find(|p| p.num("/pid") == u64::from(pid)).expect("the process is listed");
    process.0["container"][field].as_str()
}

/// The report has the reads of `wanted` and of nobody else.
fn check_only(live: &Live, given: &str, wanted: &mut Boxed, others: &mut [&mut Boxed]) -> Report {
    let trace = live.attach(["--container", given]);
    let planted = wanted.reads();
    for other in others {
        other.reads();
    }
    let outcome = trace.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let report = outcome.report();
    let seen = all_reads(&report);
    assert!(
        seen <= planted && seen + report.excusable() * 4 >= planted,
        "{given}: {seen} reads of {planted}"
    );
    assert!(report.processes().all(|p| p.num("/pid") != u64::from(std::process::id())));
    report
}

#[test]
fn each_form_of_container_is_known_and_chosen_by_its_id() {
    let Some(live) = live!() else { return };
    let Some(top) = hierarchy(2) else {
        return live.skip("no cgroup2 hierarchy to make groups in");
    };
    let (docker, kube) = (id("d0c4e200"), id("b0bacafe"));
    let kubepods = format!("kubepods.slice/kubepods-burstable.slice/{POD_SLICE}/cri-containerd-{kube}.scope");
    let cases = [(docker.clone(), "docker", None), (kube.clone(), "containerd", Some(POD))];
    for (wanted, runtime, pod) in cases {
        let mut one = Boxed::start(&live, &top, &format!("docker-{docker}.scope"));
        let mut two = Boxed::start(&live, &top, &kubepods);
        let (target, other) = if wanted == docker { (&mut one, &mut two) } else { (&mut two, &mut one) };
        let report = check_only(&live, &wanted[..12], target, &mut [other]);
        assert_eq!(container(&report, target.pid, "runtime"), Some(runtime));
        assert_eq!(container(&report, target.pid, "id"), Some(wanted.as_str()));
        assert_eq!(container(&report, target.pid, "pod_uid"), pod);
        assert_eq!(report.0["trace"]["targets"]["containers"][0].as_str(), Some(&wanted[..12]));
        // Its children, gone or not, are where it is.
        assert!(
            report
                .processes()
                .filter(|p| !p.kernel_thread())
                .all(|p| { p.0["container"]["id"].as_str() == Some(wanted.as_str()) })
        );
        one.end();
        two.end();
    }
}

#[test]
fn a_pod_is_chosen_by_its_uid() {
    let Some(live) = live!() else { return };
    let Some(top) = hierarchy(2) else {
        return live.skip("no cgroup2 hierarchy to make groups in");
    };
    let group = format!("kubepods/burstable/pod{POD}/{}", id("b0bacafe"));
    let mut inside = Boxed::start(&live, &top, &group);
    let mut outside = Boxed::start(&live, &top, &format!("libpod-{}.scope", id("90d9a900")));
    let report = check_only(&live, POD, &mut inside, &mut [&mut outside]);
    assert_eq!(container(&report, inside.pid, "runtime"), None, "cgroupfs does not tell");
    assert_eq!(container(&report, inside.pid, "pod_uid"), Some(POD));
    inside.end();
    outside.end();
}

#[test]
fn who_enters_a_container_during_the_trace_is_followed() {
    let Some(live) = live!() else { return };
    let Some(top) = hierarchy(2) else {
        return live.skip("no cgroup2 hierarchy to make groups in");
    };
    enters_later(&live, &top);
}

#[test]
fn version_1_containers_are_followed_too() {
    let Some(live) = live!() else { return };
    if let Some(top) = hierarchy(1) {
        return enters_later(&live, &top);
    }
    match NamedHierarchy::mount(&live.dir().join("cgroup")) {
        Ok(hierarchy) => enters_later(&live, &hierarchy.0),
        Err(error) => live.skip(&format!("no version 1 hierarchy, and none can be mounted: {error}")),
    }
}

/// A version 1 hierarchy without controllers, gone when dropped.
struct NamedHierarchy(PathBuf);

impl NamedHierarchy {
    fn mount(at: &Path) -> std::io::Result<Self> {
        std::fs::create_dir(at)?;
        let path = CString::new(at.as_os_str().as_bytes())?;
        let (none, kind, options) =
            (c"none".as_ptr(), c"cgroup".as_ptr(), c"none,name=iotrace-live".as_ptr());
        // SAFETY: live C strings.
        if unsafe { libc::mount(none, path.as_ptr(), kind, 0, options.cast()) } != 0 {
            let error = std::io::Error::last_os_error();
            std::fs::remove_dir(at)?;
            return Err(error);
        }
        Ok(Self(at.to_owned()))
    }
}

impl Drop for NamedHierarchy {
    fn drop(&mut self) {
        let path = CString::new(self.0.as_os_str().as_bytes()).expect("a path without NUL");
        // SAFETY: a live C string.
        if unsafe { libc::umount2(path.as_ptr(), 0) } != 0 {
            eprintln!("cannot unmount {}: {}", self.0.display(), std::io::Error::last_os_error());
        }
    }
}

fn enters_later(live: &Live, top: &Path) {
    let id = id("d0c4e201");
    let mut first = Boxed::start(live, top, &format!("docker/{id}"));
    let mut later = live.hold(&[]);
    let trace = live.attach(["--container", &id]);
    std::fs::write(top.join(format!("docker/{id}/cgroup.procs")), later.pid_arg()).expect("enter");
    // cgroup.procs is read every 50 ms.
    std::thread::sleep(live.scaled(std::time::Duration::from_millis(500), std::time::Duration::from_secs(3)));
    let planted = first.reads() + reads_of(&later.go());
    let report = trace.stop().report();
    let seen = all_reads(&report);
    assert!(seen <= planted && seen + report.excusable() * 4 >= planted, "{seen} reads of {planted}");
    later.end();
    first.end();
}

#[test]
fn no_match_and_several_are_listed() {
    let Some(live) = live!() else { return };
    let Some(top) = hierarchy(2).or_else(|| hierarchy(1)) else {
        return live.skip("no hierarchy to make groups in");
    };
    let (one_id, two_id) = (id("abcdef012345aa"), id("abcdef012345bb"));
    let one = Boxed::start(&live, &top, &format!("docker-{one_id}.scope"));
    let two = Boxed::start(&live, &top, &format!("crio-{two_id}.scope"));
    let refused = |given: &str, words: &[&str]| {
        live.iotrace(["attach", "-d", "1s", "--container", given]).outcome().assert_refused(words);
    };
    refused("no-such-container", &["no-such-container", "docker", "cri-o", "1 process"]);
    refused("abcdef012345", &["abcdef012345a", "abcdef012345b", "iotrace attach --container"]);
    one.end();
    two.end();
}
