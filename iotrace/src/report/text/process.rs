//! The top processes in full: operations, distributions of sizes and of block requests, the facts behind the counts, and
//! the charts.

use std::collections::BTreeMap;
use std::io;

use iotrace_common::file::FileTotals;

use super::super::escape::visible;
use super::super::{errno, rank, units};
use super::chart::{self, Chart, Unit};
use super::header::{full_name, pid, short_name};
use super::operations;
use super::page::{Ink, Page};
use super::table::{Column, Table};
use crate::model::{ApartStats, BlockOp, BlockStats, Container, Histogram, OpStats, Process, Trace};

/// Where a file stops being small: the size below which shards pay off most, an edge of the histogram's buckets.
const SMALL_FILE_BYTES: u64 = 128 << 10;

/// Writes the processes with most storage time.
pub fn write_top(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let ranked = rank::by_storage_time(trace);
    let touched = ranked.into_iter().filter(|p| !p.kernel_thread && rank::touched_storage(p));
    let touched: Vec<_> = touched.collect();
    for process in touched.iter().take(page.top) {
        write(page, process)?;
    }
    let rest = touched.len().saturating_sub(page.top) as u64;
    if rest > 0 {
        let rest = units::counted(rest, "more process", "more processes");
        page.blank()?;
        let text = format!("{rest} touched storage; --format json has every one in full.");
        page.paragraph(Ink::Plain, 0, 0, &text)?;
    }
    Ok(())
}

fn write(page: &mut Page, process: &Process) -> io::Result<()> {
    let exited = if process.exited { ", exited" } else { "" };
    page.heading(&format!("{} {} (parent {}{exited})", pid(process), short_name(process), process.ppid))?;
    if !process.cmdline.is_empty() {
        page.flow("  ", "", &[full_name(process)])?;
    }
    if let Some(container) = &process.container {
        page.flow("  container ", ", ", &container_words(container))?;
    }
    let block = rank::by_op(&process.block);
    operations::of_process(page, process)?;
    distributions(page, process, &block)?;
    facts(page, process)?;
    charts(page, process, &block)
}

/// `docker 4f66b8a7d2c0`, `pod 8dc1a1c5-...`. The whole id is in the JSON report.
fn container_words(container: &Container) -> Vec<String> {
    let runtime = container.runtime.map_or(String::new(), |runtime| format!("{} ", runtime.name()));
    let id = container.id.as_ref().map(|_| format!("{runtime}{}", visible(container.short().as_bytes())));
    let pod = container.pod_uid.as_deref().map(|uid| format!("pod {}", visible(uid.as_bytes())));
    [id, pod].into_iter().flatten().collect()
}

fn distributions(
    page: &mut Page,
    process: &Process,
    block: &BTreeMap<BlockOp, BlockStats>,
) -> io::Result<()> {
    let mut columns = vec![Column::name(""), Column::name("")];
    columns.extend(["count", "sum"].map(Column::number));
    columns.extend(
        [("p50", 0), ("p90", 2), ("p99", 0), ("max", 1)].map(|(q, rank)| Column::number(q).rank(rank)),
    );
    let mut table = Table::new(2, columns);
    for (name, op) in [("reads", &process.read), ("writes", &process.write)] {
        if op.count > 0 {
            distribution(&mut table, name, "size", Unit::Bytes, &op.size_bytes);
        }
    }
    for (op, stats) in block {
        distribution(&mut table, &format!("block {}", op.name()), "queue", Unit::Time, &stats.queue_ns);
        distribution(&mut table, "", "device", Unit::Time, &stats.device_ns);
        distribution(&mut table, "", "total", Unit::Time, &stats.total_ns);
        if stats.bytes > 0 {
            distribution(&mut table, "", "size", Unit::Bytes, &stats.size_bytes);
        }
    }
    let files = [("read", &process.file_sizes().read), ("write", &process.file_sizes().written)];
    for (index, (how, files)) in files.into_iter().filter(|(_, files)| !files.is_empty()).enumerate() {
        let name = if index == 0 { "files" } else { "" };
        distribution(&mut table, name, how, Unit::Bytes, files);
    }
    if table.is_empty() {
        return Ok(());
    }
    page.blank()?;
    table.write(page)
}

fn distribution(table: &mut Table, name: &str, metric: &str, unit: Unit, histogram: &Histogram) {
    let value = |v: u64| match unit {
        Unit::Time => units::duration(v),
        Unit::Bytes => units::bytes(v),
    };
    let quantile = |q| {
        let at = match unit {
            Unit::Time => histogram.quantile(q),
            Unit::Bytes => histogram.quantile_floor(q),
        };
        at.map_or("-".to_owned(), value)
    };
    let max = if histogram.is_empty() { "-".to_owned() } else { value(histogram.max) };
    let mut cells =
        vec![name.to_owned(), metric.to_owned(), units::count(histogram.count), value(histogram.sum)];
    cells.extend([quantile(0.5), quantile(0.9), quantile(0.99), max]);
    table.row(Ink::Plain, cells);
}

