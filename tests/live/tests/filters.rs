//! `--path` and `--fstype` keep what they name, and nothing else.

use iotrace_live::live;

/// A file below the folder and one beside it, read by one process: bytes of the first alone.
#[test]
fn the_path_filter_keeps_the_files_below_it() {
    let Some(live) = live!() else { return };
    let folder = live.dir().join("chosen");
    std::fs::create_dir_all(folder.join("deep/er")).expect("make folders");
    let (inside, outside) = (folder.join("deep/er/inside"), live.dir().join("chosen-not"));
    std::fs::write(&inside, vec![1; 70_000]).expect("write the file inside");
    std::fs::write(&outside, vec![2; 50_000]).expect("write the file outside");
    let script = format!("cat {} {} > /dev/null", inside.display(), outside.display());
    let outcome = live.run().args(["--path", &folder.to_string_lossy(), "--", "sh", "-c", &script]).outcome();
    let report = outcome.report();
    assert_eq!(report.sum(|_| true, "/ops/read/bytes"), 70_000);
    let files = report.list("/files/top");
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(files[0]["path"], inside.to_string_lossy().as_ref());
}

/// tmpfs alone, beside the scratch folder's file system.
#[test]
fn the_file_system_filter_keeps_its_type() {
    let Some(live) = live!() else { return };
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        return live.skip("no tmpfs is mounted at /dev/shm");
    }
    let memory = std::path::Path::new("/dev/shm").join(format!("iotrace-{}", std::process::id()));
    std::fs::write(&memory, vec![1; 30_000]).expect("write the file in memory");
    let on_disk = live.dir().join("on-disk");
    std::fs::write(&on_disk, vec![2; 50_000]).expect("write the file on disk");
    let script = format!("cat {} {} > /dev/null", memory.display(), on_disk.display());
    let outcome = live.run().args(["--fstype", "tmpfs", "--", "sh", "-c", &script]).outcome();
    std::fs::remove_file(&memory).expect("remove the file in memory");
    let report = outcome.report();
    assert_eq!(report.sum(|_| true, "/ops/read/bytes"), 30_000);
}
