//! Where the time of threads went: by role, each account a line; by process; the longest waits.

use std::io;

use iotrace_common::ledger::{
    ACCOUNT_NAMES, IO_FAULT, IO_FSYNC, IO_META, IO_READ, IO_WRITE, RUNNABLE, RUNNING,
};

use super::super::units;
use super::header::{PidColumn, short_name};
use super::page::{Ink, Page};
use super::table::{Column, Table};
use crate::{
    analysis::roles::{RoleSum, Roles},
    model::{Accounts, Process, Trace},
};

/// Rows of the table of processes.
const PROCESSES: usize = 12;
/// Longest waits shown.
const WAITS: usize = 5;
/// A wait below this share of its process's time, in per cent, is not worth a line.
const WORTH_A_LINE_PERCENT: u64 = 1;
/// Accounts of storage.
const STORAGE: [u32; 5] = [IO_READ, IO_WRITE, IO_FSYNC, IO_META, IO_FAULT];
/// Width of a bar.
const BAR: usize = 50;

/// Writes the ledgers; nothing when there are none.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    if trace.ledgers.is_none() {
        return Ok(());
    }
    let roles = Roles::of(trace);
    let sums = roles.sums(trace);
    let threads: u64 = sums.iter().map(|sum| sum.threads).sum();
    let time: u64 = sums.iter().map(|sum| sum.accounts.sum()).sum();
    if time == 0 {
        return Ok(());
    }
    page.heading("Where the time of threads went")?;
    let processes = trace.processes.iter().filter(|p| p.ledger.is_some()).count() as u64;
    let text = format!(
        "{} of {} lived {} in all.",
        units::counted(threads, "thread", "threads"),
        units::counted(processes, "process", "processes"),
        units::duration(time),
    );
    page.paragraph(Ink::Bold, 0, 0, &text)?;
    if !trace.meta.filters.is_empty() {
        page.paragraph(
            Ink::Plain,
            0,
            0,
            "Filters leave nothing out of it: it is all that these threads did.",
        )?;
    }
    by_role(page, &sums)?;
    bars(page, &sums)?;
    by_process(page, trace, &roles)?;
    longest(page, trace)
}

/// A column a role, a line an account.
fn by_role(page: &mut Page, sums: &[RoleSum]) -> io::Result<()> {
    let mut columns = vec![Column::name("")];
    columns.extend(sums.iter().map(|sum| Column::number(sum.role.name())));
    let mut table = Table::new(2, columns);
    let row = |name: &str, cell: &dyn Fn(&RoleSum) -> String| {
        std::iter::once(name.to_owned()).chain(sums.iter().map(cell)).collect::<Vec<_>>()
    };
    table.row(Ink::Plain, row("processes", &|sum| units::count(sum.pids.len() as u64)));
    table.row(Ink::Plain, row("threads", &|sum| units::count(sum.threads)));
    table.row(Ink::Plain, row("time", &|sum| units::duration(sum.accounts.sum())));
    for (account, name) in ACCOUNT_NAMES.iter().enumerate() {
        if sums.iter().any(|sum| sum.accounts.0[account] > 0) {
            let share = |sum: &RoleSum| match sum.accounts.0[account] {
                0 => String::new(),
                ns => units::share(ns, sum.accounts.sum()),
            };
            table.row(Ink::Plain, row(name, &share));
        }
    }
    table.write(page)?;
    page.blank()?;
    for sum in sums {
        page.paragraph(Ink::Dim, 2, 2, &format!("{}: {}", sum.role.name(), sum.rule))?;
    }
    Ok(())
}

