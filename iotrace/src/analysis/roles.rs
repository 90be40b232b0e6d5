//! What part each process has in a job: who trains, who loads, who saves. A rule decides, and is told with the role.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use crate::model::{Accounts, Process, Trace};

/// A part in a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Computes, and waits for the others.
    Main,
    /// Reads training data and hands it on.
    Loader,
    /// Saves the state of the job.
    Checkpoint,
    /// Any name the user gave.
    Named(String),
    /// None of these.
    Other,
}

impl Role {
    /// As reports name it.
    pub fn name(&self) -> &str {
        match self {
            Self::Main => "main",
            Self::Loader => "loader",
            Self::Checkpoint => "checkpoint writer",
            Self::Named(name) => name,
            Self::Other => "other",
        }
    }

    /// From a name: one of the known ones, or the user's own.
    pub fn from_name(name: &str) -> Self {
        let known = [Self::Main, Self::Loader, Self::Checkpoint, Self::Other];
        known.into_iter().find(|role| role.name() == name).unwrap_or_else(|| match name {
            "checkpoint" => Self::Checkpoint,
            _ => Self::Named(name.to_owned()),
        })
    }
}

/// Name that PyTorch gives the workers of its loader.
const PYTORCH_WORKER: &[u8] = b"pt_data_worker";

/// Roles of the processes of a trace, by pid in the initial namespace.
pub struct Roles(HashMap<u32, (Role, Rule)>);

/// A rule in words.
type Rule = Cow<'static, str>;

/// What the processes of a role did together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleSum {
    /// The role.
    pub role: Role,
    /// The rule that fired for the first of them.
    pub rule: String,
    /// Its processes, in order.
    pub pids: Vec<u32>,
    /// Their threads.
    pub threads: u64,
    /// Their time.
    pub accounts: Accounts,
}

impl Roles {
    /// Decides.
    pub fn of(trace: &Trace) -> Self {
        // Of ten thousand, looking through all for each one's parent takes a second.
        let by_pid: ByPid = trace.processes.iter().filter(|p| !p.kernel_thread).map(|p| (p.pid, p)).collect();
        Self(by_pid.values().map(|process| (process.pid, decide(trace, &by_pid, process))).collect())
    }

    /// The role of a process.
    pub fn of_process(&self, process: &Process) -> &Role {
        self.0.get(&process.pid).map_or(&Role::Other, |(role, _)| role)
    }

    /// The rule that gave a process its role.
    pub fn rule(&self, process: &Process) -> &str {
        self.0.get(&process.pid).map_or("", |(_, rule)| rule)
    }

    /// Each role that a process with a ledger has: main first, others last.
    pub fn sums(&self, trace: &Trace) -> Vec<RoleSum> {
        let mut sums: BTreeMap<&Role, RoleSum> = BTreeMap::new();
        let mut processes: Vec<_> = trace.processes.iter().filter(|p| p.ledger.is_some()).collect();
        processes.sort_by_key(|p| p.pid);
        for process in processes {
            let Some(ledger) = process.ledger.as_deref() else { continue };
            let role = self.of_process(process);
            let sum = sums.entry(role).or_insert_with(|| RoleSum {
                role: role.clone(),
                rule: self.rule(process).to_owned(),
                pids: Vec::new(),
                threads: 0,
                accounts: Accounts::default(),
            });
            sum.pids.push(process.pid);
            sum.threads += ledger.threads;
            sum.accounts.add(&ledger.accounts);
        }
        sums.into_values().collect()
    }
}

/// User processes.
type ByPid<'a> = HashMap<u32, &'a Process>;

fn decide(trace: &Trace, by_pid: &ByPid<'_>, process: &Process) -> (Role, Rule) {
    for (name, pattern) in &trace.meta.roles {
        if matches(pattern.as_bytes(), &process.comm) || is_in_arguments(pattern.as_bytes(), process) {
            return (Role::from_name(name), format!("--role {name}={pattern}").into());
        }
    }
    if process.comm.starts_with(PYTORCH_WORKER) {
        return (Role::Loader, "named pt_data_worker".into());
    }
    let parent = by_pid.get(&process.ppid);
    if is_root(trace, process, parent.is_some()) {
        return (Role::Main, "given to be traced, or the root of what was".into());
    }
    if trace.files.checkpoints.iter().any(|checkpoint| checkpoint.pid == process.pid) {
        return (Role::Checkpoint, "wrote a checkpoint and is not the root of the tree".into());
    }
    // A forked child has its parent's arguments until it executes another program.
    let forked = parent.is_some_and(|parent| parent.cmdline == process.cmdline);
    let reads = process.read.count > 0 || process.files.as_deref().is_some_and(|f| f.totals.faults > 0);
    let hands_on =
        process.apart.iter().any(|(kind, stats)| matches!(*kind, "pipe" | "socket") && stats.writes > 0);
    match (forked && reads, hands_on) {
        (true, true) => (Role::Loader, "forked child that reads files and writes to a pipe or socket".into()),
        // Through shared memory there is nothing to be seen.
        (true, false) => (Role::Loader, "forked child that reads files".into()),
        _ => (Role::Other, "no rule".into()),
    }
}

