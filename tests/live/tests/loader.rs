//! A loader of many small files: how many, how large, how often opened and read, by whom, and what was waited for.

use std::process::Command;

use iotrace_live::{
    Hold, Live, Report, assert_conserved, assert_in_sessions, assert_matches, device, live, num, text,
};
use serde_json::Value;

/// Names of the size classes in the truth, smallest first.
const CLASSES: [&str; 7] = ["<4K", "4-16K", "16-64K", "64-128K", "128K-1M", "1-16M", ">16M"];

/// Makes the files of a loader in a folder of its own and returns that.
fn prepare(live: &Live, files: &str) -> String {
    let dir = live.dir().join("images").display().to_string();
    let mut command = Command::new(&live.workload);
    command.args(["loader", "--prepare-only", "--files", files, "--mean-bytes", "40000", "--dir", &dir]);
    let output = command.output().expect("make the files");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    dir
}

/// Traces the workers alone while they read all files once.
fn epoch(live: &Live, dir: &str, args: &[&str]) -> (Report, Value) {
    let mut command = Command::new(&live.workload);
    command.args(["loader", "--hold", "--workers", "4", "--reuse", dir]).args(args);
    let hold = Hold::of(command);
    live.trace_held(hold)
}

/// Every worker, and every size class, has the opens, reads and bytes that were planted.
fn assert_epoch(report: &Report, truth: &Value) {
    assert_matches(report, truth);
    assert_conserved(report);
    let (files, by_size) = (num(truth, "/files"), &truth["files_by_size"]);
    let classes = report.list("/files/size_classes");
    let mut more = 0;
    for (class, name) in classes.iter().zip(CLASSES) {
        let planted = by_size[name].as_u64().expect("a class");
        assert_eq!(num(class, "/opens"), planted, "{name}: opens");
        // Three reads each: of 4 KiB, of the rest, of nothing.
        let reads = num(class, "/reads");
        assert!(
            reads == 3 * planted || name == "<4K" && reads == 2 * planted,
            "{name}: {reads} reads of {planted} files"
        );
        assert!(num(class, "/files") >= planted, "{name}: {class}");
        more += num(class, "/files") - planted;
    }
    assert!(more <= 8, "{more} files besides those of the loader: its program and libraries");
    assert_eq!(report.num("/files/sessions/opened"), files);
    assert_eq!(report.num("/files/sessions/closed"), files);
    assert_eq!(report.num("/files/sessions/whole_file"), files);
    assert_eq!(report.num("/files/sessions/open_at_end"), 0);
    let bytes: u64 = classes.iter().map(|class| num(class, "/read_bytes")).sum();
    assert_eq!(bytes, num(truth, "/file_bytes"));
    let mut buckets = std::collections::BTreeMap::<(u64, u64), u64>::new();
    for planted in truth["processes"].as_array().expect("processes") {
        let worker = report.process(num(planted, "/pid"));
        let epoch = &planted["epochs"][0];
        assert_eq!(worker.num("/files/opens"), num(epoch, "/files"), "opens of a worker");
        assert_in_sessions(report, num(planted, "/pid"));
        for bucket in worker.0["file_size_read"]["buckets"].as_array().expect("buckets") {
            let [low, high, count] = [0, 1, 2].map(|at| bucket[at].as_u64().expect("a number"));
            *buckets.entry((low, high)).or_default() += count;
        }
    }
    let planted: Vec<((u64, u64), u64)> = truth["file_size_buckets"]
        .as_array()
        .expect("buckets")
        .iter()
        .map(|bucket| [0, 1, 2].map(|at| bucket[at].as_u64().expect("a number")))
        .map(|[low, high, count]| ((low, high), count))
        .collect();
    assert_eq!(buckets.into_iter().collect::<Vec<_>>(), planted, "sizes of the files, by bucket");
}

#[test]
fn the_first_epoch_waits_the_second_does_not_and_cold_files_stand_out() {
    let Some(live) = live!() else { return };
    let dir = prepare(&live, live.scaled("20000", "300"));
    let (cold, truth) = epoch(&live, &dir, &["--cold"]);
    if cold.excusable() > 0 {
        return live.skip("this kernel skipped runs of programs it had preempted");
    }
    assert_epoch(&cold, &truth);
    let files = num(&truth, "/files");
    let waited = |report: &Report| report.sum(|p| p.comm() == "pt_data_worker", "/ops/read/waited");
    let cached = |report: &Report| report.sum(|p| p.comm() == "pt_data_worker", "/ops/read/cached_bytes");
    // An emulated disk is mostly done before its reader gets to sleep.
    let least = live.scaled(files * 9 / 10, 1);
    assert!(waited(&cold) >= least, "{} of {files} files were waited for", waited(&cold));
    assert!(cached(&cold) >= num(&truth, "/file_bytes"), "{} bytes came into memory", cached(&cold));

    // Read twice, because a busy machine drops pages that were read once.
    let mut warm = epoch(&live, &dir, &[]);
    for _ in 0..2 {
        assert_epoch(&warm.0, &warm.1);
        warm = epoch(&live, &dir, &[]);
    }
    let (warm, truth) = warm;
    assert_epoch(&warm, &truth);
    if cached(&warm) > num(&truth, "/file_bytes") / 200 {
        let (bytes, all) = (cached(&warm), num(&truth, "/file_bytes"));
        return live.skip(&format!("this machine drops files from memory by itself: {bytes} of {all} bytes"));
    }
    assert!(waited(&warm) <= files / 50, "{} waits for files in memory", waited(&warm));

    // All in memory but five of one folder.
    let folder = format!("{dir}/n00000001");
    let names =
        std::fs::read_dir(&folder).expect("a class folder").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = names.map(|path| path.display().to_string()).collect();
    paths.sort();
    paths.truncate(5);
    let pages = |path: &String| std::fs::metadata(path).expect("a file").len().next_multiple_of(4096);
    let bytes: u64 = paths.iter().map(pages).sum();
    for _ in 0..3 {
        for path in &paths {
            device::drop_from_cache(path.as_ref()).expect("drop a file from the cache");
        }
        let (report, truth) = epoch(&live, &dir, &[]);
        assert_epoch(&report, &truth);
        if cached(&report) != bytes {
            println!("{} bytes came into memory, not {bytes}: not these five files alone", cached(&report));
            continue;
        }
        if live.vm().is_some() {
            println!(
                "an emulated disk is mostly done before its reader sleeps: the order of waits says nothing"
            );
            return;
        }
        // Of twenty thousand files; on a machine with other work a few that were cached can wait for it too.
        let top: Vec<_> = report.list("/files/top").iter().map(|file| text(file, "/path")).collect();
        // A disk may have what it is asked for at hand, and a reader need not sleep for it: most, not all.
        let found = paths.iter().filter(|path| top.contains(&path.as_str())).count();
        assert!(found * 2 > paths.len(), "{found} of the cold {paths:?} are among {top:?}");
        let folders: Vec<_> = report.list("/files/folders").iter().map(|of| text(of, "/path")).collect();
        assert!(folders.contains(&folder.as_str()), "{folder} is not among {folders:?}");
        return;
    }
    live.skip("this machine drops files from memory by itself");
}
