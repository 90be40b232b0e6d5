//! Reports of literal traces against the files in `tests/golden/`. `UPDATE_GOLDEN=1 cargo test --test golden` rewrites
//! them: read the difference before committing it.

use std::fs;
use std::path::PathBuf;

use iotrace::model::Trace;
use iotrace::redact::{Redactor, redacted};
use iotrace::report::{self, Format, Style};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

#[path = "golden/schema.rs"]
mod schema;
#[path = "golden/traces.rs"]
mod traces;

/// Every trace by the name of its files.
fn all_traces() -> [(&'static str, Trace); 9] {
    [
        ("loader", traces::loader()),
        ("block-only", traces::block_only()),
        ("block-only-idle", traces::block_only_idle()),
        ("empty", traces::empty()),
        ("lossy", traces::lossy()),
        ("clumsy", traces::clumsy()),
        ("epochs", traces::epochs()),
        ("redacted", redacted(traces::loader(), &Redactor::with_key("golden"))),
        ("system", traces::system()),
    ]
}

fn render(trace: &Trace, format: Format, style: Style) -> String {
    let mut out = Vec::new();
    report::write(trace, format, &style, &mut out).expect("writing to memory");
    String::from_utf8(out).expect("a report is UTF-8")
}

fn text(trace: &Trace, width_columns: usize) -> String {
    render(trace, Format::Text, Style { width_columns, top: 2, ..Style::default() })
}

fn json(trace: &Trace) -> Value {
    serde_json::from_str(&render(trace, Format::Json, Style::default())).expect("a report is JSON")
}

/// Compares with the file `name`, in which the version of iotrace is a word: a release changes no golden file.
fn check(name: &str, got: &str) {
    let got = got.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &got).expect("golden file written");
        return;
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        want == got,
        "{} differs; UPDATE_GOLDEN=1 rewrites it. First difference: {:?}",
        path.display(),
        want.lines().zip(got.lines()).find(|(want, got)| want != got)
    );
}

#[test]
fn text_at_80_columns() {
    all_traces().iter().for_each(|(name, trace)| check(&format!("{name}.80.txt"), &text(trace, 80)));
}

#[test]
fn text_at_132_columns() {
    all_traces().iter().for_each(|(name, trace)| check(&format!("{name}.132.txt"), &text(trace, 132)));
}

#[test]
fn text_at_160_columns() {
    check("loader.160.txt", &text(&traces::loader(), 160));
}

#[test]
fn text_in_colour() {
    let style = Style { colour: true, top: 1, ..Style::default() };
    check("lossy.colour.txt", &render(&traces::lossy(), Format::Text, style));
}

#[test]
fn text_in_full() {
    let style = Style { verbose: true, top: 1, ..Style::default() };
    check("system.verbose.txt", &render(&traces::system(), Format::Text, style));
}

#[test]
fn json_is_one_line_each() {
    let small = ["loader", "empty", "lossy", "clumsy", "redacted"];
    for (name, trace) in all_traces().into_iter().filter(|(name, _)| small.contains(name)) {
        let line = render(&trace, Format::Json, Style::default());
        assert!(line.ends_with("}\n") && line.lines().count() == 1);
        check(&format!("{name}.json"), &line);
    }
}

#[test]
fn no_line_is_wider_than_asked_for() {
    for (name, trace) in all_traces() {
        for width in [60, 72, 80, 100, 120, 132, 160] {
            for verbose in [false, true] {
                let style = Style { width_columns: width, top: 20, verbose, ..Style::default() };
                let report = render(&trace, Format::Text, style);
                let wide = report.lines().find(|line| line.width() > width);
                assert_eq!(wide, None, "{name} at {width}");
            }
        }
    }
}

#[test]
fn nothing_from_the_traced_machine_reaches_the_terminal_raw() {
    for (name, trace) in all_traces() {
        let report = text(&trace, 132);
        let control = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
        assert_eq!(report.find(control), None, "{name}");
        let line = render(&trace, Format::Json, Style::default());
        assert_eq!(line.trim_end().find(control), None, "{name} as JSON");
        assert!(!report.lines().any(|line| line.ends_with(' ')), "{name} has trailing blanks");
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for (name, trace) in all_traces() {
        let coloured = render(&trace, Format::Text, Style { colour: true, top: 2, ..Style::default() });
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some(at) = rest.find('\x1b') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + rest[at..].find('m').expect("an SGR sequence") + 1..];
        }
        plain.push_str(rest);
        assert!(plain == text(&trace, 80), "{name}");
    }
}

#[test]
fn processes_come_by_storage_time_then_pid() {
    for (name, trace) in all_traces().into_iter().filter(|(_, trace)| !trace.block_only()) {
        let report = json(&trace);
        let order: Vec<_> = report["processes"]
            .as_array()
            .expect("processes")
            .iter()
            .map(|p| (std::cmp::Reverse(p["storage_ns"].as_u64()), p["pid"].as_u64()))
            .collect();
        assert!(order.is_sorted(), "{name}");
    }
}

#[test]
fn where_only_block_requests_were_traced_theirs_is_the_time() {
    let report = json(&traces::block_only());
    let time = |p: &Value| -> u64 {
        let ops = ["read", "write", "flush", "discard"].map(|op| p["block"][op]["total"]["sum"].as_u64());
        ops.into_iter().flatten().sum()
    };
    let times: Vec<_> = report["processes"].as_array().expect("processes").iter().map(time).collect();
    assert!(times.is_sorted_by(|a, b| a >= b) && times[0] > 0, "{times:?}");
    let of_reads = report["probes"].as_array().expect("probes").iter().find(|p| p["metric"] == "read/write");
    assert!(of_reads.is_some_and(|p| p["variant"].is_null() && p["reason"] == "left out by --block-only"));
}

#[test]
fn names_come_back_from_json() {
    let report = json(&traces::loader());
    let processes = report["processes"].as_array().expect("processes");
    assert!(
        processes.iter().any(|p| p["comm"] == "evil\u{1b}[31m\n\\xff"),
        "invalid UTF-8 is \\xNN, the rest as it was"
    );
}

#[test]
fn a_redacted_report_names_no_file() {
    let trace = redacted(traces::loader(), &Redactor::with_key("golden"));
    let clumsy = redacted(traces::clumsy(), &Redactor::with_key("golden"));
    for trace in [&trace, &clumsy] {
        for format in [Format::Text, Format::Json] {
            let style = Style { width_columns: 160, top: 9, verbose: true, ..Style::default() };
            let report = render(trace, format, style);
            for name in [
                "imagenet", "n0210", "n0144", "ckpt", "step_900", "mnt", "shard", "secret", "models",
                "owned", "/log",
            ] {
                assert!(!report.contains(name), "{name}");
            }
            assert!(report.contains("redacted"));
        }
    }
}

#[test]
fn a_crowd_of_processes_is_reported() {
    let trace = traces::crowd(5_000);
    assert_eq!(json(&trace)["processes"].as_array().map(Vec::len), Some(5_000));
    assert!(text(&trace, 80).contains("all 5 000"));
}

/// A reader that closes the pipe is an error of the writer, and the first one ends the report.
#[test]
fn a_closed_pipe_is_an_error() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for format in [Format::Text, Format::Json] {
        let error =
            report::write(&traces::system(), format, &Style::default(), &mut Closed).expect_err("closed");
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
}
