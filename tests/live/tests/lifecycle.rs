//! How a trace begins and ends: what stays behind, who gets which signal and exit code.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::{
    ffi::OsStrExt,
    fs::PermissionsExt,
    process::{CommandExt, ExitStatusExt},
};
use std::process::Command;
use std::time::{Duration, Instant};

use iotrace_live::{assert_matches, bpf, kill, live, num};

#[test]
fn kill_9_leaves_no_program_map_or_link_behind() {
    let Some(live) = live!() else { return };
    let hold = live.hold(&[]);
    let trace = live.attach(["-p", &hold.pid_arg()]);
    let objects = bpf::held_by(trace.pid());
    assert!(
        objects.iter().any(|o| matches!(o, bpf::Object::Program(_) | bpf::Object::Link(_))),
        "{objects:?}"
    );
    assert!(objects.iter().all(|object| object.is_loaded()), "{objects:?}");
    kill(trace.pid(), libc::SIGKILL);
    trace.wait();
    // The kernel frees objects after a grace period.
    let end = Instant::now() + Duration::from_secs(20);
    let mut left: BTreeSet<_> = objects;
    while !left.is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
        left.retain(|object| object.is_loaded());
    }
    assert!(left.is_empty(), "still loaded: {left:?}");
    hold.end();
}

#[test]
fn two_traces_at_once_are_both_right() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&["--after", "1"]);
    let one = live.attach(["-p", &hold.pid_arg()]);
    let all = live.attach(["-a"]);
    let third = live.run().workload(["forms", "--calls", "100", "--dir", live.dir_arg()]).outcome();
    let truth = hold.go();
    let (one, all) = (one.stop().report(), all.stop().report());
    let (_, forms) = third.assert_truth();
    assert_matches(&one, &truth);
    assert_matches(&all, &truth);
    assert_matches(&all, &forms);
    assert!(one.find(num(&forms, "/processes/0/pid")).is_none(), "a process that is no target");
    hold.end();
}

#[test]
fn the_exit_code_of_the_command_is_ours() {
    let Some(live) = live!() else { return };
    for code in [0, 3, 255] {
        let outcome = live.run().workload(["exit", "--code", &code.to_string()]).outcome();
        assert_eq!(outcome.code(), Some(code), "{}", outcome.describe());
        outcome.report();
    }
}

#[test]
fn a_command_that_dies_of_a_signal_exits_with_128_and_its_number() {
    let Some(live) = live!() else { return };
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let outcome = live.run().workload(["exit", "--signal", &signal.to_string()]).outcome();
        assert_eq!(outcome.code(), Some(128 + signal), "{}", outcome.describe());
        outcome.report();
    }
}

#[test]
fn ctrl_c_ends_an_attached_trace_with_its_report() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&[]);
    let trace = live.attach(["-p", &hold.pid_arg(), "-d", "600s"]);
    let truth = hold.go();
    let outcome = trace.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    assert_matches(&outcome.report(), &truth);
    hold.end();
}

#[test]
fn signals_that_come_together_end_the_trace_once_with_its_report() {
    let Some(live) = live!() else { return };
    let signals = [libc::SIGUSR1, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR2, libc::SIGINT];
    let mut hold = live.hold(&[]);
    let trace = live.attach(["-p", &hold.pid_arg()]);
    let truth = hold.go();
    // Stopped meanwhile, so that none is taken before the last is sent, however slow the machine.
    kill(trace.pid(), libc::SIGSTOP);
    for signal in signals {
        kill(trace.pid(), signal);
    }
    kill(trace.pid(), libc::SIGCONT);
    let outcome = trace.wait();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    assert_matches(&outcome.report(), &truth);
    hold.end();
}

#[test]
fn usr1_does_not_end_an_attached_trace() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&[]);
    let trace = live.attach(["-p", &hold.pid_arg()]);
    kill(trace.pid(), libc::SIGUSR1);
    let truth = hold.go();
    assert_matches(&trace.stop().report(), &truth);
    hold.end();
}

