//! The table of processes, most time in storage ops first.

use std::io;

use super::super::escape::visible;
use super::super::{rank, units};
use super::header::{PidColumn, full_name, short_name};
use super::page::{Ink, Page};
use super::table::{Column, Table};
use crate::model::{OpStats, Process, Trace};

/// Instead of the table where only block requests were traced.
const READS_LEFT_OUT: &str = "Reads and writes were left out (--block-only): none were counted.";

/// Rows of the table unless more processes are shown in full or everything is asked for.
const ROWS: usize = 20;

/// Writes the table, or a sentence that helps when there is nothing to put into it.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let ranked = rank::by_storage_time(trace);
    let listed: Vec<_> = ranked.iter().copied().filter(|p| belongs_here(p)).collect();
    if listed.is_empty() {
        nothing(page, trace)?;
        return apart(page, trace);
    }
    if trace.block_only() {
        page.blank()?;
        return page.paragraph(
            Ink::Plain,
            0,
            0,
            &format!("{READS_LEFT_OUT} What follows are block requests."),
        );
    }
    page.heading("Processes by storage time")?;
    let shown = if page.verbose { listed.len() } else { page.top.max(ROWS).min(listed.len()) };
    // One row too many costs less than a row that says "1 other".
    let shown = if listed.len() - shown == 1 { listed.len() } else { shown };
    let (rows, rest) = listed.split_at(shown);
    let wall = trace.meta.duration_ns;
    let mut table = Table::new(0, columns(wall));
    let pids = PidColumn::of(rows.iter().copied());
    for process in rows {
        let mut cells = vec![pids.cell(process), short_name(process), container(process)];
        cells.extend(numbers(&Sum::of(&[process]), wall));
        cells.push(if process.cmdline.is_empty() { String::new() } else { full_name(process) });
        table.row(Ink::Plain, cells);
    }
    if !rest.is_empty() {
        table.row(Ink::Plain, sum_row(&format!("{} others", units::count(rest.len() as u64)), rest, wall));
    }
    if listed.len() > 1 {
        table.row(Ink::Bold, sum_row(&format!("all {}", units::count(listed.len() as u64)), &listed, wall));
    }
    table.write(page)?;
    page.blank()?;
    if rows.iter().any(|p| p.exited) {
        page.line("† exited before the trace ended")?;
    }
    page.paragraph(
        Ink::Plain,
        0,
        0,
        &format!(
            "Time is the latency of all operations summed over threads, page-cache hits included, against the {} of the trace; wait is what of it they slept, until they were woken.",
            units::duration(wall)
        ),
    )?;
    apart(page, trace)
}

/// As short as tells it from others; a column that is empty in every row is not written.
fn container(process: &Process) -> String {
    process.container.as_deref().map_or_else(String::new, |c| visible(c.short().as_bytes()))
}

/// Kernel threads appear among the owners of block requests; here only if they make calls.
fn belongs_here(process: &Process) -> bool {
    process.calls() > 0 || !process.kernel_thread && rank::touched_storage(process)
}

fn columns(wall_ns: u64) -> Vec<Column> {
    let op = |group: &str, rank: u8| {
        [
            Column::number("calls").under(group).rank(rank),
            Column::number("bytes").under(group),
            Column::number("p50").under(group).rank(rank + 6),
            Column::number("p99").under(group).rank(rank + 4),
        ]
    };
    let mut columns =
        vec![Column::name("PID"), Column::name("COMMAND").shrinks_to(12), Column::name("CONTAINER").rank(10)];
    columns.extend(op("reads", 1));
    columns.extend(op("writes", 2));
    columns.push(Column::number("other calls").rank(3));
    let time = format!("time / {}", units::duration(wall_ns));
    columns.push(Column::number("sum").under(&time));
    columns.push(Column::number("share").under(&time).rank(4));
    columns.push(Column::number("wait").under(&time));
    columns.push(Column::name("COMMAND LINE").shrinks_to(18).rank(11));
    columns
}

/// What a row says, of one process or of several.
#[derive(Default)]
struct Sum {
    read: OpStats,
    write: OpStats,
    other_calls: u64,
    time_ns: u64,
    wait_ns: u64,
}

