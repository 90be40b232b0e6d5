//! What was waited for longest: files, folders, extensions; and the file systems they lie on.

use std::io;

use super::super::super::escape::visible;
use super::super::super::units;
use super::super::page::{Ink, Page};
use super::super::table::{Column, Table};
use super::{ROWS, VERBOSE_ROWS, all_wait_ns, of_all};
use crate::model::{Extension, File, FileSystem, Files, Folder, wait_ns};

/// Writes the lists, each after an empty line; empty ones are left out.
pub fn write(page: &mut Page, files: &Files) -> io::Result<()> {
    let all_wait = all_wait_ns(files);
    top(page, files, all_wait)?;
    folders(page, files, all_wait)?;
    extensions(page, files, all_wait)?;
    file_systems(page, files, all_wait)
}

/// Columns that every list begins with, and the one of names.
fn columns(numbers: &[(&str, u8)], name: Column) -> Vec<Column> {
    let mut columns = vec![Column::number("wait"), Column::number("share").rank(2)];
    columns.extend(numbers.iter().map(|&(header, rank)| Column::number(header).rank(rank)));
    columns.push(name);
    columns
}

fn wait_cells(wait: u64, all_wait: u64) -> [String; 2] {
    [units::duration(wait), units::share(wait, all_wait)]
}

fn bytes(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { units::bytes(bytes) }
}

/// As many of `list` as are shown: those that were waited for; where nothing was, those that moved a byte.
fn shown<'a, T>(page: &Page, list: &'a [T], all_wait: u64, weights: impl Fn(&T) -> (u64, u64)) -> &'a [T] {
    let counts = |item: &&T| {
        let (wait, bytes) = weights(item);
        page.verbose || wait > 0 || all_wait == 0 && bytes > 0
    };
    let used = list.iter().take_while(counts).count();
    &list[..used.min(if page.verbose { VERBOSE_ROWS } else { ROWS })]
}

fn top(page: &mut Page, files: &Files, all_wait: u64) -> io::Result<()> {
    let weights = |file: &File| (file.wait_ns, file.read_bytes + file.written_bytes);
    let list = shown(page, &files.top, all_wait, weights);
    if list.is_empty() {
        return Ok(());
    }
    let name = Column::path(&of_all("FILE", list.len(), files.distinct)).shrinks_to(36);
    let numbers = [("opens", 3), ("reads", 4), ("read", 0), ("written", 0), ("size", 5)];
    let mut table = Table::new(2, columns(&numbers, name));
    for file in list {
        let File { opens, reads, read_bytes, written_bytes, size, .. } = *file;
        let mut cells = Vec::from(wait_cells(file.wait_ns, all_wait));
        cells.extend([units::count(opens), units::count(reads), bytes(read_bytes), bytes(written_bytes)]);
        cells.push(units::bytes(size));
        cells.push(format!("{}{}", visible(&file.path), if file.deleted { " (deleted)" } else { "" }));
        table.row(Ink::Plain, cells);
    }
    page.blank()?;
    table.write(page)
}

fn folders(page: &mut Page, files: &Files, all_wait: u64) -> io::Result<()> {
    let weights = |of: &Folder| (wait_ns(&of.totals), of.totals.read_bytes + of.totals.written_bytes);
    let list = shown(page, &files.folders, all_wait, weights);
    if list.is_empty() {
        return Ok(());
    }
    let name = Column::path(&of_all("FOLDER", list.len(), files.folder_count));
    let numbers = [("files", 0), ("opens", 3), ("read", 0), ("written", 0)];
    let mut table = Table::new(2, columns(&numbers, name));
    for folder in list {
        let Folder { files, opens, totals, .. } = folder;
        let mut cells = Vec::from(wait_cells(wait_ns(totals), all_wait));
        cells.extend([units::count(*files), units::count(*opens)]);
        cells.extend([bytes(totals.read_bytes), bytes(totals.written_bytes), visible(&folder.path)]);
        table.row(Ink::Plain, cells);
    }
    page.blank()?;
    table.write(page)
}

fn extensions(page: &mut Page, files: &Files, all_wait: u64) -> io::Result<()> {
    let weights = |of: &Extension| (of.wait_ns, of.read_bytes + of.written_bytes);
    let list = shown(page, &files.extensions, all_wait, weights);
    // One kind of file is no news.
    if list.len() < 2 {
        return Ok(());
    }
    let name = Column::name("EXTENSION").shrinks_to(9);
    let numbers = [("files", 0), ("opens", 3), ("read", 0), ("written", 0)];
    let mut table = Table::new(2, columns(&numbers, name));
    for of in list {
        let mut cells = Vec::from(wait_cells(of.wait_ns, all_wait));
        cells.extend([units::count(of.files), units::count(of.opens)]);
        cells.extend([bytes(of.read_bytes), bytes(of.written_bytes)]);
        cells.push(if of.extension.is_empty() { "(none)".to_owned() } else { visible(&of.extension) });
        table.row(Ink::Plain, cells);
    }
    page.blank()?;
    table.write(page)
}

fn file_systems(page: &mut Page, files: &Files, all_wait: u64) -> io::Result<()> {
    let list = &files.file_systems;
    let rows = if page.verbose { list.len() } else { list.len().min(2 * ROWS) };
    if rows == 0 {
        return Ok(());
    }
    let name = Column::path(&of_all("FILE SYSTEM", rows, list.len() as u64));
    let numbers = [("files", 0), ("opens", 3), ("read", 0), ("written", 0)];
    let mut columns = columns(&numbers, name);
    let last = columns.len() - 1;
    columns.insert(last, Column::name("TYPE").shrinks_to(4));
    columns.insert(last + 1, Column::name("BACKED BY"));
    columns.push(Column::path("SOURCE").rank(1));
    let mut table = Table::new(2, columns);
    for of in &list[..rows] {
        let FileSystem { files, opens, totals, .. } = of;
        let mut cells = Vec::from(wait_cells(wait_ns(totals), all_wait));
        cells.extend([units::count(*files), units::count(*opens)]);
        cells.extend([bytes(totals.read_bytes), bytes(totals.written_bytes)]);
        cells.extend([visible(of.fs_type.as_bytes()), of.backing.to_owned()]);
        cells.extend([visible(&of.mount_point), visible(&of.source)]);
        table.row(Ink::Plain, cells);
    }
    page.blank()?;
    table.write(page)
}
