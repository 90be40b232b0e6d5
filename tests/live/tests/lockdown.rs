//! What kernel lockdown allows, and what iotrace says where it allows too little.

use iotrace_live::{Need, live};
use serde_json::Value;

/// Says nothing about the kernel's types, without which iotrace does not come as far.
fn hides_its_types() -> bool {
    std::env::var_os("IOTRACE_VM_NOBTF").is_some()
}

/// The mode that the virtual machine was booted with; none on a machine that is not the test's own.
fn mode() -> Option<String> {
    std::env::var("IOTRACE_VM_LOCKDOWN").ok()
}

#[test]
fn what_a_locked_down_kernel_forbids_is_said() {
    let Some(live) = live!(Need::NoTracing, Need::Root) else { return };
    if hides_its_types() {
        return live.skip("this machine hides its BTF");
    }
    let check = |format: &str| live.iotrace(["check", "--format", format]).outcome();
    let json = check("json");
    let found: Value = serde_json::from_slice(&json.stdout).expect("check prints JSON");
    if mode().as_deref() != Some("confidentiality") {
        assert_eq!((json.code(), &found["can_trace"]), (Some(0), &Value::Bool(true)), "{}", json.describe());
        assert_ne!(found["lockdown"], "confidentiality");
        let workload = ["forms", "--calls", "20", "--dir", live.dir_arg()];
        live.run().workload(workload).outcome().assert_truth();
        return;
    }

    assert_eq!((json.code(), &found["can_trace"]), (Some(1), &Value::Bool(false)), "{}", json.describe());
    assert_eq!(found["lockdown"], "confidentiality");
    // What, why, and what to do.
    let words = ["lockdown=confidentiality", "bpf_probe_read_kernel", "lockdown=integrity"];
    let text = check("text");
    assert_eq!(text.code(), Some(1), "{}", text.describe());
    let said = text.stdout_text();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");

    let refused = [
        (live.run().args(["--", "true"]).outcome(), 125),
        (live.run().args(["--block-only", "--", "true"]).outcome(), 125),
        (live.iotrace(["attach", "-a", "-d", "1s"]).outcome(), 1),
    ];
    for (outcome, code) in refused {
        outcome.assert_refused(&words);
        assert_eq!(outcome.code(), Some(code), "{}", outcome.describe());
    }
}
