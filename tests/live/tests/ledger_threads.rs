//! The wait ledger of many threads: none is lost, and what each says agrees with the scheduler.

use iotrace_live::{Live, Report, ledger, live, num, text};
use serde_json::Value;

fn waits<'a>(live: &'a Live, args: impl IntoIterator<Item = &'a str>) -> (Report, Value) {
    let all = ["waits", "--dir", live.dir_arg()].into_iter().chain(args);
    let (report, truth) = live.run().workload(all).outcome().clean();
    ledger::assert_adds_up(&report);
    (report, truth)
}

#[test]
fn five_hundred_threads_add_up() {
    let Some(live) = live!() else { return };
    let count = live.scaled(500, 200);
    let (report, truth) = waits(&live, ["--kind=crowd", "--threads", &count.to_string()]);
    let (process, planted) = (ledger::process(&report, "crowd"), ledger::planted(&truth, "crowd"));
    assert_eq!(num(process, "/threads"), count + 1);
    let threads = planted["threads"].as_array().expect("threads");
    assert_eq!(threads.len() as u64, count);
    let (mut slept_all, mut least_all) = (0, 0);
    for planted in threads {
        let thread = ledger::thread(&report, text(planted, "/name"));
        let (least, slept) = (num(planted, "/least_ns"), num(planted, "/slept_ns"));
        let [sleep, futex] = ["sleep", "wait_futex"].map(|name| ledger::account(thread, name));
        assert!(least > 0 && sleep <= slept, "{sleep} ns of the {slept} that calls took: {thread}");
        // No shorter than asked for, but for what it waited for a CPU on its way to sleep. Memory allocation waits on futexes too.
        let busy = ledger::account(thread, "running") + ledger::account(thread, "runnable");
        for own in [sleep, futex] {
            assert!(own + busy >= least, "{own} ns of {least}: {thread}");
        }
        (slept_all, least_all) = (slept_all + sleep, least_all + least);
    }
    assert!(slept_all >= least_all / 2, "{slept_all} ns of {least_all}: {process}");
    println!("{process}");
}

#[test]
fn of_many_short_threads_none_is_lost() {
    let Some(live) = live!() else { return };
    let count = live.scaled(5000, 500);
    let (report, truth) = waits(&live, ["--kind=churn", "--threads", &count.to_string()]);
    let process = ledger::process(&report, "churn");
    assert_eq!(num(process, "/threads"), count + 1, "{process}");
    let short = ledger::threads(&report).iter().filter(|thread| text(thread, "/comm") == "short");
    // Of very many that end, the first are listed; all are in the sums.
    let all = short.count() as u64 + report.num("/ledger/unlisted_threads");
    assert!(
        (count..count + 4).contains(&all),
        "{all} of {count}, and up to three threads of other processes"
    );
    let own = ledger::threads(&report).iter().filter(|thread| num(thread, "/pid") == num(process, "/pid"));
    assert!(own.clone().all(|thread| thread["exited"] == true), "a thread that did not end");
    // One at a time: all of them together lived no longer than the process.
    let lives: u64 = own.filter(|thread| text(thread, "/comm") == "short").map(ledger::sum).sum();
    let wall = num(ledger::planted(&truth, "churn"), "/wall_ns");
    assert!(lives <= wall + wall / 50, "{lives} ns of {wall}");
}

/// Four times as many threads as CPUs.
#[test]
fn on_a_busy_machine_the_scheduler_agrees() {
    let Some(live) = live!() else { return };
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let stolen = ledger::stolen_ns();
    let (report, truth) = waits(&live, ["--kind=spin", "--seconds=3", "--threads", &(4 * cpus).to_string()]);
    let stolen = ledger::stolen_ns() - stolen;
    let threads = ledger::planted(&truth, "spin")["threads"].as_array().expect("threads").clone();
    assert_eq!(threads.len(), 4 * cpus);
    if threads.iter().any(Value::is_null) {
        return live.skip("this kernel has no schedstat");
    }
    for planted in threads {
        let thread = ledger::thread(&report, text(&planted, "/name"));
        for (account, field) in [("running", "/run_ns"), ("runnable", "/wait_ns")] {
            let (seen, truth) = (ledger::account(thread, account), num(&planted, field));
            println!(
                "{} {account} {seen} ns, schedstat {truth}: {:.4}",
                text(&planted, "/name"),
                seen as f64 / truth as f64
            );
            // Its last words are said before its end. Stolen time is in one clock only.
            let slack = truth / 20 + stolen + 2_000_000;
            assert!(seen.abs_diff(truth) <= slack, "{account} {seen} ns, schedstat {truth}, {stolen} stolen");
        }
    }
}

#[test]
fn without_a_place_a_thread_is_told_of_and_the_others_are_right() {
    let Some(live) = live!() else { return };
    let run = live.run().env("IOTRACE_LEDGERS", "32");
    let args = ["waits", "--kind=crowd", "--threads=100", "--seconds=1", "--dir", live.dir_arg()];
    let outcome = run.workload(args).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    let report = outcome.report();
    ledger::assert_adds_up(&report);
    let (followed, lost) = (ledger::threads(&report).len() as u64, ledger::not_followed(&report));
    println!("{followed} threads followed, {lost} not");
    assert_eq!(report.num("/ledger/threads_not_followed"), lost);
    assert!(followed >= 32 && lost > 0, "{followed} followed, {lost} not");
    // The root, the child and its threads; a walk may find one more than once.
    assert!(followed + lost >= 102, "{followed} followed, {lost} not");
    let crowd = ledger::process(&report, "crowd");
    // The last to start can have the places of the first to end.
    assert!((20..101).contains(&num(crowd, "/threads")), "{crowd}");
    let slept = ledger::account(crowd, "sleep") + ledger::account(crowd, "wait_futex");
    assert!(slept > ledger::sum(crowd) / 2, "{crowd}");
}

#[test]
fn places_of_threads_that_ended_are_used_again() {
    let Some(live) = live!() else { return };
    let run = live.run().env("IOTRACE_LEDGERS", "64");
    let args = ["waits", "--kind=churn", "--threads=200", "--pace-ms=20", "--dir", live.dir_arg()];
    let (report, _) = run.workload(args).outcome().clean();
    ledger::assert_adds_up(&report);
    assert_eq!(num(ledger::process(&report, "churn"), "/threads"), 201);
    assert_eq!(report.num("/ledger/threads_not_followed"), 0);
}