#[test]
fn a_second_signal_ends_a_trace_whose_report_nobody_reads() {
    let Some(live) = live!() else { return };
    let hold = live.hold(&[]);
    let path = live.dir().join("nobody-reads");
    let fifo = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a NUL-ended path.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0, "mkfifo");
    // For reading too, so that opening does not wait for a writer.
    let mut pipe = OpenOptions::new().read(true).write(true).open(&path).expect("open the pipe");
    // Filled up, so that the first byte of the report waits.
    // SAFETY: a plain call on an open descriptor.
    let bytes = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) };
    pipe.write_all(&vec![0; bytes as usize]).expect("fill the pipe");
    let trace = live.attach(["-p", &hold.pid_arg(), "-o", path.to_str().expect("UTF-8")]);
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGHUP] {
        kill(trace.pid(), signal);
        std::thread::sleep(Duration::from_secs(1));
    }
    kill(trace.pid(), libc::SIGTERM);
    let outcome = trace.wait();
    assert_eq!(outcome.status.signal(), Some(libc::SIGTERM), "{}", outcome.describe());
    hold.end();
}

#[test]
fn a_hangup_ignored_on_entry_stays_ignored() {
    let Some(live) = live!() else { return };
    let mut hold = live.hold(&[]);
    let mut command = Command::new(&live.iotrace);
    command.args(["attach", "--format", "json", "-p", &hold.pid_arg()]);
    // As nohup does.
    // SAFETY: signal(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let trace = iotrace_live::Attach::of(command);
    kill(trace.pid(), libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(500));
    let truth = hold.go();
    assert_matches(&trace.stop().report(), &truth);
    hold.end();
}

#[test]
fn descendants_that_outlive_the_command_are_told() {
    let Some(live) = live!() else { return };
    for (script, told) in [("sleep 1 >&- 2>&- & exit 0", true), ("sleep 0.1 & wait; exit 0", false)] {
        let outcome = live.run().args(["--", "sh", "-c", script]).outcome();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
        assert_eq!(outcome.stderr.contains("descendants"), told, "{script}: {}", outcome.describe());
    }
}

#[test]
fn a_report_takes_the_place_of_what_a_file_held() {
    let Some(live) = live!() else { return };
    let path = live.file("report", 1 << 20);
    let outcome = live.run().args(["-o", &path]).workload(["exit"]).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let report = std::fs::read(&path).expect("the report");
    serde_json::from_slice::<serde_json::Value>(&report).expect("nothing but the report");
    let outcome = live.run().args(["-o", "-"]).workload(["exit"]).outcome();
    outcome.report();
}

#[test]
fn a_script_without_an_interpreter_runs_in_the_shell() {
    let Some(live) = live!() else { return };
    let script = live.dir().join("script");
    std::fs::write(&script, "exit $1\n").expect("write a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("make it executable");
    let outcome = live.run().arg("--").arg(&script).arg("7").outcome();
    assert_eq!(outcome.code(), Some(7), "{}", outcome.describe());
    outcome.report();
}

#[test]
fn signals_reach_the_command() {
    let Some(live) = live!() else { return };
    let mut command = Command::new(&live.iotrace);
    command.args(["run", "--format", "json", "--"]).arg(&live.workload).args([
        "hold",
        "--dir",
        live.dir_arg(),
    ]);
    let hold = iotrace_live::Hold::of(command);
    kill(hold.pid(), libc::SIGTERM);
    let outcome = hold.outcome();
    assert_eq!(outcome.code(), Some(128 + libc::SIGTERM), "{}", outcome.describe());
    outcome.report();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let Some(live) = live!() else { return };
    for format in ["text", "json"] {
        // A workload that prints nothing: it would complain of the pipe itself.
        let run = live.iotrace(["run", "--format", format]).workload(["exit"]);
        let mut child = run.spawn();
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("wait for iotrace");
        let stderr = String::from_utf8_lossy(&output.stderr).to_lowercase();
        for word in ["panicked", "broken pipe"] {
            assert!(!stderr.contains(word), "--format {format}: {stderr}");
        }
        assert_ne!(output.status.code(), Some(101), "--format {format}: {stderr}");
    }
}

#[test]
fn a_trace_says_on_stderr_when_it_begins_and_nothing_else_on_stdout() {
    let Some(live) = live!() else { return };
    let outcome = live.iotrace(["run", "--format", "text"]).workload(["exit"]).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    assert!(!outcome.stdout.is_empty());
    assert!(
        !outcome.stderr.contains('\r'),
        "a progress line where there is no terminal: {:?}",
        outcome.stderr
    );
    assert!(!outcome.stdout_text().contains('\x1b'), "colour where there is no terminal");
}
