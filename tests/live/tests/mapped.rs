//! Files read through mappings: no read(2) moves a byte of them, and yet they are waited for.

use std::process::Command;

use iotrace_live::{Hold, Live, Report, live, num, text};
use serde_json::Value;

/// Traces a held `mapped`, so that the making of its file is not in the report.
fn trace(live: &Live, without: &str, args: &[&str]) -> (Report, Value) {
    let mut command = Command::new(&live.workload);
    command.args(["mapped", "--hold", "--mib", live.scaled("32", "4"), "--dir", live.dir_arg()]).args(args);
    let mut hold = Hold::of(command);
    let mut options = vec!["-p".to_owned(), hold.pid_arg()];
    if !without.is_empty() {
        options.extend(["--without".to_owned(), without.to_owned()]);
    }
    let trace = live.attach(options);
    let truth = hold.go();
    let report = trace.stop().report();
    hold.end();
    report.assert_nothing_lost();
    (report, truth)
}

fn variant(report: &Report) -> Option<String> {
    let probe = report.list("/probes").iter().find(|probe| probe["metric"] == "mmap faults")?;
    probe["variant"].as_str().map(str::to_owned)
}

/// Whatever hooks the kernel allows.
#[test]
fn faults_on_a_cold_file_are_counted_and_waited_for() {
    let Some(live) = live!() else { return };
    for (without, advice) in [("", "none"), ("", "random"), ("fentry", "random"), ("fentry,kprobe", "random")]
    {
        let (report, truth) = trace(&live, without, &["--advise", advice]);
        let Some(hooks) = variant(&report) else {
            println!("no hook on page faults with --without {without}: {}", report.0["probes"]);
            assert!(!without.is_empty(), "every kernel of the matrix has one");
            continue;
        };
        if report.excusable() > 0 {
            return live.skip("this kernel skipped runs of programs it had preempted");
        }
        let planted = &truth["processes"][0];
        let process = report.process(num(planted, "/pid"));
        let (faults, major) = (process.num("/ops/mmap_fault/count"), num(planted, "/mapped/major_faults"));
        let (pages, bytes) = (num(&truth, "/pages"), num(&truth, "/bytes"));
        let what = format!("{hooks}, {advice}: {faults} faults, {major} of them major, of {pages} pages");
        println!("{what}");
        assert!(faults >= major && faults > 0 && faults <= 2 * pages + 100, "{what}");
        assert!(advice != "random" || major >= pages / 2, "{what}");
        // An emulated disk is mostly done with a few large reads before their reader gets to sleep.
        let waits = advice == "random" || live.vm().is_none();
        let (waited, wait_ns) =
            (process.num("/ops/mmap_fault/waited"), process.num("/ops/mmap_fault/wait_ns"));
        assert!(!waits || waited > 0 && wait_ns > 0, "{what}: {waited} waited");
        let cached = process.num("/ops/mmap_fault/cached_bytes");
        assert!((bytes..=bytes + (4 << 20)).contains(&cached), "{what}: {cached} bytes cached of {bytes}");
        let file = report.file(text(&truth, "/path"));
        assert!((!waits || num(file, "/wait_ns") > 0) && num(file, "/reads") == 0, "{what}: {file}");
        let first = text(&report.list("/files/top")[0], "/path");
        assert!(!waits || first == text(&truth, "/path"), "{what}: {first} waited for most");
        assert_eq!(process.num("/ops/read/count"), 0, "{what}");
    }
}

#[test]
fn a_mapped_file_that_is_in_memory_is_not_waited_for() {
    let Some(live) = live!() else { return };
    let (report, truth) = trace(&live, "", &["--warm"]);
    assert_eq!(num(&truth, "/processes/0/mapped/major_faults"), 0);
    let file = report.file(text(&truth, "/path"));
    assert_eq!(num(file, "/wait_ns"), 0, "{file}");
}
