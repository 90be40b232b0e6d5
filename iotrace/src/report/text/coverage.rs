//! What to think of the numbers: how each metric was had, what was lost, what the trace does not see, what it cost.

use std::io;

use super::super::escape::visible;
use super::super::units;
use super::page::{Ink, Page};
use super::table::{Column, Table};
use crate::model::{Overhead, Trace};

/// Writes coverage, losses, limits and own cost.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    page.heading("Coverage")?;
    let metric_columns = trace.probes.iter().map(|p| p.metric.chars().count()).max().unwrap_or(0);
    for probe in &trace.probes {
        let metric = format!("{:<metric_columns$}", visible(probe.metric.as_bytes()));
        let reason = visible(probe.reason.as_bytes());
        let text = match (&probe.variant, reason.is_empty()) {
            (Some(variant), true) => visible(variant.as_bytes()),
            (Some(variant), false) => format!("{} ({reason})", visible(variant.as_bytes())),
            (None, _) if probe.is_left_out() => reason,
            (None, _) => format!("not measured: {reason}"),
        };
        page.paragraph(Ink::Plain, 2, metric_columns + 2, &format!("{metric}  {text}"))?;
    }
    page.blank()?;
    losses(page, trace)?;
    for note in &trace.notes {
        page.paragraph(Ink::Plain, 2, 2, &format!("- {}", visible(note.as_bytes())))?;
    }
    cost(page, &trace.overhead, trace.meta.duration_ns)
}

fn losses(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let lost: Vec<_> = trace.lost.iter().filter(|&(_, &count)| count > 0).collect();
    if lost.is_empty() {
        return page.line("  0 events lost");
    }
    for (cause, &count) in lost {
        page.paragraph(
            Ink::Red,
            2,
            2,
            &format!("{} events lost: {}", units::count(count), visible(cause.as_bytes())),
        )?;
    }
    Ok(())
}

fn cost(page: &mut Page, cost: &Overhead, duration_ns: u64) -> io::Result<()> {
    page.heading("Own cost")?;
    let facts = [
        format!(
            "{} CPU ({} of one core over {})",
            units::duration(cost.user_cpu_ns),
            units::share(cost.user_cpu_ns, duration_ns),
            units::duration(duration_ns)
        ),
        format!("{} resident at most", units::bytes(cost.max_rss_bytes)),
        format!("{} of kernel memory in maps", units::bytes(cost.map_bytes)),
        format!("attached in {}", units::duration(cost.attach_ns)),
    ];
    page.flow("  iotrace   ", " · ", &facts)?;
    let mut programs: Vec<_> = cost.programs.iter().filter(|p| p.run_count > 0).collect();
    if programs.is_empty() || cost.sampled_ns == 0 {
        return page.flow("  programs  ", "", &["not sampled".to_owned()]);
    }
    programs.sort_by(|a, b| b.run_time_ns.cmp(&a.run_time_ns).then_with(|| a.name.cmp(&b.name)));
    let all: u64 = programs.iter().map(|p| p.run_time_ns).sum();
    let sampled = units::duration(cost.sampled_ns);
    let text = format!(
        "  programs  {} of one core, spent on the CPUs of whoever ran into them; sampled for {sampled}",
        units::share(all, cost.sampled_ns)
    );
    page.paragraph(Ink::Plain, 0, 12, &text)?;
    let mut table = Table::new(
        4,
        vec![
            Column::name("PROGRAM").shrinks_to(16),
            Column::number("runs"),
            Column::number("per run"),
            Column::number("sum"),
            Column::number("of one core"),
        ],
    );
    for p in programs {
        table.row(
            Ink::Plain,
            vec![
                visible(p.name.as_bytes()),
                units::count(p.run_count),
                units::duration(p.run_time_ns / p.run_count),
                units::duration(p.run_time_ns),
                units::share(p.run_time_ns, cost.sampled_ns),
            ],
        );
    }
    table.write(page)
}
