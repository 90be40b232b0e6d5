//! Files by size: whether the job reads many small ones, and whether it waits to open or to read them.

use std::io;

use super::super::super::units;
use super::super::chart::exact_bytes;
use super::super::page::{Ink, Page};
use super::super::table::{Column, Table};
use crate::model::{Class, Files, wait_ns};

/// Writes the table: one row a class that holds files.
pub fn write(page: &mut Page, files: &Files) -> io::Result<()> {
    let mut columns = vec![Column::name("SIZE"), Column::number("files"), Column::number("opens")];
    columns.push(Column::number("reads/open").rank(1));
    columns.push(Column::number("read"));
    columns.push(Column::number("written").rank(2));
    columns.push(Column::number("sum").under("wait"));
    columns.push(Column::number("open").under("wait"));
    columns.push(Column::number("read").under("wait"));
    columns.push(Column::number("other").under("wait").rank(3));
    let mut table = Table::new(2, columns);
    for (index, class) in files.classes.iter().enumerate() {
        let totals = &class.totals;
        if class.files == 0 && class.opens == 0 && totals.reads + totals.writes == 0 {
            continue;
        }
        let wait = wait_ns(totals);
        let share = |part: u64| if wait == 0 { String::new() } else { units::share(part, wait) };
        let bytes = |bytes: u64| if bytes == 0 { String::new() } else { units::bytes(bytes) };
        table.row(
            Ink::Plain,
            vec![
                range(index),
                units::count(class.files),
                units::count(class.opens),
                per_open(class),
                bytes(totals.read_bytes),
                bytes(totals.written_bytes),
                if wait == 0 { String::new() } else { units::duration(wait) },
                share(totals.open_wait_ns),
                share(totals.read_wait_ns),
                share(wait - totals.open_wait_ns - totals.read_wait_ns),
            ],
        );
    }
    table.write(page)
}

fn range(index: usize) -> String {
    match Class::bounds(index) {
        (0, Some(high)) => format!("< {}", exact_bytes(high)),
        (low, Some(high)) => format!("{} .. {}", exact_bytes(low), exact_bytes(high)),
        (low, None) => format!("{} and up", exact_bytes(low)),
    }
}

fn per_open(class: &Class) -> String {
    if class.opens == 0 || class.totals.reads == 0 {
        return String::new();
    }
    format!("{:.1}", class.totals.reads as f64 / class.opens as f64)
}