/// Is it a process the user named, or the top of what was traced, with no parent in it?
fn is_root(trace: &Trace, process: &Process, has_parent: bool) -> bool {
    let targets = &trace.meta.targets;
    if targets.all || !targets.cgroups.is_empty() || !targets.containers.is_empty() {
        // Of a container: whose parent is none of it. Of a whole system there is no main process.
        return !targets.all && !has_parent;
    }
    targets.pids.contains(&process.pid) || (targets.pids.contains(&process.ns_pid) && !has_parent)
}

fn is_in_arguments(pattern: &[u8], process: &Process) -> bool {
    process.cmdline.iter().any(|argument| matches(pattern, argument))
}

/// Does a pattern with `*` for any number of characters match a whole name?
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Behind the last star, and where what it stands for ends: only that one is ever made longer, so that many stars and a long
    // argument take no longer than their product.
    let mut star = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, from));
            }
            Some(c) if *c == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((behind, end)) = star else { return false };
                (at, from) = (behind, end + 1);
                star = Some((behind, end + 1));
            }
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ApartStats, Checkpoint, ProcessLedger};
    use std::sync::Arc;

    fn process(pid: u32, ppid: u32, comm: &str, cmdline: &str) -> Process {
        let cmdline = Arc::new(cmdline.split(' ').map(|a| a.as_bytes().to_vec()).collect::<Vec<_>>());
        Process {
            pid,
            ns_pid: pid,
            ppid,
            comm: comm.as_bytes().to_vec(),
            cmdline,
            ledger: Some(Box::new(ProcessLedger { threads: 1, accounts: Accounts([pid.into(); 13]) })),
            ..Process::default()
        }
    }

    fn job() -> Trace {
        let mut worker = process(12, 10, "python", "python train.py");
        worker.read.count = 5;
        worker.apart = vec![("pipe", ApartStats { writes: 3, ..ApartStats::default() })];
        let mut trace = Trace {
            processes: vec![
                process(10, 1, "python", "python train.py"),
                process(11, 10, "pt_data_worker", "python train.py"),
                worker,
                process(13, 10, "python", "python train.py"),
                process(14, 10, "nvidia-smi", "nvidia-smi -l"),
            ],
            ..Trace::default()
        };
        trace.meta.targets.pids = vec![10];
        trace.files.checkpoints = vec![Checkpoint {
            path: b"/ckpt/a.pt".to_vec(),
            temporary: None,
            rules: vec!["name"],
            pid: 13,
            bytes: 1,
            writes: 1,
            syncs: 0,
            duration_ns: 1,
            stall_ns: 1,
            began_ns: 0,
        }];
        trace
    }

    #[test]
    fn each_rule_gives_its_role() {
        let trace = job();
        let roles = Roles::of(&trace);
        let names: Vec<&str> = trace.processes.iter().map(|p| roles.of_process(p).name()).collect();
        assert_eq!(names, ["main", "loader", "loader", "checkpoint writer", "other"]);
        assert_eq!(roles.rule(&trace.processes[1]), "named pt_data_worker");
    }

    #[test]
    fn what_the_user_says_comes_first() {
        let mut trace = job();
        trace.meta.roles = vec![("loader".into(), "nvidia*".into()), ("shards".into(), "pt_*".into())];
        let roles = Roles::of(&trace);
        assert_eq!(*roles.of_process(&trace.processes[4]), Role::Loader);
        assert_eq!(roles.of_process(&trace.processes[1]).name(), "shards");
    }

    #[test]
    fn sums_of_roles_are_the_sum_of_processes() {
        let trace = job();
        let sums = Roles::of(&trace).sums(&trace);
        assert_eq!(sums[0].role, Role::Main);
        assert_eq!(sums[1].pids, [11, 12]);
        let total: u64 = sums.iter().map(|sum| sum.accounts.sum()).sum();
        assert_eq!(total, 13 * (10 + 11 + 12 + 13 + 14));
    }

    #[test]
    fn stars_stand_for_anything() {
        let stars = "*a".repeat(20);
        let long = "a".repeat(4000) + "b";
        for (pattern, name, expected) in [
            ("py*", "python3", true),
            ("*3", "python3", true),
            ("py", "python3", false),
            ("python33", "python3", false),
            ("*", "", true),
            ("", "", true),
            ("*th*n*", "python3", true),
            ("*thn*", "python3", false),
            ("*on3*on3", "python3-on3", true),
            (&stars, &long, false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
