//! The JSON report against `docs/report.schema.json`, and both against `docs/json.md`.

use std::collections::BTreeSet;

use iotrace::analysis::{KINDS, patterns};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::{all_traces, json, traces};

const SCHEMA: &str = include_str!("../../../docs/report.schema.json");
const GUIDE: &str = include_str!("../../../docs/json.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("the schema is JSON")
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(schema)
        .expect("the schema is a schema")
}

/// Applies `edit` to every object of `value`.
fn for_each_object(value: &mut Value, edit: &mut impl FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            edit(object);
            object.values_mut().for_each(|value| for_each_object(value, edit));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_object(item, edit)),
        _ => {}
    }
}

#[test]
fn reports_fit_the_schema() {
    let validator = validator(&schema());
    for (name, trace) in all_traces() {
        let errors: Vec<_> =
            validator.iter_errors(&json(&trace)).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
}

#[test]
fn the_schema_names_every_field() {
    let mut strict = schema();
    for_each_object(&mut strict, &mut |object| {
        // A property called "properties" would fool this; there is none.
        if object.get("properties").is_some_and(Value::is_object) {
            object.insert("additionalProperties".to_owned(), json!(false));
        }
    });
    let validator = validator(&strict);
    for (name, trace) in all_traces() {
        let error =
            validator.iter_errors(&json(&trace)).next().map(|e| format!("{}: {e}", e.instance_path()));
        assert_eq!(error, None, "{name}");
    }
}

#[test]
fn the_guide_explains_every_field() {
    let mut fields = BTreeSet::new();
    for_each_object(&mut schema(), &mut |object| {
        if let Some(Value::Object(properties)) = object.get("properties") {
            fields.extend(properties.keys().cloned());
        }
    });
    assert!(fields.len() > 80, "the walk found the fields");
    let missing: Vec<_> = fields.iter().filter(|field| !GUIDE.contains(&format!("`{field}`"))).collect();
    assert!(missing.is_empty(), "docs/json.md does not mention {missing:?}");
}

#[test]
fn the_guide_explains_every_kind_of_pattern() {
    let kinds = schema().pointer("/$defs/pattern/properties/kind/enum").cloned();
    let kinds: Vec<String> = serde_json::from_value(kinds.expect("kinds")).expect("names");
    assert_eq!(kinds, KINDS.iter().map(|(kind, _)| *kind).collect::<Vec<_>>());
    for (kind, numbers) in KINDS {
        let row = GUIDE.lines().find(|line| line.starts_with(&format!("| `{kind}` |"))).expect(kind);
        let likewise = row.contains("| likewise |");
        let missing: Vec<_> = numbers.iter().filter(|name| !row.contains(&format!("`{name}`"))).collect();
        assert!(likewise || missing.is_empty(), "docs/json.md does not mention {missing:?} of {kind}");
    }
}

#[test]
fn literal_traces_show_every_kind_of_pattern() {
    let mut shown = BTreeSet::new();
    for (_, trace) in all_traces() {
        shown.extend(patterns(&trace).iter().map(|pattern| pattern.evidence.kind()));
    }
    let missing: Vec<_> = KINDS.iter().filter(|(kind, _)| !shown.contains(kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_schema_rejects_what_is_no_report() {
    let validator = validator(&schema());
    let good = json(&traces::loader());
    assert!(validator.is_valid(&good));
    let wrong: [(&str, Value); 12] = [
        ("/schema_version", json!(2)),
        ("/trace/duration_ns", json!(-1)),
        ("/trace/duration_ns", json!(1.5)),
        ("/trace/started_at", json!("2026-11-30 15:27:29")),
        ("/trace/started_at", json!("2026-13-30T15:27:29Z")),
        ("/processes/0/pid", json!("4121")),
        ("/processes/0/comm", json!("a lone \\ backslash")),
        ("/processes/0/ops/read/errors", json!({ "not an errno": 1 })),
        ("/processes/0/ops/read/latency/buckets/0", json!([0, 1])),
        ("/processes/0/ops/read/latency/p50", json!("1 ms")),
        ("/processes/0/block_detail/0/op", json!("trim")),
        ("/lost/ring_full", Value::Null),
    ];
    for (pointer, value) in wrong {
        let mut report = good.clone();
        *report.pointer_mut(pointer).expect(pointer) = value.clone();
        assert!(!validator.is_valid(&report), "{pointer} = {value} was accepted");
    }
    for (parent, field) in
        [("", "lost"), ("/trace", "kernel"), ("/processes/0/ops", "write"), ("/block", "started")]
    {
        let mut report = good.clone();
        let removed = report.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|o| o.remove(field));
        assert!(removed.is_some() && !validator.is_valid(&report), "{parent}/{field} was not missed");
    }
}
