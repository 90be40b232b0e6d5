//! Other witnesses of the same calls: the kernel's own account, strace, perf, bpftrace.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use iotrace_live::{ledger, live, num, num_or_zero};

#[test]
fn the_kernels_own_account_of_a_process_agrees() {
    let Some(live) = live!() else { return };
    // Forms that the kernel charges to rchar and wchar; splice is charged to neither.
    let forms =
        ["read", "pread64", "readv", "preadv2", "write", "pwrite64", "writev", "pwritev2", "copy_file_range"];
    let forms = forms.iter().flat_map(|form| ["--form", form]);
    let args = ["forms", "--calls", "100", "--dir", live.dir_arg()].into_iter().chain(forms);
    let (report, truth) = live.run().workload(args).outcome().assert_truth();
    let planted = &truth["processes"][0];
    let process = report.process(num(planted, "/pid"));
    for (seen, account) in
        [("read/bytes", "rchar"), ("read/count", "syscr"), ("write/bytes", "wchar"), ("write/count", "syscw")]
    {
        assert_eq!(
            process.num(&format!("/ops/{seen}")),
            num(planted, &format!("/proc_io/{account}")),
            "{account}"
        );
    }
}

#[test]
fn strace_of_the_same_run_agrees() {
    let Some(live) = live!() else { return };
    let Some(strace) = in_path("strace") else {
        return live.skip("no strace here");
    };
    let log = live.dir().join("strace.log");
    let calls = "trace=read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,sendfile,splice,copy_file_range";
    let args = ["-f", "-y", "-e", calls, "-e", "signal=none", "-o"];
    let outcome = live
        .run()
        .arg("--")
        .arg(strace)
        .args(args)
        .arg(&log)
        .arg(&live.workload)
        .args(["small-files", "--files", "100", "--workers", "3", "--dir", live.dir_arg()])
        .outcome();
    let (report, _) = outcome.assert_truth();
    let scratch = format!("<{}", live.dir_arg());
    let mut seen = BTreeMap::<(u64, &str), u64>::new();
    let text = std::fs::read_to_string(&log).expect("strace's log");
    for line in text.lines().filter(|line| line.contains(&scratch)) {
        // "1234  read(3</path>, ..." and, when another process came between, "1234  <... read resumed>".
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        *seen
            .entry((pid.parse().expect("a pid"), if name.contains("write") { "write" } else { "read" }))
            .or_default() += 1;
    }
    assert!(seen.len() > 3, "{seen:?}");
    for ((pid, op), count) in seen {
        assert_eq!(report.process(pid).num(&format!("/ops/{op}/count")), count, "{op} of pid {pid}");
    }
}

#[test]
fn perf_of_the_same_run_saw_threads_on_the_cpu_as_long() {
    let Some(live) = live!() else { return };
    let Some(perf) = in_path("perf") else {
        return live.skip("no perf here");
    };
    let data = live.dir().join("perf.data");
    let stolen = ledger::stolen_ns();
    let record = live.run().arg("--").arg(&perf).args(["sched", "record", "-q", "-o"]).arg(&data).arg("--");
    let planted = ["waits", "--kind=spin", "--kind=pipe", "--seconds=1", "--dir", live.dir_arg()];
    let outcome = record.arg(&live.workload).args(planted).outcome();
    if outcome.code() != Some(0) {
        return live.skip(&format!("perf cannot record here: {}", outcome.stderr));
    }
    let (report, _) = outcome.clean();
    let stolen = (ledger::stolen_ns() - stolen) as f64;
    ledger::assert_adds_up(&report);
    let timehist = Command::new(&perf).args(["sched", "timehist", "-s", "-i"]).arg(&data).output();
    let timehist = timehist.expect("run perf");
    let (text, said) = (String::from_utf8_lossy(&timehist.stdout), String::from_utf8_lossy(&timehist.stderr));
    if said.to_lowercase().contains("lost") {
        return live.skip(&format!("perf lost events: {said}"));
    }
    let mut found = 0;
    for name in ["spin-0", "spin-1", "spin-2", "spin-3", "pipe"] {
        let start = format!("{name}[");
        // "comm[tid/pid]  parent  switches  run-time in ms ...".
        let Some(line) = text.lines().find(|line| line.trim_start().starts_with(&start)) else { continue };
        let column = line.split_whitespace().nth(3).expect("a run-time");
        let perf_ns = column.parse::<f64>().expect("milliseconds") * 1e6;
        let seen = ledger::account(ledger::thread(&report, name), "running") as f64;
        println!("{name}: {seen} ns, perf {perf_ns}");
        // A hypervisor can take the CPU away between the one look at the clock and the other.
        assert!(
            (seen - perf_ns).abs() <= perf_ns / 50.0 + 1e6 + stolen,
            "{name} ran {seen} ns, perf says {perf_ns}"
        );
        found += 1;
    }
    assert!(found > 0, "perf named none of the threads: {said}{text}");
}

