//! What stands out, a sentence each, with where and by whom.

use std::io;

use super::super::escape::{fit_middle, visible};
use super::super::patterns::sentence;
use super::page::{Ink, Page};
use crate::analysis::{self, Pattern};
use crate::model::Trace;

/// Writes the section; nothing when nothing stands out.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    if trace.processes.iter().any(|p| p.calls() > 0) && analysis::too_much_lost(trace) {
        page.heading("Patterns")?;
        return page.paragraph(
            Ink::Plain,
            2,
            0,
            "Insufficient: too many events were lost to judge by the rest.",
        );
    }
    let patterns = analysis::patterns(trace);
    if patterns.is_empty() {
        return Ok(());
    }
    page.heading("Patterns")?;
    for pattern in &patterns {
        page.paragraph(Ink::Plain, 2, 2, &format!("{}{}", sentence(pattern), who(pattern)))?;
        if let Some(path) = &pattern.path {
            page.line(&format!("    {}", fit_middle(&visible(path), page.width - 4)))?;
        }
    }
    Ok(())
}

fn who(pattern: &Pattern) -> String {
    let pids: Vec<_> = pattern.pids.iter().map(u32::to_string).collect();
    match pids.len() {
        0 => String::new(),
        1 => format!(" Pid {}.", pids[0]),
        _ => format!(" Pids {}.", pids.join(", ")),
    }
}
