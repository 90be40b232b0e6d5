//! `iotrace check`: what can be traced here.

use iotrace_live::{Need, live};

#[test]
fn where_tracing_works_check_says_so() {
    let Some(live) = live!() else { return };
    let outcome = live.iotrace(["check"]).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let text = outcome.stdout_text().to_lowercase();
    for word in ["block", "read", "btf", "cap_bpf"] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn each_metric_of_check_has_a_variant_or_a_reason() {
    let Some(live) = live!() else { return };
    let outcome = live.iotrace(["check", "--format", "json"]).outcome();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.describe());
    let check: serde_json::Value = serde_json::from_slice(&outcome.stdout).expect("check prints JSON");
    assert_eq!(check["can_trace"], true, "{check}");
    let metrics = check["metrics"].as_array().expect("a list of metrics");
    assert!(metrics.len() >= 4, "{metrics:?}");
    for metric in metrics {
        let said = |key: &str| metric[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(said("metric") && (said("variant") || said("reason")), "{metric}");
    }
}

#[test]
fn check_answers_without_root_too() {
    let Some(live) = live!(Need::NoTracing) else { return };
    let outcome = live.iotrace(["check", "--format", "json"]).outcome();
    assert!(outcome.code().is_some_and(|code| code != 101), "{}", outcome.describe());
    serde_json::from_slice::<serde_json::Value>(&outcome.stdout)
        .expect("check prints JSON whatever it finds");
}
