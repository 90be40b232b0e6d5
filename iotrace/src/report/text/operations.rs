//! Operations on storage: of all processes, near the top, and of one.

use std::io;

use super::super::rank::{OpSum, operations};
use super::super::units;
use super::page::{Ink, Page};
use super::table::{Column, Table};
use crate::model::{Process, Trace};

/// Writes what all processes did, and how much of the time was waiting; nothing when they did nothing.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let processes: Vec<_> = trace.processes.iter().filter(|p| p.calls() > 0).collect();
    let sums = operations(&processes);
    if sums.is_empty() {
        return Ok(());
    }
    let calls = sums.iter().map(|sum| sum.count).sum();
    let time = sums.iter().map(|sum| sum.latency_ns.sum).fold(0, u64::saturating_add);
    let wait = sums.iter().map(|sum| sum.wait_ns).sum();
    page.heading("Storage time by operation")?;
    let text = format!(
        "{} in {} of {}; {} of it ({}) asleep, waiting.",
        units::duration(time),
        units::counted(calls, "call", "calls"),
        units::counted(processes.len() as u64, "process", "processes"),
        units::duration(wait),
        units::share(wait, time)
    );
    page.paragraph(Ink::Bold, 0, 0, &text)?;
    let mut columns = vec![Column::name("")];
    columns.extend([Column::number("calls"), Column::number("failed"), Column::number("bytes").rank(3)]);
    columns.extend(["sum", "share"].map(|header| Column::number(header).under("time")));
    columns.extend(
        [("p50", 4), ("p99", 2), ("max", 5)].map(|(q, rank)| Column::number(q).under("time").rank(rank)),
    );
    columns.push(Column::number("calls").under("waiting").rank(1));
    columns.extend(["sum", "share"].map(|header| Column::number(header).under("waiting")));
    let mut table = Table::new(2, columns);
    // What takes longest comes first.
    let mut order: Vec<_> = sums.iter().collect();
    order.sort_by_key(|sum| std::cmp::Reverse(sum.latency_ns.sum));
    for sum in order {
        let mut cells = vec![sum.name.to_owned()];
        cells.extend(counts(sum));
        cells.push(sum.bytes.map_or(String::new(), units::bytes));
        cells.extend([units::duration(sum.latency_ns.sum), units::share(sum.latency_ns.sum, time)]);
        cells.extend(quantiles(sum, &[0.5, 0.99]));
        cells.push(units::duration(sum.latency_ns.max));
        cells.extend(waits(sum));
        cells.push(if sum.waited > 0 { units::share(sum.wait_ns, wait) } else { String::new() });
        table.row(Ink::Plain, cells);
    }
    table.write(page)
}

/// Writes the operations of one process, each with its distribution.
pub fn of_process(page: &mut Page, process: &Process) -> io::Result<()> {
    let sums = operations(&[process]);
    if sums.is_empty() {
        return Ok(());
    }
    let mut columns = vec![Column::name("")];
    columns.extend([Column::number("calls"), Column::number("failed"), Column::number("sum").under("time")]);
    let quantile = |(q, rank)| Column::number(q).under("time").rank(rank);
    columns.extend([("p50", 0), ("p90", 2), ("p99", 0), ("max", 1)].map(quantile));
    columns.extend(["calls", "sum"].map(|header| Column::number(header).under("waiting")));
    let mut table = Table::new(2, columns);
    for sum in &sums {
        let mut cells = vec![sum.name.to_owned()];
        cells.extend(counts(sum));
        cells.push(units::duration(sum.latency_ns.sum));
        cells.extend(quantiles(sum, &[0.5, 0.9, 0.99]));
        cells.push(units::duration(sum.latency_ns.max));
        cells.extend(waits(sum));
        table.row(Ink::Plain, cells);
    }
    table.write(page)
}

fn counts(sum: &OpSum) -> [String; 2] {
    [units::count(sum.count), if sum.failed > 0 { units::count(sum.failed) } else { String::new() }]
}

fn quantiles(sum: &OpSum, ranks: &[f64]) -> Vec<String> {
    let at = |&rank: &f64| sum.latency_ns.quantile(rank).map_or("-".to_owned(), units::duration);
    ranks.iter().map(at).collect()
}

/// Calls that waited and how long; empty where none did.
fn waits(sum: &OpSum) -> [String; 2] {
    if sum.waited == 0 {
        return [String::new(), String::new()];
    }
    [units::count(sum.waited), units::duration(sum.wait_ns)]
}
