//! Reads and writes of regular files: every form once and only once, with what it returned.

use iotrace_live::live;

#[test]
fn two_hundred_preads_are_two_hundred_reads() {
    let Some(live) = live!() else { return };
    let run = live.run().workload(["forms", "--form", "pread64", "--calls", "200", "--dir", live.dir_arg()]);
    let (report, truth) = run.outcome().assert_truth();
    let process = report.process(iotrace_live::num(&truth, "/processes/0/pid"));
    assert_eq!((process.num("/ops/read/count"), process.num("/ops/read/bytes")), (200, 200 * 4096));
    assert_eq!(process.num("/ops/write/count"), 0);
}

#[test]
fn two_hundred_calls_of_every_form_are_two_hundred_of_each() {
    let Some(live) = live!() else { return };
    live.run().workload(["forms", "--calls", "200", "--dir", live.dir_arg()]).outcome().assert_truth();
}

#[test]
fn a_copy_between_files_is_a_read_and_a_write() {
    let Some(live) = live!() else { return };
    for form in ["sendfile_file", "copy_file_range"] {
        let run = live.run().workload(["forms", "--form", form, "--calls", "100", "--dir", live.dir_arg()]);
        let (report, truth) = run.outcome().assert_truth();
        let process = report.process(iotrace_live::num(&truth, "/processes/0/pid"));
        assert_eq!(process.num("/ops/read/count"), 100, "{form}");
        assert_eq!(process.num("/ops/write/count"), 100, "{form}");
    }
}

#[test]
fn transfers_of_many_pages_keep_their_size() {
    let Some(live) = live!() else { return };
    let run = live.run().workload(["forms", "--calls", "40", "--size", "65536", "--dir", live.dir_arg()]);
    run.outcome().assert_truth();
}

#[test]
fn failed_short_and_empty_calls_are_counted_as_what_they_were() {
    let Some(live) = live!() else { return };
    live.run().workload(["errors", "--calls", "20", "--dir", live.dir_arg()]).outcome().assert_truth();
}

#[test]
fn the_first_read_of_a_command_is_counted() {
    let Some(live) = live!() else { return };
    let file = live.file("to-read", 300_000);
    let outcome = live.run().workload(["cat", &file, "--size", "65536"]).outcome();
    let (report, truth) = outcome.clean();
    let process = report.process(iotrace_live::num(&truth, "/pid"));
    let (count, bytes) = (process.num("/ops/read/count"), process.num("/ops/read/bytes"));
    if truth["static"] == true {
        assert_eq!((count, bytes), (6, 300_000));
    } else {
        // The loader reads the headers of the shared libraries.
        assert!(count > 6 && bytes > 300_000, "{count} reads of {bytes} bytes");
    }
    assert_eq!(process.num("/ops/read/eof"), 1);
}

#[test]
fn the_op_filter_keeps_what_it_names() {
    let Some(live) = live!() else { return };
    for (kept, dropped) in [("read", "write"), ("write", "read")] {
        let args = ["forms", "--form", "read", "--form", "write", "--calls", "50", "--dir", live.dir_arg()];
        let (report, truth) = live.run().args(["--op", kept]).workload(args).outcome().clean();
        let process = report.process(iotrace_live::num(&truth, "/processes/0/pid"));
        assert_eq!(process.num(&format!("/ops/{kept}/count")), 50, "--op {kept}");
        assert_eq!(process.num(&format!("/ops/{dropped}/count")), 0, "--op {kept}");
    }
}

#[test]
fn the_comm_filter_keeps_whom_it_names() {
    let Some(live) = live!() else { return };
    let args = ["names", "--calls", "10", "--dir", live.dir_arg()];
    let report = live.run().args(["--comm", "quote\"back\\"]).workload(args).outcome().report();
    let reads = |keep: bool| report.sum(|p| (p.comm() == "quote\"back\\\\") == keep, "/ops/read/count");
    assert_eq!((reads(true), reads(false)), (10, 0));
}
