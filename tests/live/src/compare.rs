//! The report against the truth of a workload, field by field.

use serde_json::{Map, Value};

use crate::{Process, Report, num, num_or_zero, text};

/// Checks every process that the workload planted: reads and writes call for call, sizes, errors, names and files.
pub fn assert_matches(report: &Report, truth: &Value) {
    let planted = truth["processes"].as_array().expect("the truth has no processes");
    assert!(!planted.is_empty(), "nothing was planted: {truth}");
    if report.excusable() > 0 {
        return assert_close(report, planted);
    }
    for planted in planted {
        let process = report.process(num(planted, "/pid"));
        for op in ["read", "write"] {
            assert_op_matches(&process, planted, op);
        }
        assert_calls_match(&process, planted);
        let who = format!("pid {} {}", process.pid(), process.comm());
        for (kind, counts) in planted["apart"].as_object().expect("the truth has no apart") {
            for (name, count) in counts.as_object().expect("apart counts") {
                let seen = num_or_zero(process.0, &format!("/apart/{kind}/{name}"));
                assert_eq!(Some(seen), count.as_u64(), "{who}: apart.{kind}.{name}");
            }
        }
        assert_eq!(
            process.num("/file_size/count"),
            num(planted, "/file_size/count"),
            "{who}: distinct files"
        );
        assert_eq!(
            process.num("/file_size/sum"),
            num(planted, "/file_size/sum"),
            "{who}: bytes of distinct files"
        );
        assert_eq!(process.num("/ppid"), num(planted, "/ppid"), "{who}: parent");
        assert_eq!(process.comm(), text(planted, "/comm"), "{who}: name");
    }
}

/// Where the kernel skipped runs of a program: never a call or a byte too many, and no more missing than it skipped.
fn assert_close(report: &Report, planted: &[Value]) {
    let mut missing = 0;
    for planted in planted {
        let process = report.find(num(planted, "/pid"));
        for op in ["read", "write"] {
            for field in ["count", "bytes"] {
                let at = format!("/ops/{op}/{field}");
                let (seen, truth) = (process.as_ref().map_or(0, |p| p.num(&at)), num(planted, &at));
                assert!(seen <= truth, "{op}: {field}: {seen} of {truth}: {planted}");
                missing += if field == "count" { truth - seen } else { 0 };
            }
        }
    }
    let excusable = report.excusable();
    println!("{missing} calls missing, {excusable} runs skipped by the kernel");
    // A process whose fork was skipped lacks all its calls, so this bounds nothing below that many calls.
    assert!(
        missing <= excusable.max(planted.len() as u64) * 4,
        "{missing} calls missing, {excusable} runs skipped"
    );
}

/// Checks the operations that move no data, as far as the workload planted them.
fn assert_calls_match(process: &Process<'_>, planted: &Value) {
    let ops = planted["ops"].as_object().expect("the truth has no ops");
    for op in ops.keys().filter(|op| !["read", "write"].contains(&op.as_str())) {
        let who = format!("pid {} {}: {op}", process.pid(), process.comm());
        let at = |field: &str| format!("/ops/{op}/{field}");
        for field in ["count", "error_count"] {
            assert_eq!(num_or_zero(process.0, &at(field)), num(planted, &at(field)), "{who}: {field}");
        }
        let count = num(planted, &at("count"));
        if count == 0 {
            continue;
        }
        for field in ["errors", "forms"] {
            assert_eq!(object(process.0, &at(field)), object(planted, &at(field)), "{who}: {field}");
        }
        assert_eq!(process.num(&at("latency/count")), count, "{who}: every call has a latency");
    }
}

/// Checks one op of one process.
pub fn assert_op_matches(process: &Process<'_>, planted: &Value, op: &str) {
    let who = format!("pid {} {}: {op}", process.pid(), process.comm());
    let at = |field: &str| format!("/ops/{op}/{field}");
    for field in ["count", "bytes", "error_count", "short", "eof"] {
        assert_eq!(process.num(&at(field)), num(planted, &at(field)), "{who}: {field}");
    }
    for field in ["errors", "forms"] {
        let (seen, truth) = (object(process.0, &at(field)), object(planted, &at(field)));
        assert_eq!(seen, truth, "{who}: {field}");
    }
    let (count, failed) = (num(planted, &at("count")), num(planted, &at("error_count")));
    assert_eq!(process.num(&at("latency/count")), count, "{who}: every call has a latency");
    assert_eq!(process.num(&at("size/count")), count - failed, "{who}: every successful call has a size");
    assert_eq!(process.num(&at("size/sum")), num(planted, &at("bytes")), "{who}: sizes sum to the bytes");
    assert_sizes(process.0, planted, op, &who);
}

/// Checks that each bucket of the size histogram holds exactly the planted transfers of its sizes.
fn assert_sizes(process: &Value, planted: &Value, op: &str, who: &str) {
    let list = |value: &Value, pointer: &str| -> Vec<Vec<u64>> {
        let found = value.pointer(pointer).unwrap_or_else(|| panic!("{who}: no list {pointer}"));
        serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{who}: {pointer}: {error}"))
    };
    let sizes = list(planted, &format!("/ops/{op}/sizes"));
    for bucket in list(process, &format!("/ops/{op}/size/buckets")) {
        let [low, high, count] = bucket[..] else {
            panic!("{who}: a bucket is not [low, high, count]: {bucket:?}")
        };
        let truth: u64 =
            sizes.iter().filter(|size| (low..=high).contains(&size[0])).map(|size| size[1]).sum();
        assert_eq!(
            count, truth,
            "{who}: transfers of {low} to {high} bytes; planted [size, count]: {sizes:?}"
        );
    }
}

/// An object of counts, without its zeroes.
fn object(value: &Value, pointer: &str) -> Map<String, Value> {
    let object =
        value.pointer(pointer).and_then(Value::as_object).unwrap_or_else(|| panic!("no object {pointer}"));
    object
        .iter()
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn planted() -> Value {
        let op = json!({
            "count": 3, "bytes": 5904, "errors": {"EFAULT": 1}, "error_count": 1, "short": 1, "eof": 0,
            "forms": {"read": 3}, "sizes": [[1808, 1], [4096, 1]],
        });
        json!({"pid": 7, "ops": {"read": op}})
    }

    fn seen(count: u64, bucket: [u64; 3]) -> Value {
        let op = json!({
            "count": count, "bytes": 5904, "errors": {"EFAULT": 1, "EIO": 0}, "error_count": 1, "short": 1, "eof": 0,
            "forms": {"read": 3}, "latency": {"count": count},
            "size": {"count": count - 1, "sum": 5904, "buckets": [bucket, [4096, 4607, 1]]},
        });
        json!({"pid": 7, "ns_pid": 7, "comm": "x", "ops": {"read": op}})
    }

    #[test]
    fn a_report_that_says_what_happened_matches() {
        assert_op_matches(&Process(&seen(3, [1792, 1919, 1])), &planted(), "read");
    }

    #[test]
    #[should_panic(expected = "read: count")]
    fn one_call_too_many_does_not_match() {
        assert_op_matches(&Process(&seen(4, [1792, 1919, 1])), &planted(), "read");
    }

    #[test]
    #[should_panic(expected = "transfers of 1920 to 2047 bytes")]
    fn a_transfer_in_the_wrong_bucket_does_not_match() {
        assert_op_matches(&Process(&seen(3, [1920, 2047, 1])), &planted(), "read");
    }
}
