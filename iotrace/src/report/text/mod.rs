//! The text report, top to bottom: what was traced, time by operation, what stands out, the table of processes, files, each
//! of the top processes in full, the block layer, and what to think of the numbers (coverage, losses, own cost).

use std::io::{self, Write};

use super::Style;
use crate::model::Trace;

mod block;
mod chart;
mod coverage;
mod files;
mod header;
mod ledger;
mod operations;
mod page;
mod patterns;
mod process;
mod summary;
mod table;

use page::Page;

/// Writes `trace` as text, no line wider than the style's width.
pub fn write(trace: &Trace, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(style, out);
    header::write(&mut page, trace)?;
    operations::write(&mut page, trace)?;
    ledger::write(&mut page, trace)?;
    patterns::write(&mut page, trace)?;
    summary::write(&mut page, trace)?;
    files::write(&mut page, trace)?;
    process::write_top(&mut page, trace)?;
    block::write(&mut page, trace)?;
    coverage::write(&mut page, trace)
}