#[test]
fn bpftrace_of_the_same_run_agrees() {
    let Some(live) = live!() else { return };
    let Some(bpftrace) = in_path("bpftrace") else {
        return live.skip("no bpftrace here");
    };
    let mut hold = live.hold(&["--calls", "1000"]);
    let program = format!(
        "BEGIN {{ printf(\"ready\\n\"); }} \
         tracepoint:syscalls:sys_exit_pread64 /pid == {0}/ {{ @calls = count(); @bytes = sum(args->ret); }}",
        hold.pid()
    );
    let mut witness = Command::new(bpftrace);
    witness.args(["-f", "json", "-e", &program]);
    let Some(witness) = Witness::start(witness) else {
        return live.skip("bpftrace does not trace here");
    };
    let trace = live.attach(["-p", &hold.pid_arg()]);
    hold.go();
    let report = trace.stop().report();
    let seen = witness.stop();
    let process = report.process(hold.pid().into());
    assert_eq!(process.num("/ops/read/count"), num_or_zero(&seen, "/@calls"));
    assert_eq!(process.num("/ops/read/bytes"), num_or_zero(&seen, "/@bytes"));
    hold.end();
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Mounts debugfs in a mount namespace of the calling process. Where that fails, bpftrace says what it lacks.
fn mount_debugfs() -> std::io::Result<()> {
    let (none, private) = (c"none".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: live C strings; no data.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS);
        libc::mount(none, c"/".as_ptr(), std::ptr::null(), private, std::ptr::null());
        libc::mount(none, c"/sys/kernel/debug".as_ptr(), c"debugfs".as_ptr(), 0, std::ptr::null());
    }
    Ok(())
}

/// A bpftrace that prints JSON lines.
struct Witness(std::process::Child, std::io::BufReader<std::process::ChildStdout>);

impl Witness {
    /// Starts it and waits until it has printed "ready". It wants tracefs at its old place under debugfs: mounted for
    /// it alone.
    fn start(mut command: Command) -> Option<Self> {
        use std::io::BufRead;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(mount_debugfs) };
        let mut child = command.spawn().ok()?;
        let mut stdout = std::io::BufReader::new(child.stdout.take()?);
        let mut line = String::new();
        while stdout.read_line(&mut line).ok()? > 0 {
            if line.contains("ready") {
                return Some(Self(child, stdout));
            }
            line.clear();
        }
        child.wait().ok()?;
        None
    }

    /// Ends it and returns its maps.
    fn stop(mut self) -> serde_json::Value {
        use std::io::Read;
        iotrace_live::kill(self.0.id(), libc::SIGINT);
        let mut text = String::new();
        self.1.read_to_string(&mut text).expect("read bpftrace");
        self.0.wait().expect("wait for bpftrace");
        let mut maps = serde_json::Map::new();
        for line in text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
            if let Some(serde_json::Value::Object(data)) = line.get("data").cloned() {
                maps.extend(data);
            }
        }
        maps.into()
    }
}
