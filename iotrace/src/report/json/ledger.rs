//! The ledgers, written thread by thread: a large system has many.

use std::collections::BTreeMap;

use iotrace_common::ledger::ACCOUNT_NAMES;
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use crate::{
    analysis::roles::Roles,
    model::{Accounts, Ledgers, Process, Slice, ThreadLedger, Trace},
    report::escape::reversible,
};

/// Time by account.
pub struct Times(Accounts);

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(ACCOUNT_NAMES.iter().zip(self.0.0))
    }
}

#[derive(Serialize)]
pub struct LedgerInfo<'a> {
    pub accounts: Times,
    pub roles: Vec<RoleInfo>,
    pub processes: ProcessLedgers<'a>,
    pub threads: ThreadLedgers<'a>,
    pub unlisted_threads: u64,
    pub threads_not_followed: u64,
    pub slices: SliceInfos<'a>,
}

#[derive(Serialize)]
pub struct RoleInfo {
    pub role: String,
    pub rule: String,
    pub pids: Vec<u32>,
    pub threads: u64,
    pub time_ns: u64,
    pub accounts: Times,
}

#[derive(Serialize)]
struct ProcessLedgerInfo<'a> {
    pid: u32,
    comm: String,
    role: &'a str,
    threads: u64,
    time_ns: u64,
    accounts: Times,
}

#[derive(Serialize)]
struct ThreadLedgerInfo {
    pid: u32,
    tid: u32,
    comm: String,
    from_ns: u64,
    to_ns: u64,
    exited: bool,
    accounts: Times,
}

/// Processes that have a ledger.
pub struct ProcessLedgers<'a>(&'a [Process], Roles);

impl Serialize for ProcessLedgers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().filter_map(|process| {
            let ledger = process.ledger.as_deref()?;
            Some(ProcessLedgerInfo {
                pid: process.pid,
                comm: reversible(&process.comm),
                role: self.1.of_process(process).name(),
                threads: ledger.threads,
                time_ns: ledger.accounts.sum(),
                accounts: Times(ledger.accounts),
            })
        }))
    }
}

/// Threads, one by one.
pub struct ThreadLedgers<'a>(&'a [ThreadLedger]);

impl Serialize for ThreadLedgers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|thread| ThreadLedgerInfo {
            pid: thread.pid,
            tid: thread.tid,
            comm: reversible(&thread.comm),
            from_ns: thread.from_ns,
            to_ns: thread.to_ns,
            exited: thread.exited,
            accounts: Times(thread.accounts),
        }))
    }
}

/// Slices, of which each process shows the accounts that got any time.
pub struct SliceInfos<'a>(&'a [Slice]);

impl Serialize for SliceInfos<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(SliceInfo))
    }
}

struct SliceInfo<'a>(&'a Slice);

impl Serialize for SliceInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut processes: BTreeMap<u32, BTreeMap<&str, u64>> = BTreeMap::new();
        for &(pid, account, ns) in &self.0.entries {
            processes.entry(pid).or_default().insert(ACCOUNT_NAMES[account as usize], ns);
        }
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("start_ns", &self.0.start_ns)?;
        map.serialize_entry("end_ns", &self.0.end_ns)?;
        map.serialize_entry("processes", &processes)?;
        map.end()
    }
}

impl<'a> LedgerInfo<'a> {
    /// `None`: nothing was measured.
    pub fn of(trace: &'a Trace) -> Option<Self> {
        let ledgers: &Ledgers = trace.ledgers.as_deref()?;
        let roles = Roles::of(trace);
        let mut accounts = Accounts::default();
        trace.processes.iter().flat_map(|p| &p.ledger).for_each(|ledger| accounts.add(&ledger.accounts));
        let role_infos = roles.sums(trace).into_iter().map(|sum| RoleInfo {
            role: sum.role.name().to_owned(),
            rule: sum.rule,
            pids: sum.pids,
            threads: sum.threads,
            time_ns: sum.accounts.sum(),
            accounts: Times(sum.accounts),
        });
        Some(Self {
            accounts: Times(accounts),
            roles: role_infos.collect(),
            processes: ProcessLedgers(&trace.processes, roles),
            threads: ThreadLedgers(&ledgers.threads),
            unlisted_threads: ledgers.unlisted_threads,
            threads_not_followed: trace.lost.get("threads_without_ledger").copied().unwrap_or(0),
            slices: SliceInfos(&ledgers.slices),
        })
    }
}
