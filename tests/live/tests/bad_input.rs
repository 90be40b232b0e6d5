//! Input that cannot be used: a clear error, before anything is traced.

use std::os::unix::fs::PermissionsExt;

use iotrace_live::{Live, Need, live};

/// The largest pid there can be (PID_MAX_LIMIT) and then some.
const NO_PID: &str = "4194305";
const NOBODY: u32 = 65_534;

#[test]
fn no_target_is_an_error_that_names_the_three_ways() {
    let Some(live) = live!(Need::NoTracing) else { return };
    let outcome = live.iotrace(["attach"]).outcome();
    outcome.assert_refused(&["-p", "--cgroup", "-a"]);
    assert_eq!(outcome.code(), Some(2), "a usage error");
}

#[test]
fn a_pid_that_is_not_there_is_named() {
    let Some(live) = live!() else { return };
    live.iotrace(["attach", "-p", NO_PID, "-d", "1s"]).outcome().assert_refused(&[NO_PID, "process"]);
}

#[test]
fn a_duration_must_be_a_length_of_time() {
    let Some(live) = live!(Need::NoTracing) else { return };
    for duration in ["0", "0s", "-1", "1x", "", "nan"] {
        let outcome = live.iotrace(["attach", "-a", &format!("--duration={duration}")]).outcome();
        outcome.assert_refused(&["duration"]);
        assert_eq!(outcome.code(), Some(2), "--duration={duration}: {}", outcome.describe());
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let Some(live) = live!() else { return };
    live.iotrace(["attach", "-a", "-d", "1s", "--device", "nosuchdisk"])
        .outcome()
        .assert_refused(&["nosuchdisk"]);
}

#[test]
fn a_cgroup_that_is_not_there_is_named() {
    let Some(live) = live!() else { return };
    live.iotrace(["attach", "--cgroup", "/no/such/group", "-d", "1s"])
        .outcome()
        .assert_refused(&["/no/such/group"]);
}

#[test]
fn a_format_or_op_that_does_not_exist_is_a_usage_error() {
    let Some(live) = live!(Need::NoTracing) else { return };
    for (flag, value) in [("--format", "yaml"), ("--op", "levitate")] {
        let outcome = live.iotrace(["attach", "-a", flag, value]).outcome();
        outcome.assert_refused(&[value]);
        assert_eq!(outcome.code(), Some(2), "{flag} {value}: {}", outcome.describe());
    }
}

#[test]
fn a_command_that_is_not_there_exits_with_127() {
    let Some(live) = live!() else { return };
    for command in ["no-such-command", "/no/such/command"] {
        let outcome = live.run().args(["--", command]).outcome();
        outcome.assert_refused(&[command]);
        assert_eq!(outcome.code(), Some(127), "{}", outcome.describe());
    }
}

#[test]
fn a_command_that_cannot_be_executed_exits_with_126() {
    let Some(live) = live!() else { return };
    let file = live.file("plain-file", 100);
    for command in [file.as_str(), live.dir_arg()] {
        let outcome = live.run().args(["--", command]).outcome();
        outcome.assert_refused(&[command]);
        assert_eq!(outcome.code(), Some(126), "{}", outcome.describe());
    }
}

#[test]
fn an_empty_command_is_not_found() {
    let Some(live) = live!(Need::NoTracing) else { return };
    let outcome = live.run().args(["--", ""]).outcome();
    outcome.assert_refused(&["not found"]);
    assert_eq!(outcome.code(), Some(127), "{}", outcome.describe());
}

#[test]
fn a_missing_interpreter_is_named() {
    let Some(live) = live!() else { return };
    let script = live.dir().join("script");
    std::fs::write(&script, "#!/no/such/shell -e\n").expect("write a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("make it executable");
    let outcome = live.run().arg("--").arg(&script).outcome();
    outcome.assert_refused(&["/no/such/shell"]);
    assert_eq!(outcome.code(), Some(127), "{}", outcome.describe());
}

#[test]
fn an_option_that_run_does_not_have_is_a_usage_error() {
    let Some(live) = live!(Need::NoTracing) else { return };
    for args in [["-d", "5", "--", "/bin/true"], ["--fromat", "json", "--", "/bin/true"]] {
        let outcome = live.run().args(args).outcome();
        outcome.assert_refused(&[args[0]]);
        assert_eq!(outcome.code(), Some(2), "{}", outcome.describe());
    }
}

#[test]
fn a_command_that_never_starts_leaves_files_as_they_were() {
    let Some(live) = live!() else { return };
    let script = live.dir().join("script");
    std::fs::write(&script, "#!/no/such/shell\n").expect("write a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("make it executable");
    let (old, new) = (live.dir().join("old"), live.dir().join("new"));
    std::fs::write(&old, "kept").expect("write a file");
    for path in [&old, &new] {
        let outcome = live.run().arg("-o").arg(path).arg("--").arg(&script).outcome();
        assert_eq!(outcome.code(), Some(127), "{}", outcome.describe());
    }
    assert_eq!(std::fs::read_to_string(&old).expect("a file"), "kept");
    assert!(!new.exists(), "an empty report was left behind");
}

#[test]
fn a_closed_or_full_standard_output_is_told() {
    let Some(live) = live!() else { return };
    let shell = |redirection: &str| {
        let script = format!("exec \"$@\" {redirection}");
        let output = std::process::Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(&live.iotrace)
            .args(["attach", "-a", "-d", "1s"])
            .output()
            .expect("run a shell");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (redirection, word, begins) in [(">&-", "closed", false), (">/dev/full", "No space", true)] {
        let (code, stderr) = shell(redirection);
        assert_eq!(code, Some(1), "{redirection}: {stderr}");
        assert!(stderr.contains(word) && stderr.contains("-o"), "{redirection}: {stderr}");
        assert_eq!(stderr.contains("tracing every process"), begins, "{redirection}: {stderr}");
    }
}

#[test]
fn a_folder_that_is_no_cgroup_is_refused() {
    let Some(live) = live!() else { return };
    std::fs::write(live.dir().join("cgroup.procs"), "1\n").expect("write a file");
    live.iotrace(["attach", "-d", "1s", "--cgroup", live.dir_arg()])
        .outcome()
        .assert_refused(&[live.dir_arg(), "cgroup"]);
}

#[test]
fn no_command_is_a_usage_error() {
    let Some(live) = live!(Need::NoTracing) else { return };
    let outcome = live.iotrace(["run"]).outcome();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.describe());
}

/// A copy of the program where any user may execute it; the folder is the caller's to remove.
fn for_everybody(live: &Live) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("iotrace-live-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for everybody");
    let program = folder.join("iotrace");
    std::fs::copy(&live.iotrace, &program).expect("copy iotrace");
    for path in [&folder, &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("open it to everybody");
    }
    program
}

#[test]
fn without_root_the_capability_and_the_way_to_it_are_named() {
    let Some(mut live) = live!(Need::NoTracing, Need::Root) else { return };
    if std::env::var_os("IOTRACE_VM_NOBTF").is_some() {
        return live.skip("without BTF that is the first thing missing");
    }
    live.iotrace = for_everybody(&live);
    let attach = live.iotrace(["attach", "-a", "-d", "1s"]).as_user(NOBODY).outcome();
    let run = live.run().args(["--", "/bin/true"]).as_user(NOBODY).outcome();
    std::fs::remove_dir_all(live.iotrace.parent().expect("in a folder")).expect("remove the copy");
    for outcome in [attach, run] {
        outcome.assert_refused(&["cap_bpf", "cap_perfmon", "root"]);
    }
}

#[test]
fn without_btf_the_message_says_so() {
    let Some(live) = live!(Need::NoTracing, Need::Root) else { return };
    if std::env::var_os("IOTRACE_VM_NOBTF").is_none() {
        return live.skip("this machine has BTF");
    }
    let outcome = live.run().args(["--", "/bin/true"]).outcome();
    if outcome.code() != Some(0) {
        outcome.assert_refused(&["btf"]);
    }
}
