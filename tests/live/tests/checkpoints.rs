//! Checkpoints are found by how they are written, under the name they end up with.

use iotrace_live::{live, num, text};

#[test]
fn checkpoints_of_every_framework_are_found() {
    let Some(live) = live!() else { return };
    let mib = live.scaled("64", "8");
    for kind in ["plain", "torch-save", "distributed", "safetensors"] {
        let args = ["checkpoint", "--kind", kind, "--mib", mib, "--dir", live.dir_arg()];
        let (report, truth) = live.run().workload(args).outcome().assert_truth();
        if report.excusable() > 0 {
            return live.skip("this kernel skipped runs of programs it had preempted");
        }
        let [found] = report.list("/files/checkpoints") else {
            panic!("{kind}: {:?}", report.list("/files/checkpoints"))
        };
        let planted = &truth["processes"][0];
        assert_eq!(text(found, "/path"), text(&truth, "/path"), "{kind}");
        assert_eq!(found["temporary"], truth["temporary"], "{kind}");
        assert_eq!(num(found, "/pid"), report.process(num(planted, "/pid")).num("/pid"), "{kind}");
        assert_eq!(num(found, "/bytes"), num(&truth, "/bytes"), "{kind}: bytes");
        assert_eq!(num(found, "/writes"), num(planted, "/ops/write/count"), "{kind}: writes");
        assert_eq!(num(found, "/syncs"), num(planted, "/fsyncs"), "{kind}: syncs");
        let (stall, lasted) = (num(found, "/stall_ns"), num(found, "/duration_ns"));
        assert!(0 < stall && stall <= lasted, "{kind}: {stall} ns in calls within {lasted} ns");
    }
}

#[test]
fn a_log_that_is_synced_is_no_checkpoint() {
    let Some(live) = live!() else { return };
    let writes = live.scaled("500", "50");
    let args = ["checkpoint", "--kind", "small-sync", "--writes", writes, "--dir", live.dir_arg()];
    let (report, truth) = live.run().workload(args).outcome().assert_truth();
    assert_eq!(report.list("/files/checkpoints").len(), 0, "{:?}", report.list("/files/checkpoints"));
    let log = report.file(text(&truth, "/path"));
    assert_eq!(num(log, "/written_bytes"), num(&truth, "/bytes"));
}
