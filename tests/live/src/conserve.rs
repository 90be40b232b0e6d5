//! What must add up in every report, whatever was traced: the same calls, told by size class, process and file system.

use serde_json::Value;

use crate::{Report, num, text};

/// Numbers of files that processes, size classes and file systems have in common.
const TOTALS: [&str; 8] =
    ["reads", "read_bytes", "waited_reads", "writes", "written_bytes", "syncs", "faults", "cached_bytes"];

/// Checks that nothing was counted twice or left out on the way from sessions to the tables.
pub fn assert_conserved(report: &Report) {
    let files = &report.0["files"];
    let classes = report.list("/files/size_classes");
    let sum =
        |list: &[Value], field: &str| -> u64 { list.iter().map(|of| num(of, &format!("/{field}"))).sum() };
    assert_eq!(sum(classes, "opens"), num(files, "/sessions/opened"), "openings by size class, and sessions");
    assert_eq!(sum(classes, "files"), num(files, "/distinct"), "files by size class, and distinct files");
    if num(files, "/records_lost") > 0 {
        return; // what is lost has a size class, but no process
    }
    let processes: Vec<Value> =
        report.processes().map(|process| process.0["files"].clone()).filter(|of| !of.is_null()).collect();
    for field in TOTALS.into_iter().chain(["opens"]) {
        assert_eq!(sum(classes, field), sum(&processes, field), "{field} by size class, and by process");
    }
    let whole: u64 = sum(&processes, "whole_file");
    assert_eq!(whole, num(files, "/sessions/whole_file"), "files read whole by process, and sessions");
    let systems = report.list("/files/file_systems");
    for field in ["reads", "read_bytes", "writes", "written_bytes", "opens", "files"] {
        let (seen, all) = (sum(systems, field), sum(classes, field));
        // A mapping that was there before the trace may be all that is known of a device.
        let slack = if field == "files" { num(files, "/distinct") - all.min(seen) } else { 0 };
        assert!(seen <= all && seen + slack >= all, "{field}: {seen} by file system, {all} by size class");
    }
}

/// Checks that each read and write of a process that used regular files alone is in one of its sessions.
pub fn assert_in_sessions(report: &Report, pid: u64) {
    let process = report.process(pid);
    for (op, calls, bytes) in [("read", "reads", "read_bytes"), ("write", "writes", "written_bytes")] {
        let of = |field: &str| process.num(&format!("/ops/{op}/{field}"));
        let (done, moved) = (of("count") - of("error_count"), of("bytes"));
        if process.0["files"].is_null() {
            assert_eq!((done, moved), (0, 0), "{} {op}: no files", process.comm());
            continue;
        }
        let session = |field: &str| process.num(&format!("/files/{field}"));
        assert_eq!((session(calls), session(bytes)), (done, moved), "pid {pid} {}: {op}", process.comm());
    }
}

impl Report {
    /// The file of this path among those listed.
    ///
    /// # Panics
    /// When it is not listed.
    pub fn file(&self, path: &str) -> &Value {
        let listed = self.list("/files/top");
        listed.iter().find(|file| text(file, "/path") == path).unwrap_or_else(|| {
            let paths: Vec<_> = listed.iter().map(|file| text(file, "/path")).collect();
            panic!("no {path} among {paths:#?}")
        })
    }
}
