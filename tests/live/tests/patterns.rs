//! Ways of reading are told apart, and calls that read nothing are counted.

use std::process::Command;

use iotrace_live::{Hold, assert_conserved, assert_in_sessions, assert_matches, live, num, text};
use serde_json::Value;

#[test]
fn ways_of_reading_are_told_apart() {
    let Some(live) = live!() else { return };
    let (mib, storm, entries) = live.scaled(("16", "5000", "10000"), ("1", "300", "300"));
    let mut command = Command::new(&live.workload);
    command.args(["patterns", "--hold", "--mib", mib, "--storm", storm, "--entries", entries]);
    command.args(["--dir", live.dir_arg()]);
    let hold = Hold::of(command);
    let (report, truth) = live.trace_held(hold);
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    assert_matches(&report, &truth);
    assert_conserved(&report);
    let planted = &truth["processes"][0];
    let process = report.process(num(planted, "/pid"));
    assert_in_sessions(&report, num(planted, "/pid"));
    let patterns = planted["patterns"].as_array().expect("patterns");
    let pattern = |name: &str| patterns.iter().find(|p| text(p, "/pattern") == name).expect("a pattern");
    let reads = |name: &str| num(pattern(name), "/reads");
    let of = |field: &str| process.num(&format!("/files/{field}"));
    let with_reads: Vec<&Value> = patterns.iter().filter(|p| !p["reads"].is_null()).collect();
    let sum = |field: &str| -> u64 { with_reads.iter().map(|p| num(p, &format!("/{field}"))).sum() };

    assert_eq!(of("sequential_reads"), sum("sequential_reads"));
    // A distance is known from the third read on.
    let strided = of("strided_reads");
    assert!((reads("strided") - 2..reads("strided") + 8).contains(&strided), "{strided} strided reads");
    assert_eq!(of("random_reads"), sum("reads") - sum("sequential_reads") - strided);
    assert_eq!(of("tiny_reads"), reads("tiny") - num(pattern("tiny"), "/eof_reads"));
    let whole: u64 = with_reads.iter().filter(|p| p["whole"] == true).map(|p| num(p, "/sessions")).sum();
    assert_eq!(of("whole_file"), whole);
    for planted in with_reads {
        let file = report.file(text(planted, "/path"));
        let seen = ["opens", "reads", "read_bytes", "size"].map(|field| num(file, &format!("/{field}")));
        let truth = ["sessions", "reads", "bytes", "size"].map(|field| num(planted, &format!("/{field}")));
        assert_eq!(seen, truth, "[opens, reads, bytes, size] of {file}");
    }

    let absent = pattern("enoent");
    let failure =
        report.list("/files/failures").iter().find(|failure| text(failure, "/path") == text(absent, "/path"));
    let failure = failure.expect("the storm's path is told");
    assert_eq!((text(failure, "/op"), text(failure, "/errno")), ("open", "ENOENT"));
    assert_eq!(num(failure, "/count"), num(absent, "/opens"));
    assert_eq!(process.num("/ops/getdents/count"), num(pattern("scan"), "/getdents64"));
    assert_eq!(process.num("/ops/stat/forms/newfstatat"), num(pattern("stat"), "/stats"));
}