/// What a bar is made of: its sign, and which time it stands for.
type Part = (char, &'static str, fn(&Accounts) -> u64);

/// See [`Part`].
const PARTS: [Part; 4] = [
    ('█', "running", |a| a.of(RUNNING)),
    ('▓', "runnable", |a| a.of(RUNNABLE)),
    ('▒', "asleep for storage", Accounts::storage),
    ('·', "asleep for something else", |a| a.asleep() - a.storage()),
];

fn bars(page: &mut Page, sums: &[RoleSum]) -> io::Result<()> {
    page.blank()?;
    let names = sums.iter().map(|sum| sum.role.name().chars().count()).max().unwrap_or(0);
    let room = BAR.min(page.width.saturating_sub(names + 5));
    for sum in sums {
        let bar = page.paint(Ink::Dim, &bar(&sum.accounts, room));
        page.line(&format!("  {:<names$}  {bar}", sum.role.name()))?;
    }
    let legend = PARTS.map(|(sign, name, _)| format!("{sign} {name}"));
    page.flow(&" ".repeat(names + 4), "  ", &legend)
}

/// A bar of `room` signs; parts are rounded so that the whole is full.
fn bar(accounts: &Accounts, room: usize) -> String {
    let (whole, mut done, mut drawn) = (accounts.sum().max(1), 0, 0);
    let mut bar = String::new();
    for (sign, _, time) in PARTS {
        done += time(accounts);
        let until = (u128::from(done) * room as u128 + u128::from(whole) / 2) / u128::from(whole);
        (drawn..until as usize).for_each(|_| bar.push(sign));
        drawn = drawn.max(until as usize);
    }
    bar
}

fn by_process(page: &mut Page, trace: &Trace, roles: &Roles) -> io::Result<()> {
    let mut listed: Vec<(&Process, &Accounts)> =
        trace.processes.iter().filter_map(|p| Some((p, &p.ledger.as_deref()?.accounts))).collect();
    if listed.len() < 2 {
        return Ok(());
    }
    // What waits for storage first, then what computes.
    listed.sort_by_key(|(p, a)| (std::cmp::Reverse((a.storage(), a.of(RUNNING))), p.pid));
    let shown = if page.verbose || listed.len() == PROCESSES + 1 { listed.len() } else { PROCESSES };
    let (rows, rest) = listed.split_at(shown.min(listed.len()));
    page.blank()?;
    let mut columns = vec![Column::name("PID"), Column::name("COMMAND").shrinks_to(8)];
    columns.extend([Column::name("role").rank(2), Column::number("threads").rank(3)]);
    columns.extend(["time", "running", "runnable", "storage", "other waits"].map(Column::number));
    // Shares of the whole too: what `storage` is made of, all of it or nothing.
    columns.extend(["read", "write", "fsync", "meta", "fault"].map(|name| Column::number(name).rank(1)));
    let mut table = Table::new(2, columns);
    let pids = PidColumn::of(rows.iter().map(|(p, _)| *p));
    let cells = |accounts: &Accounts| {
        let whole = accounts.sum();
        let share = |ns: u64| if ns == 0 { String::new() } else { units::share(ns, whole) };
        let mut cells = vec![units::duration(whole)];
        cells.extend([RUNNING, RUNNABLE].map(|account| share(accounts.of(account))));
        cells.extend([share(accounts.storage()), share(accounts.asleep() - accounts.storage())]);
        cells.extend(STORAGE.map(|account| share(accounts.of(account))));
        cells
    };
    for (process, accounts) in rows {
        let threads = process.ledger.as_deref().map_or(0, |ledger| ledger.threads);
        let role = roles.of_process(process).name().to_owned();
        let mut row = vec![pids.cell(process), short_name(process), role, units::count(threads)];
        row.extend(cells(accounts));
        table.row(Ink::Plain, row);
    }
    if !rest.is_empty() {
        let mut sum = Accounts::default();
        rest.iter().for_each(|(_, accounts)| sum.add(accounts));
        let name = units::counted(rest.len() as u64, "other", "others");
        let mut row = vec![String::new(), name, String::new(), String::new()];
        row.extend(cells(&sum));
        table.row(Ink::Plain, row);
    }
    table.write(page)
}

/// What an account of storage is, said of a process.
fn asleep_for(account: u32) -> &'static str {
    match account {
        IO_READ => "reads",
        IO_WRITE => "writes",
        IO_FSYNC => "fsync",
        IO_META => "opens, stats and other calls on names",
        _ => "pages of mapped files",
    }
}

fn longest(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let mut waits = Vec::new();
    for process in &trace.processes {
        let Some(ledger) = process.ledger.as_deref() else { continue };
        let whole = ledger.accounts.sum();
        let of = STORAGE.into_iter().map(|account| (ledger.accounts.of(account), account, process, whole));
        waits.extend(of.filter(|(ns, ..)| ns * 100 > whole * WORTH_A_LINE_PERCENT));
    }
    if waits.is_empty() {
        return Ok(());
    }
    waits.sort_by_key(|(ns, account, process, _)| (std::cmp::Reverse(*ns), *account, process.pid));
    page.blank()?;
    page.line("  Longest waits for storage")?;
    for (ns, account, process, whole) in waits.into_iter().take(WAITS) {
        let text = format!(
            "{} ({} of its time)  pid {} {}: {}",
            units::duration(ns),
            units::share(ns, whole),
            process.pid,
            short_name(process),
            asleep_for(account)
        );
        page.paragraph(Ink::Plain, 4, 2, &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_and_in_proportion() {
        let mut accounts = Accounts::default();
        accounts.0[RUNNING as usize] = 25;
        accounts.0[IO_READ as usize] = 50;
        accounts.0[12] = 25;
        assert_eq!(bar(&accounts, 8), "██▒▒▒▒··");
        for room in 1..60 {
            assert_eq!(bar(&accounts, room).chars().count(), room);
        }
    }
}
