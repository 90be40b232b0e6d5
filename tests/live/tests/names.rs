//! Names anybody may have chosen: they neither break the JSON nor reach the terminal raw.

use iotrace_live::{live, num};
use serde_json::Value;

#[test]
fn names_of_any_bytes_are_whole_in_the_json() {
    let Some(live) = live!() else { return };
    let (report, truth) =
        live.run().workload(["names", "--calls", "10", "--dir", live.dir_arg()]).outcome().clean();
    let planted = truth["processes"].as_array().expect("processes");
    assert_eq!(planted.len(), 5);
    for planted in planted {
        let process = report.process(num(planted, "/pid"));
        let name: Vec<u8> = serde_json::from_value(planted["comm_bytes"].clone()).expect("bytes");
        assert_eq!(process.comm(), reversible(&name));
        assert_eq!(process.num("/ops/read/count"), 10, "{:?}", process.comm());
    }
}

#[test]
fn names_of_any_bytes_do_not_reach_the_terminal() {
    let Some(live) = live!() else { return };
    let args = ["names", "--calls", "10", "--dir", live.dir_arg()];
    let outcome = live.iotrace(["run", "--format", "text"]).workload(args).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    // The first line is the workload's own truth.
    let text = std::str::from_utf8(&outcome.stdout).expect("the report is UTF-8");
    let (truth, report) = text.split_once('\n').expect("lines");
    serde_json::from_str::<Value>(truth).expect("the workload's line comes first");
    let raw = report.chars().find(|&c| c.is_control() && c != '\n');
    assert_eq!(raw, None, "a control character in the report: {report:?}");
    assert!(report.contains("two\\nlines"), "the name is shown, its newline escaped: {report}");
}

/// A name as the JSON shows it: `\\` for a backslash, `\xNN` for a byte that is not UTF-8.
fn reversible(name: &[u8]) -> String {
    name.utf8_chunks().fold(String::new(), |mut text, chunk| {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        text
    })
}
