//! Pipes, sockets, character devices and procfs are not storage: counted, but apart.

use iotrace_live::{live, num};

#[test]
fn pipes_sockets_and_devices_are_counted_apart() {
    let Some(live) = live!() else { return };
    let (report, truth) = live.run().workload(["apart", "--calls", "200"]).outcome().assert_truth();
    let process = report.process(num(&truth, "/processes/0/pid"));
    assert_eq!(process.num("/ops/read/count") + process.num("/ops/write/count"), 0, "0 in storage");
    assert_eq!(process.num("/apart/pipe/reads"), 600);
}

#[test]
fn a_splice_from_pipe_to_pipe_is_not_storage() {
    let Some(live) = live!() else { return };
    let (report, truth) = live.run().workload(["apart", "--calls", "50", "--splice"]).outcome().clean();
    let process = report.process(num(&truth, "/processes/0/pid"));
    assert_eq!(process.num("/ops/read/count") + process.num("/ops/write/count"), 0);
}
