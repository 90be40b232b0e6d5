//! A ring buffer that is too small loses names and lists, and says so; the totals stay exact.

use iotrace_live::{assert_conserved, live, num};

#[test]
fn totals_stay_exact_when_records_are_lost() {
    let Some(live) = live!() else { return };
    let files = live.scaled("4000", "600");
    // As large as 30 records.
    let run = live.run().args(["--ring-bytes", "8192"]);
    let args =
        ["loader", "--files", files, "--mean-bytes", "20000", "--workers", "1", "--dir", live.dir_arg()];
    let outcome = run.workload(args).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let (report, truth) = (outcome.report(), outcome.truth());
    if report.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    assert_conserved(&report);
    let (lost, planted) = (report.num("/files/records_lost"), &truth["processes"][0]);
    let files = num(&truth, "/files");
    // How many depends on how soon iotrace gets a CPU.
    assert!(lost > 0, "no record of {files} files lost by a buffer of 30");
    assert!(report.num("/lost/process_and_file_records") >= lost, "{}", report.0["lost"]);
    // By the worker, and one write each by the process that made the files.
    let classes = report.list("/files/size_classes");
    let sum = |field: &str| classes.iter().map(|class| num(class, &format!("/{field}"))).sum::<u64>();
    assert_eq!(sum("writes"), files);
    assert_eq!(sum("written_bytes"), num(&truth, "/file_bytes"));
    let of_loader = |field: &str| num(planted, &format!("/ops/read/{field}"));
    // The program's libraries are read as well.
    let (reads, bytes) = (report.sum(|_| true, "/ops/read/count"), report.sum(|_| true, "/ops/read/bytes"));
    assert!(reads >= of_loader("count") && reads <= of_loader("count") + 20, "{reads} reads");
    assert_eq!((sum("reads"), sum("read_bytes")), (reads, bytes), "every read is in a size class");
    let opens = sum("opens");
    assert!((2 * files..2 * files + 20).contains(&opens), "{opens} opens of {files} files");
}
