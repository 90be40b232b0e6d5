//! The first lines: what was traced, when, and whatever a reader must know before trusting a number.

use std::io;

use super::super::escape::{command_line, visible};
use super::super::{rank, units};
use super::page::{Ink, Page};
use crate::model::{Process, Trace};

/// Writes the header, and the warnings if there are any.
pub fn write(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let meta = &trace.meta;
    let started = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(meta.started_at_unix_ns);
    let started = humantime::format_rfc3339_seconds(started).to_string();
    let items = [
        format!("iotrace {}", env!("CARGO_PKG_VERSION")),
        units::duration(meta.duration_ns),
        format!("from {} UTC", started.trim_end_matches('Z').replace('T', " ")),
    ];
    page.flow("", " · ", &items)?;
    let system = [("", &meta.hostname), ("kernel ", &meta.kernel)];
    let system: Vec<_> = (system.into_iter())
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}{}", visible(value.as_bytes())))
        .collect();
    page.flow("system     ", ", ", &system)?;
    for (label, text) in targets(trace) {
        page.flow(&format!("{label:<11}"), "", &[text])?;
    }
    page.flow("processes  ", "; ", &processes(trace))?;
    if !meta.filters.is_empty() {
        let filter = |(name, value): &(String, String)| {
            format!("{} {}", visible(name.as_bytes()), visible(value.as_bytes()))
        };
        page.flow("only       ", ", ", &meta.filters.iter().map(filter).collect::<Vec<_>>())?;
    }
    if meta.redacted {
        let what = "names of files are hashes of them, extensions kept".to_owned();
        page.flow("redacted   ", "", &[what])?;
    }
    warnings(page, trace)
}

fn warnings(page: &mut Page, trace: &Trace) -> io::Result<()> {
    let lost: u64 = trace.lost.values().sum();
    let missing = trace.probes.iter().filter(|p| p.variant.is_none() && !p.is_left_out());
    let missing: Vec<_> = missing.map(|p| visible(p.metric.as_bytes())).collect();
    if lost > 0 {
        let causes = trace.lost.iter().filter(|&(_, &n)| n > 0);
        let causes: Vec<_> =
            causes.map(|(cause, &n)| format!("{} {}", visible(cause.as_bytes()), units::count(n))).collect();
        let what = units::counted(lost, "event was lost", "events were lost");
        let text = format!(
            "WARNING: {what} ({}): the numbers below are too low by what they held.",
            causes.join(", ")
        );
        page.blank()?;
        page.paragraph(Ink::Red, 0, 9, &text)?;
    }
    if !missing.is_empty() {
        page.blank()?;
        page.paragraph(
            Ink::Plain,
            0,
            2,
            &format!("Not measured here: {} (reasons under Coverage).", missing.join(", ")),
        )?;
    }
    Ok(())
}

/// One labelled line for each thing that was asked for.
fn targets(trace: &Trace) -> Vec<(&'static str, String)> {
    let meta = &trace.meta;
    let mut lines = Vec::new();
    if !meta.command.is_empty() {
        let pid = meta.targets.pids.first().map_or(String::new(), |pid| format!("pid {pid}: "));
        lines.push(("run", format!("{pid}{}", command_line(&meta.command))));
    } else {
        for &pid in &meta.targets.pids {
            let name = given_process(trace, pid).map_or(String::new(), |p| format!(": {}", full_name(p)));
            lines.push(("attached", format!("pid {pid}{name}")));
        }
    }
    lines.extend(meta.targets.cgroups.iter().map(|path| ("cgroup", visible(path.as_bytes()))));
    lines.extend(meta.targets.containers.iter().map(|given| ("container", visible(given.as_bytes()))));
    if meta.targets.all {
        lines.push(("attached", "every process of the system".to_owned()));
    }
    lines
}

/// The process a user means by `pid`, which is of iotrace's own pid namespace: the initial one or a container's.
fn given_process(trace: &Trace, pid: u32) -> Option<&Process> {
    let by = |key: fn(&Process) -> u32| trace.processes.iter().find(move |p| key(p) == pid);
    by(|p| p.pid).or_else(|| by(|p| p.ns_pid))
}

fn processes(trace: &Trace) -> Vec<String> {
    let (threads, users): (Vec<_>, Vec<_>) = trace.processes.iter().partition(|p| p.kernel_thread);
    let touched = users.iter().filter(|p| rank::touched_storage(p)).count() as u64;
    let targets = &trace.meta.targets;
    let scope = match (targets.all, targets.follow) {
        (true, _) => "",
        (false, true) => ", descendants included",
        (false, false) => ", descendants left out",
    };
    let touching = if trace.block_only() { "made block requests" } else { "touched storage" };
    let n = units::count;
    let mut items =
        vec![format!("{} traced{scope}", n(users.len() as u64)), format!("{} {touching}", n(touched))];
    let threads = threads.iter().filter(|p| rank::touched_storage(p)).count() as u64;
    if threads > 0 {
        items.push(units::counted(threads, "kernel thread beside them", "kernel threads beside them"));
    }
    items
}

/// Command line, or the name where there is none; a kernel thread in brackets.
pub fn full_name(process: &Process) -> String {
    if process.kernel_thread || process.cmdline.is_empty() {
        short_name(process)
    } else {
        command_line(&process.cmdline)
    }
}

/// The command name; a kernel thread in brackets, as ps writes it.
pub fn short_name(process: &Process) -> String {
    let name = visible(&process.comm);
    if process.kernel_thread { format!("[{name}]") } else { name }
}

/// `4121`, or `4121 (ns 17)` for a process in a pid namespace of its own.
pub fn pid(process: &Process) -> String {
    match process.ns_pid {
        0 => process.pid.to_string(),
        ns if ns == process.pid => process.pid.to_string(),
        ns => format!("{} (ns {ns})", process.pid),
    }
}

/// Pids to the right, namespace pids to the left, one under the other.
pub struct PidColumn {
    pid: usize,
    ns_pid: usize,
}

impl PidColumn {
    /// Wide enough for `processes`.
    pub fn of<'a>(processes: impl Iterator<Item = &'a Process> + Clone) -> Self {
        let widest =
            |numbers: &mut dyn Iterator<Item = u32>| numbers.max().map_or(0, |n| n.to_string().len());
        Self {
            pid: widest(&mut processes.clone().map(|p| p.pid)),
            ns_pid: widest(&mut processes.filter(|p| p.ns_pid != 0 && p.ns_pid != p.pid).map(|p| p.ns_pid)),
        }
    }

    /// `4121 (ns 17) †`, padded so that rows line up.
    pub fn cell(&self, process: &Process) -> String {
        let ns_columns = if self.ns_pid > 0 { self.ns_pid + " (ns )".len() } else { 0 };
        let ns = match process.ns_pid {
            0 => String::new(),
            ns if ns == process.pid => String::new(),
            ns => format!(" (ns {ns})"),
        };
        let exited = if process.exited { " †" } else { "" };
        format!("{:>pid_columns$}{ns:<ns_columns$}{exited}", process.pid, pid_columns = self.pid)
    }
}