impl Sum {
    fn of(processes: &[&Process]) -> Self {
        let mut sum = Self::default();
        for process in processes {
            for (sum, op) in [(&mut sum.read, &process.read), (&mut sum.write, &process.write)] {
                sum.count += op.count;
                sum.bytes += op.bytes;
                sum.latency_ns.merge(&op.latency_ns);
            }
            sum.other_calls += process.other_calls();
            sum.time_ns = sum.time_ns.saturating_add(process.storage_ns());
            sum.wait_ns += process.wait_ns();
        }
        sum
    }
}

fn numbers(sum: &Sum, wall_ns: u64) -> Vec<String> {
    let mut cells = Vec::new();
    for op in [&sum.read, &sum.write] {
        // No calls by anybody: the whole group of columns goes.
        if op.count == 0 {
            cells.extend(std::iter::repeat_n(String::new(), 4));
            continue;
        }
        let quantile = |q| op.latency_ns.quantile(q).map_or("-".to_owned(), units::duration);
        cells.extend([units::count(op.count), units::bytes(op.bytes), quantile(0.5), quantile(0.99)]);
    }
    cells.push(if sum.other_calls > 0 { units::count(sum.other_calls) } else { String::new() });
    cells.extend([
        units::duration(sum.time_ns),
        units::share(sum.time_ns, wall_ns),
        units::duration(sum.wait_ns),
    ]);
    cells
}

fn sum_row(label: &str, processes: &[&Process], wall_ns: u64) -> Vec<String> {
    let mut cells = vec![String::new(), label.to_owned(), String::new()];
    cells.extend(numbers(&Sum::of(processes), wall_ns));
    cells.push(String::new());
    cells
}

/// One line on pipes, sockets and the like, which are no storage.
fn apart(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let mut kinds = std::collections::BTreeMap::new();
    for &(kind, ref stats) in trace.processes.iter().flat_map(|p| &p.apart) {
        let (reads, writes) = kinds.entry(kind).or_insert((0, 0));
        *reads += stats.reads;
        *writes += stats.writes;
    }
    let items: Vec<_> = (kinds.into_iter())
        .filter(|(_, (reads, writes))| reads + writes > 0)
        .map(|(kind, (reads, writes))| {
            let side = |n: u64, one: &str, many: &str| (n > 0).then(|| units::counted(n, one, many));
            let sides = [side(reads, "read", "reads"), side(writes, "write", "writes")];
            format!("{kind} {}", sides.into_iter().flatten().collect::<Vec<_>>().join(", "))
        })
        .collect();
    if items.is_empty() { Ok(()) } else { page.flow("Not storage, left out above: ", "; ", &items) }
}

fn nothing(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let users = trace.processes.iter().filter(|p| !p.kernel_thread).count() as u64;
    let unmeasured = trace.probes.iter().any(|p| p.variant.is_none() && !p.is_left_out());
    let block_only = trace.block_only();
    let (one, any) = if block_only {
        ("no request to a block device", "a request to a block device")
    } else {
        (
            "no call on a file and no request to a block device",
            "a call on a file or a request to a block device",
        )
    };
    let who = match users {
        0 => "no process was traced".to_owned(),
        1 => format!("the traced process made {one}"),
        n => format!("none of the {} traced processes made {any}", units::count(n)),
    };
    let duration = units::duration(trace.meta.duration_ns);
    let verdict = if block_only {
        format!("No block requests: in {duration} {who}. {READS_LEFT_OUT}")
    } else {
        format!(
            "No storage I/O: in {duration} {who}. (A call is counted when it begins and returns within the trace.)"
        )
    };
    page.blank()?;
    page.paragraph(Ink::Bold, 0, 0, &verdict)?;
    let filtered = if trace.meta.filters.is_empty() { "" } else { "The filters may exclude it. " };
    let hidden = if unmeasured { "Something is not measured on this machine, see Coverage. " } else { "" };
    let wider = if trace.meta.targets.all {
        "If I/O was expected, trace for longer: the system was idle."
    } else {
        "If I/O was expected, trace for longer, check that the pid is the one that does the work, or trace every process: iotrace attach -a."
    };
    page.paragraph(Ink::Plain, 0, 0, &format!("{filtered}{hidden}{wider}"))
}
