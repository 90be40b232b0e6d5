//! The wait ledger: what is planted to wait for one thing has its time in one account.

use std::process::Command;

use iotrace_live::{Hold, Live, Need, Report, ledger, live, module, num, text};
use serde_json::Value;

/// Runs `waits` with `args` and checks that the ledger adds up.
fn waits(live: &Live, args: &[&str]) -> (Report, Value) {
    let all = ["waits", "--dir", live.dir_arg()].into_iter().chain(args.iter().copied());
    let (report, truth) = live.run().workload(all).outcome().clean();
    ledger::assert_adds_up(&report);
    (report, truth)
}

/// Checks that a process, which times its own waits, has 95 % of its sleep in `account`, and no less than it waited.
fn assert_waits_in(report: &Report, truth: &Value, comm: &str, account: &str) {
    let (process, planted) = (ledger::process(report, comm), ledger::planted(truth, comm));
    let (own, asleep) = (ledger::account(process, account), ledger::asleep(process));
    let (blocked, wall) = (num(planted, "/blocked_ns"), num(planted, "/wall_ns"));
    println!(
        "{comm}: {} ms asleep, {account} {:.2} %; {} calls of {} ms",
        asleep / 1_000_000,
        100.0 * own as f64 / asleep as f64,
        num(planted, "/calls"),
        blocked / 1_000_000
    );
    assert!(asleep > 0 && own >= asleep / 100 * 95, "{account}: {own} ns of {asleep} asleep: {process}");
    // The calls were asleep, on a CPU or waiting for one.
    let busy = ledger::account(process, "running") + ledger::account(process, "runnable");
    assert!(own <= blocked + blocked / 100 + 1_000_000, "{account}: {own} ns; the calls took {blocked}");
    assert!(own + busy >= blocked / 100 * 99, "{account}: {own} ns and {busy}; the calls took {blocked}");
    assert!(ledger::sum(process) >= wall / 100 * 99, "it lived {wall} ns: {process}");
}

#[test]
fn each_timer_message_and_lock_has_its_account() {
    let Some(live) = live!() else { return };
    let kinds = ["--kind=sleep", "--kind=poll", "--kind=futex", "--kind=pipe", "--kind=socket"];
    let (report, truth) = waits(&live, &kinds);
    for (comm, account) in [
        ("sleep", "sleep"),
        ("poll", "wait_poll"),
        ("futex", "wait_futex"),
        ("pipe", "wait_pipe_socket"),
        ("socket", "wait_pipe_socket"),
        ("pipe-writer", "sleep"),
    ] {
        assert_waits_in(&report, &truth, comm, account);
        // Little else is there to be done.
        let process = ledger::process(&report, comm);
        assert!(ledger::account(process, "running") < ledger::sum(process) / live.scaled(20, 2), "{process}");
    }
}

#[test]
fn each_call_on_storage_has_its_account() {
    let Some(live) = live!() else { return };
    for (comm, account) in [
        ("direct-read", "io_read"),
        ("cold-read", "io_read"),
        ("direct-write", "io_write"),
        ("fsync", "io_fsync"),
        ("rename", "io_meta"),
        ("fault", "io_fault"),
    ] {
        let (report, truth) = waits(&live, &["--kind", comm]);
        if !truth["lacking"].as_array().is_some_and(Vec::is_empty) {
            live.skip(&format!("{comm}: {}", truth["lacking"]));
            continue;
        }
        assert_waits_in(&report, &truth, comm, account);
    }
}

#[test]
fn stats_of_a_cold_tree_are_metadata() {
    let Some(live) = live!(Need::Vm) else { return };
    let (report, truth) = waits(&live, &["--kind=stat"]);
    assert_waits_in(&report, &truth, "stat", "io_meta");
}

#[test]
fn reads_of_fuse_are_storage() {
    let Some(live) = live!() else { return };
    if let Err(reason) = module::ensure_filesystem("fuse") {
        return live.skip(&reason);
    }
    let outcome = live.run().workload(["fuse-read", "--delay-ms=50", "--dir", live.dir_arg()]).outcome();
    let (report, truth) = outcome.clean();
    if let Some(reasons) = truth["unsupported"].as_array() {
        return live.skip(&format!("{reasons:?}"));
    }
    ledger::assert_adds_up(&report);
    let reader = ledger::process(&report, "fuse-reader");
    let least = num(&truth, "/daemon/served/reads") * num(&truth, "/delay_ms") * 1_000_000;
    let (read, asleep) = (ledger::account(reader, "io_read"), ledger::asleep(reader));
    println!("io_read {read} ns of {asleep} asleep; the daemon slept {least}");
    // Opens wait for the daemon too, but not long.
    assert!(read >= asleep / 100 * 95 && read >= least / 100 * 95, "{reader}; the daemon slept {least}");
}

