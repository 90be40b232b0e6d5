//! A trace as bytes for a person or a program. Pure: a [`Trace`] and a [`Style`] in, bytes out; no kernel, clock,
//! terminal or environment is asked, so any report can be reproduced from its trace.

use std::io::{self, BufWriter, Write};

use crate::model::Trace;

mod errno;
mod escape;
mod json;
mod patterns;
mod rank;
mod text;
mod units;

/// What a report is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Tables and bars for a terminal or a pipe.
    #[default]
    Text,
    /// One JSON object on one line (docs/json.md).
    Json,
}

/// How a text report looks; JSON ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Width to lay out for, in terminal columns; held within 60..=160.
    pub width_columns: usize,
    /// Emit ANSI colour.
    pub colour: bool,
    /// How many processes are shown in full.
    pub top: usize,
    /// Every process in the table, and a chart for each device.
    pub verbose: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width_columns: 80, colour: false, top: 5, verbose: false }
    }
}

/// Writes the report of `trace` to `out`. The only errors are those of `out`.
pub fn write(trace: &Trace, format: Format, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    match format {
        Format::Text => text::write(trace, style, &mut out)?,
        Format::Json => json::write(trace, &mut out)?,
    }
    out.flush()
}
