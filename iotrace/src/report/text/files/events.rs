//! What happened to files: checkpoints that were written, calls that failed again and again.

use std::cmp::Reverse;
use std::io;

use super::super::super::escape::{fit_middle, visible};
use super::super::super::{errno, units};
use super::super::page::{Ink, Page};
use super::super::table::{Column, Table};
use super::{ROWS, VERBOSE_ROWS, of_all};
use crate::model::{Checkpoint, Failure, Files};

/// A failure is shown from so many on: every program misses a file or two.
const FAILURES_SHOWN_FROM: u64 = 10;

/// Writes the checkpoints with the longest stalls.
pub fn checkpoints(page: &mut Page, files: &Files) -> io::Result<()> {
    let mut list: Vec<_> = files.checkpoints.iter().collect();
    if list.is_empty() {
        return Ok(());
    }
    list.sort_by_key(|of| (Reverse(of.stall_ns), of.began_ns));
    let all = list.len() as u64;
    list.truncate(if page.verbose { VERBOSE_ROWS } else { ROWS });
    page.heading(&of_all("Checkpoint writes", list.len(), all))?;
    for of in list {
        let bytes = format!("{} in {}", units::bytes(of.bytes), units::counted(of.writes, "write", "writes"));
        let mut facts = vec![bytes];
        if of.syncs > 0 {
            facts.push(units::counted(of.syncs, "fsync", "fsyncs"));
        }
        facts.push(format!(
            "{} of {} in these calls",
            units::duration(of.stall_ns),
            units::duration(of.duration_ns)
        ));
        facts.push(format!("from {}", units::duration(of.began_ns)));
        facts.push(format!("pid {}", of.pid));
        page.line(&format!("  {}", fit_middle(&visible(&of.path), page.width - 2)))?;
        page.flow("    ", " · ", &facts)?;
        page.flow("    ", "", &[because(of, page.width - 4)])?;
    }
    Ok(())
}

fn because(of: &Checkpoint, columns: usize) -> String {
    let rules = format!("counts as one by: {}", of.rules.join(", "));
    let Some(temporary) = &of.temporary else { return rules };
    let name = temporary.rsplit(|&b| b == b'/').next().unwrap_or(temporary);
    let room = columns.saturating_sub(rules.len() + "; written as ".len());
    if room < 12 { rules } else { format!("{rules}; written as {}", fit_middle(&visible(name), room)) }
}

/// Writes the failures that came most often.
pub fn failures(page: &mut Page, files: &Files) -> io::Result<()> {
    let frequent = |of: &&Failure| page.verbose || of.count >= FAILURES_SHOWN_FROM;
    let list: Vec<_> = files.failures.iter().filter(frequent).collect();
    if list.is_empty() {
        return Ok(());
    }
    page.heading("Failed calls")?;
    let rows = list.len().min(if page.verbose { VERBOSE_ROWS } else { ROWS });
    let mut columns =
        vec![Column::number("count"), Column::name("OP"), Column::name("ERROR"), Column::number("PID")];
    columns.push(Column::path(&of_all("FIRST PATH", rows, list.len() as u64)));
    let mut table = Table::new(2, columns);
    for of in &list[..rows] {
        table.row(
            Ink::Plain,
            vec![
                units::count(of.count),
                of.op.to_owned(),
                errno::name(of.errno).into_owned(),
                of.pid.to_string(),
                visible(&of.path),
            ],
        );
    }
    table.write(page)
}