#[test]
fn cached_reads_do_not_wait_for_storage() {
    let Some(live) = live!() else { return };
    let (report, truth) = waits(&live, &["--kind=warm"]);
    let (process, planted) = (ledger::process(&report, "warm"), ledger::planted(&truth, "warm"));
    let (storage, all, calls) = (ledger::storage(process), ledger::sum(process), num(planted, "/calls"));
    println!("{calls} reads, io {storage} ns of {all}");
    assert!(calls >= live.scaled(20_000, 500), "{calls} reads");
    assert!(storage < all / 100, "io_* {storage} ns of {all}: {process}");
}

#[test]
fn running_is_user_and_system_time() {
    let Some(live) = live!() else { return };
    let stolen = ledger::stolen_ns();
    let (report, truth) = waits(&live, &["--kind=spin", "--seconds=2"]);
    let stolen = ledger::stolen_ns() - stolen;
    let (process, planted) = (ledger::process(&report, "spin"), ledger::planted(&truth, "spin"));
    let (running, used) = (ledger::account(process, "running"), num(planted, "/cpu_ns"));
    println!("running {running} ns, used {used}, stolen from the machine {stolen}");
    assert_eq!(num(process, "/threads"), 5);
    // What a hypervisor takes away the scheduler leaves out, a tick later; a clock does not.
    let slack = used / live.scaled(100, 50) + stolen;
    assert!(running.abs_diff(used) <= slack, "running {running} ns, used {used}, {stolen} stolen: {process}");
}

#[test]
fn threads_asleep_from_begin_to_end_are_in_their_accounts() {
    let Some(live) = live!() else { return };
    let mut command = Command::new(&live.workload);
    command.args(["waits", "--hold", "--dir", live.dir_arg(), "--kind=still", "--seconds=0.1"]);
    let hold = Hold::of(command);
    let trace = live.attach(["-p", &hold.pid_arg()]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let report = trace.stop().report();
    hold.end();
    report.assert_nothing_lost();
    ledger::assert_adds_up(&report);
    for (comm, account) in [
        ("still-pipe", "wait_pipe_socket"),
        ("still-socket", "wait_pipe_socket"),
        ("still-futex", "wait_futex"),
        ("still-sleep", "sleep"),
        ("still-poll", "wait_poll"),
        // Waits at its gate.
        ("still", "wait_futex"),
    ] {
        let thread = ledger::thread(&report, comm);
        let (own, all) = (ledger::account(thread, account), ledger::sum(thread));
        assert!(own == all && all >= 1_400_000_000, "{account}: {own} ns of {all}: {thread}");
        assert!(!thread["exited"].as_bool().expect("exited"), "{thread}");
    }
}

#[test]
fn what_the_user_says_of_roles_comes_first() {
    let Some(live) = live!() else { return };
    let roles = ["--role", "feeder=socket*", "--role", "loader=pip?", "--role", "checkpoint=fsy*"];
    let kinds = ["waits", "--kind=sleep", "--kind=socket", "--kind=fsync", "--seconds=0.3", "--dir"];
    let (report, _) = live.run().args(roles).workload(kinds).args([live.dir_arg()]).outcome().clean();
    ledger::assert_adds_up(&report);
    let role = |comm: &str| text(ledger::process(&report, comm), "/role").to_owned();
    assert_eq!(role("socket"), "feeder");
    assert_eq!(role("socket-writer"), "feeder");
    assert_eq!(role("fsync"), "checkpoint writer");
    assert_eq!(role("sleep"), "other");
    assert_eq!(role("iotrace-workloa"), "main");
    let of_roles = report.list("/ledger/roles");
    let feeder = of_roles.iter().find(|role| text(role, "/role") == "feeder").expect("the role");
    assert_eq!(text(feeder, "/rule"), "--role feeder=socket*");
    assert_eq!(feeder["pids"].as_array().map(Vec::len), Some(2), "{feeder}");
}

#[test]
fn forked_readers_are_loaders_and_the_root_is_main() {
    let Some(live) = live!() else { return };
    let args = ["loader", "--files", "100", "--workers", "3", "--dir", live.dir_arg()];
    let (report, _) = live.run().workload(args).outcome().clean();
    ledger::assert_adds_up(&report);
    let role = |name: &str| {
        let roles = report.list("/ledger/roles");
        let found = roles.iter().find(|role| text(role, "/role") == name);
        found.unwrap_or_else(|| panic!("no role {name:?} in {roles:#?}"))
    };
    let (loader, main) = (role("loader"), role("main"));
    assert_eq!(num(loader, "/threads"), 3, "{loader}");
    assert!(text(loader, "/rule").contains("pt_data_worker"), "{loader}");
    assert_eq!(main["pids"].as_array().map(Vec::len), Some(1), "{main}");
    let root = ledger::process(&report, "iotrace-workloa");
    assert_eq!((num(root, "/pid"), num(root, "/time_ns")), (num(&main["pids"], "/0"), num(main, "/time_ns")));
}
