//! As many distinct files as ImageNet has, at full speed, within a bound on memory.

use std::process::Command;

use iotrace_live::{Hold, Live, assert_conserved, assert_matches, live, num};

const FILES: u64 = 1_300_000;

/// A folder in memory, gone after the test.
struct Memory(std::path::PathBuf);

impl Memory {
    fn new(live: &Live) -> std::io::Result<Self> {
        let name = live.dir().file_name().expect("a name").to_string_lossy().into_owned();
        let path = std::path::Path::new("/dev/shm").join(format!("iotrace-{name}"));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// KiB of memory that /proc/meminfo calls available.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_million_files_fit_into_two_hundred_megabytes() {
    let Some(live) = live!() else { return };
    if std::env::var_os("IOTRACE_LONG").is_none() {
        return live.skip("takes minutes: set IOTRACE_LONG=1");
    }
    if available() < 6 << 20 {
        return live.skip(&format!("needs 6 GiB of memory; {} KiB are available", available()));
    }
    let memory = match Memory::new(&live) {
        Ok(memory) => memory,
        Err(error) => return live.skip(&format!("/dev/shm: {error}")),
    };
    let dir = memory.0.display().to_string();
    let mut command = Command::new(&live.workload);
    // Every file an inode of its own, nearly none a page.
    command.args([
        "loader",
        "--prepare-only",
        "--mean-bytes",
        "1",
        "--files",
        &FILES.to_string(),
        "--dir",
        &dir,
    ]);
    let output = command.output().expect("make the files");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut command = Command::new(&live.workload);
    command.args(["loader", "--hold", "--workers", "1", "--reuse", &dir]);
    let mut hold = Hold::of(command).patient(std::time::Duration::from_secs(600));
    let trace = live.attach(["-p", &hold.pid_arg()]);
    let began = std::time::Instant::now();
    let truth = hold.go();
    let took = began.elapsed();
    let report = trace.stop().report();
    hold.end();
    let rss = report.num("/overhead/max_rss_bytes");
    println!(
        "{FILES} files in {:.1} s, {} MiB resident, {:.1} s of CPU in user space, lost: {}",
        took.as_secs_f64(),
        rss >> 20,
        report.num("/overhead/user_cpu_ns") as f64 / 1e9,
        report.0["lost"],
    );
    report.assert_nothing_lost();
    assert_matches(&report, &truth);
    assert_conserved(&report);
    assert!(
        (FILES..FILES + 8).contains(&report.num("/files/distinct")),
        "{} files",
        report.num("/files/distinct")
    );
    assert_eq!(report.num("/files/sessions/opened"), FILES);
    assert_eq!(report.num("/files/size_classes/0/opens"), FILES);
    assert_eq!(report.num("/files/size_classes/0/read_bytes"), num(&truth, "/file_bytes"));
    assert!(rss < 200_000_000, "iotrace took {} MiB", rss >> 20);
}
