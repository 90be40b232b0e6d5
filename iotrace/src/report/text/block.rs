//! The block layer: devices with their phases, who owns the requests, and the ledger of requests.

use std::cmp::Reverse;
use std::io;

use super::super::escape::visible;
use super::super::units;
use super::chart;
use super::header::{PidColumn, short_name};
use super::page::{Ink, Page};
use super::table::{Column, Table};
use crate::model::{BlockCounts, BlockEntry, BlockStats, Device, Process, Trace};

/// Owners shown by name.
const OWNERS: usize = 10;

/// Writes the section; nothing when the block layer was idle.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    if trace.devices.iter().all(|d| d.totals.is_empty()) && trace.block == BlockCounts::default() {
        return Ok(());
    }
    let mut devices: Vec<_> = trace.devices.iter().collect();
    devices.sort_by_key(|d| (Reverse(d.totals.values().map(|s| s.count).sum::<u64>()), d.number));
    for device in devices {
        write_device(page, device)?;
    }
    owners(page, trace)?;
    ledger(page, &trace.block)
}

fn write_device(page: &mut Page, device: &Device) -> io::Result<()> {
    let alias =
        device.alias.as_ref().map_or(String::new(), |alias| format!(" ({})", visible(alias.as_bytes())));
    page.heading(&format!("Block device {}{alias}", visible(device.name.as_bytes())))?;
    let mut facts = Vec::new();
    facts.extend(
        device.rotational.map(|spins| if spins { "rotational" } else { "not rotational" }.to_owned()),
    );
    facts.extend(device.scheduler.as_ref().map(|name| format!("scheduler {}", visible(name.as_bytes()))));
    facts.extend(device.nr_requests.map(|n| format!("nr_requests {n}")));
    facts.extend(
        device.hardware_queues.map(|n| units::counted(u64::from(n), "hardware queue", "hardware queues")),
    );
    facts.extend(match device.issue_time_source {
        "request" => Some("issue time stamped by the kernel".to_owned()),
        "probe" => Some("issue time stamped by the probe".to_owned()),
        _ => None,
    });
    page.flow("  ", " · ", &facts)?;

    let mut columns = vec![Column::name(""), Column::number("count"), Column::number("bytes")];
    for phase in ["queue", "device", "total"] {
        // Total goes first, being no news beside the other two; then every largest value.
        let rank = u8::from(phase == "total");
        columns.push(Column::number("p50").under(phase).rank(rank));
        columns.push(Column::number("p99").under(phase).rank(rank));
        columns.push(Column::number("max").under(phase).rank(2));
    }
    let mut table = Table::new(2, columns);
    for (op, stats) in device.totals.iter().filter(|(_, stats)| stats.count > 0) {
        let mut cells = vec![op.name().to_owned(), units::count(stats.count), units::bytes(stats.bytes)];
        for phase in [&stats.queue_ns, &stats.device_ns, &stats.total_ns] {
            let value = |v: Option<u64>| v.map_or("-".to_owned(), units::duration);
            let max = (!phase.is_empty()).then_some(phase.max);
            cells.extend([value(phase.quantile(0.5)), value(phase.quantile(0.99)), value(max)]);
        }
        table.row(Ink::Plain, cells);
    }
    table.write(page)?;
    for (op, stats) in device.totals.iter().filter(|(_, stats)| stats.errors > 0) {
        let text = format!(
            "{} of {} {} requests failed",
            units::count(stats.errors),
            units::count(stats.count),
            op.name()
        );
        page.paragraph(Ink::Red, 2, 2, &text)?;
    }
    if page.verbose {
        let charts: Vec<_> = device.totals.iter().map(|(&op, stats)| chart::phases(op, stats)).collect();
        chart::write(page, &charts)?;
        chart::write(page, &[chart::request_sizes(&device.totals)])?;
    }
    Ok(())
}

/// Requests of one owner.
#[derive(Default)]
struct Owned {
    requests: u64,
    bytes: u64,
    sync: u64,
    meta: u64,
    readahead: u64,
}

impl Owned {
    fn add(&mut self, entry: &BlockEntry) {
        let BlockStats { count, bytes, .. } = entry.stats;
        self.requests += count;
        self.bytes += bytes;
        self.sync += if entry.sync { count } else { 0 };
        self.meta += if entry.meta { count } else { 0 };
        self.readahead += if entry.readahead { count } else { 0 };
    }

