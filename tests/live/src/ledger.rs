//! The wait ledger of a report. Processes and threads are found by name: their ids are those of the initial pid namespace.

use serde_json::Value;

use crate::{Report, num, num_or_zero, text};

/// Slack for what happens between two looks at the clock, ns.
const SLACK_NS: u64 = 20_000;

/// Every thread.
pub fn threads(report: &Report) -> &[Value] {
    report.list("/ledger/threads")
}

/// The ledger of the one process of this name.
///
/// # Panics
/// When there is none or more than one.
pub fn process<'a>(report: &'a Report, comm: &str) -> &'a Value {
    let known = report.list("/ledger/processes");
    let mut named = known.iter().filter(|process| text(process, "/comm") == comm);
    match (named.next(), named.next()) {
        (Some(process), None) => process,
        _ => {
            let known: Vec<_> = known.iter().map(|process| text(process, "/comm")).collect();
            panic!("not one {comm:?} in the ledger; it has {known:?}")
        }
    }
}

/// The one thread of this name.
///
/// # Panics
/// When there is none or more than one.
pub fn thread<'a>(report: &'a Report, comm: &str) -> &'a Value {
    let mut named = threads(report).iter().filter(|thread| text(thread, "/comm") == comm);
    match (named.next(), named.next()) {
        (Some(thread), None) => thread,
        (None, _) => panic!("no thread {comm:?} in the ledger"),
        (Some(_), Some(_)) => panic!("more than one thread {comm:?} in the ledger"),
    }
}

/// An account of a thread or process, ns.
pub fn account(of: &Value, name: &str) -> u64 {
    num(of, &format!("/accounts/{name}"))
}

/// All accounts, ns.
pub fn sum(of: &Value) -> u64 {
    accounts(of).map(|(_, ns)| ns).sum()
}

/// Time asleep, ns.
pub fn asleep(of: &Value) -> u64 {
    sum(of) - account(of, "running") - account(of, "runnable")
}

/// Time asleep for storage, ns.
pub fn storage(of: &Value) -> u64 {
    accounts(of).filter(|(name, _)| name.starts_with("io_")).map(|(_, ns)| ns).sum()
}

fn accounts(of: &Value) -> impl Iterator<Item = (&String, u64)> {
    let accounts = of["accounts"].as_object().expect("accounts");
    accounts.iter().map(|(name, ns)| (name, ns.as_u64().expect("ns")))
}

/// From one moment to the other, ns: (from, to).
fn life(thread: &Value) -> (u64, u64) {
    (num(thread, "/from_ns"), num(thread, "/to_ns"))
}

/// Checks that no time is lost or there twice: the accounts of a thread add up to its life, those of a process to its
/// threads', those of a slice to the threads that lived in it, and those of roles and of all to the processes'.
pub fn assert_adds_up(report: &Report) {
    let processes = report.list("/ledger/processes");
    assert!(!processes.is_empty() && !threads(report).is_empty(), "an empty ledger");
    for thread in threads(report) {
        let (from, to) = life(thread);
        assert!(to >= from, "{thread}");
        let slack = SLACK_NS.max((to - from) / 1000);
        assert!(sum(thread).abs_diff(to - from) <= slack, "{} ns of {}: {thread}", sum(thread), to - from);
    }
    for process in processes {
        assert_eq!(sum(process), num(process, "/time_ns"), "{process}");
    }
    let total = |list: &[Value]| -> u64 { list.iter().map(sum).sum() };
    let all = total(processes);
    assert_eq!(sum(&report.0["ledger"]), all, "all");
    assert_eq!(total(report.list("/ledger/roles")), all, "roles");
    if report.num("/ledger/unlisted_threads") > 0 {
        return;
    }
    for process in processes {
        let pid = num(process, "/pid");
        let own: Vec<_> = threads(report).iter().filter(|thread| num(thread, "/pid") == pid).collect();
        assert_eq!(own.len() as u64, num(process, "/threads"), "threads of {process}");
        for (name, ns) in accounts(process) {
            let of_threads: u64 = own.iter().map(|thread| account(thread, name)).sum();
            assert_eq!(ns, of_threads, "{name}, process and threads: {process}");
        }
        assert_slices_add_up(report, pid, &own);
    }
}

/// Checks that each slice has, of a process, as much time as its threads lived in it.
fn assert_slices_add_up(report: &Report, pid: u64, own: &[&Value]) {
    let slices = report.list("/ledger/slices");
    assert!(!slices.is_empty(), "no slices");
    let mut end = 0;
    for slice in slices {
        let (from, to) = (num(slice, "/start_ns"), num(slice, "/end_ns"));
        assert!(
            from == end && to > from,
            "slices do not follow each other: {from} to {to}, the last ended at {end}"
        );
        end = to;
        let lived: u64 = own
            .iter()
            .map(|thread| life(thread))
            .map(|(born, ended)| ended.min(to).saturating_sub(born.max(from)))
            .sum();
        let entry = &slice["processes"][pid.to_string()];
        let seen: u64 = entry.as_object().map_or(0, |of| of.values().filter_map(Value::as_u64).sum());
        let slack = (lived / 100).max(own.len() as u64 * SLACK_NS);
        assert!(
            seen.abs_diff(lived) <= slack,
            "pid {pid}, {from} to {to}: {seen} ns, lived {lived}: {entry}"
        );
    }
}

/// What a planted process of the workload `waits` says of itself.
pub fn planted<'a>(truth: &'a Value, comm: &str) -> &'a Value {
    let processes = truth["processes"].as_array().expect("the truth has processes");
    let found = processes.iter().find(|process| text(process, "/comm") == comm);
    &found.unwrap_or_else(|| panic!("no {comm:?} was planted: {truth}"))["waits"]
}

/// Time that the hypervisor took from this machine's CPUs so far, ns. The scheduler does not count it as run, and a clock does.
pub fn stolen_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = text.lines().next().and_then(|cpu| cpu.split_whitespace().nth(8));
    // In units of USER_HZ, 100 everywhere.
    (stolen.and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0) + 1) * 10_000_000
}

/// Threads without a ledger that the report tells of.
pub fn not_followed(report: &Report) -> u64 {
    num_or_zero(&report.0, "/lost/threads_without_ledger")
}
