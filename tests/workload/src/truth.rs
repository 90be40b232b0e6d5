//! The one JSON line on stdout.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use crate::contained;

/// Prints the truth of `workload` as one line, in one write: the processes it planted, and `extra` keys beside them.
pub fn print(workload: &str, processes: &[Value], extra: Value) -> Result<()> {
    let mut line = json!({
        "workload": workload,
        "pid": std::process::id(),
        "static": cfg!(target_feature = "crt-static"),
        "processes": processes,
    });
    if let (Some(object), Ok(around)) = (line.as_object_mut(), std::env::var(contained::AROUND)) {
        object.insert("contained".into(), serde_json::from_str(&around)?);
    }
    if let (Some(object), Value::Object(extra)) = (line.as_object_mut(), extra) {
        object.extend(extra);
    }
    let mut line = line.to_string();
    line.push('\n');
    // Not through the line buffer of `println`: one write, so that lines of several processes never mix.
    std::fs::File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?)
        .write_all(line.as_bytes())?;
    Ok(())
}