    fn of<'a>(entries: impl IntoIterator<Item = &'a BlockEntry>) -> Self {
        let mut owned = Self::default();
        entries.into_iter().for_each(|entry| owned.add(entry));
        owned
    }

    fn cells(&self, all: &Self) -> Vec<String> {
        let flag = |n: u64| units::share(n, self.requests);
        vec![
            units::count(self.requests),
            units::share(self.requests, all.requests),
            units::bytes(self.bytes),
            units::share(self.bytes, all.bytes),
            flag(self.sync),
            flag(self.meta),
            flag(self.readahead),
        ]
    }
}

fn owners(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let everybody = || trace.processes.iter().flat_map(|p| &p.block);
    let all = Owned::of(everybody().chain(&trace.others));
    if all.requests == 0 {
        return Ok(());
    }
    let mut owners: Vec<(&Process, Owned)> =
        trace.processes.iter().map(|p| (p, Owned::of(&p.block))).filter(|(_, o)| o.requests > 0).collect();
    owners.sort_by_key(|(p, owned)| (Reverse(owned.requests), p.pid, p.start_ns));

    page.heading("Owners of block requests")?;
    let columns = vec![
        Column::name("PID"),
        Column::name("OWNER").shrinks_to(12),
        Column::number("count").under("requests"),
        Column::number("share").under("requests"),
        Column::number("sum").under("bytes"),
        Column::number("share").under("bytes"),
        Column::number("sync").under("flags").rank(3),
        Column::number("meta").under("flags").rank(2),
        Column::number("ahead").under("flags").rank(1),
    ];
    let mut table = Table::new(0, columns);
    let shown = if page.verbose || owners.len() <= OWNERS + 1 { owners.len() } else { OWNERS };
    let pids = PidColumn::of(owners[..shown].iter().map(|&(p, _)| p));
    let mut add = |pid: String, name: String, owned: &Owned, ink: Ink| {
        let mut cells = vec![pid, name];
        cells.extend(owned.cells(&all));
        table.row(ink, cells);
    };
    for (process, owned) in &owners[..shown] {
        add(pids.cell(process), short_name(process), owned, Ink::Plain);
    }
    if shown < owners.len() {
        let rest = Owned::of(owners[shown..].iter().flat_map(|(p, _)| &p.block));
        add(
            String::new(),
            format!("{} more", units::count((owners.len() - shown) as u64)),
            &rest,
            Ink::Plain,
        );
    }
    if !trace.others.is_empty() {
        add(String::new(), "not traced".to_owned(), &Owned::of(&trace.others), Ink::Plain);
    }
    add(String::new(), "all".to_owned(), &all, Ink::Bold);
    table.write(page)?;

    let threads: Vec<_> = trace.processes.iter().filter(|p| p.kernel_thread).collect();
    let kernel = Owned::of(threads.iter().flat_map(|p| &p.block));
    let text = format!(
        "Kernel threads, which write back and read ahead for others, own {} of all requests and {} of all bytes. Flags are shares of an owner's requests: sync (somebody waits), meta (file-system metadata), ahead (readahead).",
        units::share(kernel.requests, all.requests),
        units::share(kernel.bytes, all.bytes)
    );
    page.blank()?;
    page.paragraph(Ink::Plain, 0, 0, &text)
}

fn ledger(page: &mut Page, c: &BlockCounts) -> io::Result<()> {
    page.heading("Ledger of block requests")?;
    let n = units::count;
    let accounted = c.completed + c.merged_requests + c.abandoned + c.in_flight_at_end;
    let balance = format!(
        "{} started = {} completed + {} merged + {} abandoned + {} in flight",
        n(c.started),
        n(c.completed),
        n(c.merged_requests),
        n(c.abandoned),
        n(c.in_flight_at_end)
    );
    if accounted == c.started {
        page.paragraph(Ink::Plain, 2, 2, &balance)?;
    } else {
        let text = format!(
            "{}, which leaves {} unexplained",
            balance.replacen('=', "≠", 1),
            n(accounted.abs_diff(c.started))
        );
        page.paragraph(Ink::Red, 2, 2, &text)?;
    }
    let mut facts = vec![format!("{} issued", n(c.issued)), format!("{} requeued", n(c.requeued))];
    let rare = [
        (c.flush_issued, "issued by the flush machinery"),
        (c.merged_bios, "bios merged into requests"),
        (c.completed_without_start, "completed without a start seen"),
    ];
    facts.extend(
        rare.into_iter().filter(|&(count, _)| count > 0).map(|(count, what)| format!("{} {what}", n(count))),
    );
    if c.errors == 0 {
        facts.push("0 errors".to_owned());
    }
    page.flow("  ", " · ", &facts)?;
    if c.errors > 0 {
        page.paragraph(Ink::Red, 2, 2, &format!("{} of {} completions failed", n(c.errors), n(c.completed)))?;
    }
    Ok(())
}