fn facts(page: &mut Page, process: &Process) -> io::Result<()> {
    let calls = process.read.count + process.write.count;
    if calls == 0 && process.file_sizes().all.is_empty() && process.apart.is_empty() {
        return Ok(());
    }
    page.blank()?;
    for (name, op, is_read) in [("reads", &process.read, true), ("writes", &process.write, false)] {
        if op.count > 0 {
            page.flow(&format!("  {name:<13}"), " · ", &op_facts(op, is_read))?;
            failed(page, name, op.count, &op.errors)?;
        }
    }
    let others: Vec<_> = process.meta.iter().flat_map(|(_, stats)| &stats.forms).collect();
    if !others.is_empty() {
        let forms: Vec<_> = others.iter().map(|(form, n)| format!("{form} {}", units::count(*n))).collect();
        page.flow("  other calls  ", " · ", &forms)?;
    }
    for (name, stats) in &process.meta {
        failed(page, name, stats.count, &stats.errors)?;
    }
    if !process.file_sizes().all.is_empty() {
        page.flow("  files        ", " · ", &file_facts(process))?;
    }
    let order = process.files.as_deref().map_or(Vec::new(), |of| access_order(&of.totals));
    if !order.is_empty() {
        page.flow("  order        ", " · ", &order)?;
    }
    let apart: Vec<_> = process.apart.iter().filter_map(|(kind, stats)| apart_fact(kind, stats)).collect();
    if !apart.is_empty() {
        page.flow("  not storage  ", " · ", &apart)?;
    }
    Ok(())
}

/// `3 of 412 reads failed: EIO 1, EISDIR 2`; nothing when none did.
fn failed(page: &mut Page, name: &str, count: u64, errors: &BTreeMap<i32, u64>) -> io::Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let kinds: Vec<_> =
        errors.iter().map(|(&e, &n)| format!("{} {}", errno::name(e), units::count(n))).collect();
    let failed = units::count(errors.values().sum());
    let text = format!("{failed} of {} {name} failed: {}", units::count(count), kinds.join(", "));
    page.paragraph(Ink::Red, 15, 2, &text)
}

fn op_facts(op: &OpStats, is_read: bool) -> Vec<String> {
    let mut facts: Vec<_> = op.forms.iter().map(|&(form, n)| format!("{form} {}", units::count(n))).collect();
    if op.short > 0 {
        facts.push(format!("{} moved less than asked", units::count(op.short)));
    }
    if is_read && op.eof > 0 {
        facts.push(format!("{} at end of file", units::count(op.eof)));
    }
    facts
}

fn file_facts(process: &Process) -> Vec<String> {
    let all = &process.file_sizes().all;
    let small = all.buckets().filter(|&(_, high, _)| high < SMALL_FILE_BYTES).map(|(_, _, n)| n).sum();
    let read = process.file_sizes().read.count;
    let written = process.file_sizes().written.count;
    let mut facts = vec![units::counted(all.count, "distinct file", "distinct files")];
    if read > 0 {
        facts.push(format!("{} read", units::count(read)));
    }
    if written > 0 {
        facts.push(format!("{} written", units::count(written)));
    }
    facts.push(format!("{} of them < {}", units::share(small, all.count), "128 KiB"));
    if let Some(of) = &process.files {
        facts.push(format!("opened {}", units::count(of.opens)));
        if of.whole_file > 0 {
            facts.push(format!("{} read from start to end", units::count(of.whole_file)));
        }
    }
    facts
}

/// Where reads began, when not each of them where the one before ended.
fn access_order(totals: &FileTotals) -> Vec<String> {
    let FileTotals { sequential_reads, strided_reads, random_reads, .. } = *totals;
    let all = sequential_reads + strided_reads + random_reads;
    let kinds = [(sequential_reads, "sequential"), (strided_reads, "strided"), (random_reads, "random")];
    let used = kinds.into_iter().filter(|(reads, _)| *reads > 0);
    used.map(|(reads, order)| format!("{} {order}", units::share(reads, all))).collect()
}

fn apart_fact(kind: &str, stats: &ApartStats) -> Option<String> {
    let side = |calls: u64, bytes: u64, one: &str, many: &str| {
        (calls > 0).then(|| format!("{} ({})", units::counted(calls, one, many), units::bytes(bytes)))
    };
    let sides = [
        side(stats.reads, stats.read_bytes, "read", "reads"),
        side(stats.writes, stats.write_bytes, "write", "writes"),
    ];
    let sides: Vec<_> = sides.into_iter().flatten().collect();
    (!sides.is_empty()).then(|| format!("{kind} {}", sides.join(", ")))
}

fn charts(page: &mut Page, process: &Process, block: &BTreeMap<BlockOp, BlockStats>) -> io::Result<()> {
    let reads = |h: &Histogram| units::counted(h.count, "read", "reads");
    let writes = |h: &Histogram| units::counted(h.count, "write", "writes");
    let (read, write) = (&process.read, &process.write);
    let mut charts = vec![
        Chart::new(
            "latency",
            Unit::Time,
            [(reads(&read.latency_ns), &read.latency_ns), (writes(&write.latency_ns), &write.latency_ns)],
        ),
        Chart::new(
            "transfer size",
            Unit::Bytes,
            [(reads(&read.size_bytes), &read.size_bytes), (writes(&write.size_bytes), &write.size_bytes)],
        ),
    ];
    for (op, stats) in block {
        charts.push(chart::phases(*op, stats));
    }
    charts.push(chart::request_sizes(block));
    let files = |h: &Histogram, how: &str| format!("{} {how}", units::counted(h.count, "file", "files"));
    let (files_read, files_written) = (&process.file_sizes().read, &process.file_sizes().written);
    charts.push(Chart::new(
        "file size",
        Unit::Bytes,
        [(files(files_read, "read"), files_read), (files(files_written, "written"), files_written)],
    ));
    chart::write(page, &charts)
}
