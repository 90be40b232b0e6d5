//! Files: how many of which size, and those, with their folders and file systems, that were waited for longest.

use std::io;

use super::super::units;
use super::page::{Ink, Page};
use crate::model::{Files, Trace, wait_ns};

mod classes;
mod events;
mod lists;

/// Rows of a list.
const ROWS: usize = 5;
/// Rows when everything is asked for: as many as there are.
const VERBOSE_ROWS: usize = 20;

/// Writes the sections; nothing when no file was used.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let files = &trace.files;
    if files.distinct > 0 {
        page.heading("Files")?;
        page.flow("  ", " · ", &sessions(files))?;
        page.blank()?;
        classes::write(page, files)?;
        lists::write(page, files)?;
        if files.records_lost > 0 {
            let lost = units::counted(files.records_lost, "file", "files");
            let text = format!(
                "The lists lack {lost}, whose records did not fit the ring buffer; the sizes do not."
            );
            page.paragraph(Ink::Red, 2, 2, &text)?;
        }
    }
    events::checkpoints(page, files)?;
    events::failures(page, files)
}

fn sessions(files: &Files) -> Vec<String> {
    let sessions = &files.sessions;
    let mut facts = vec![
        units::counted(files.distinct, "distinct file", "distinct files"),
        format!("{} in {}", units::counted(sessions.opened, "opening", "openings"), folders(files)),
    ];
    let rare = [
        (sessions.whole_file, "read from start to end"),
        (sessions.open_before, "open before"),
        (sessions.open_at_end, "open at the end"),
    ];
    facts.extend(
        rare.into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", units::count(count))),
    );
    facts
}

fn folders(files: &Files) -> String {
    units::counted(files.folder_count, "folder", "folders")
}

/// What was waited for all files.
fn all_wait_ns(files: &Files) -> u64 {
    files.classes.iter().map(|class| wait_ns(&class.totals)).sum()
}

/// `FOLDER (5 of 1 204)`; the name alone when all are shown.
fn of_all(name: &str, shown: usize, all: u64) -> String {
    if shown as u64 >= all { name.to_owned() } else { format!("{name} ({shown} of {})", units::count(all)) }
}
