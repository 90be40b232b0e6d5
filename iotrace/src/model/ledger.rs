//! Where the time of threads went.

use iotrace_common::ledger::{ACCOUNTS, IO_FAULT, IO_READ, RUNNABLE, RUNNING};

/// Time by account (`iotrace_common::ledger`), ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accounts(pub [u64; ACCOUNTS]);

impl Accounts {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Asleep for storage.
    pub fn storage(&self) -> u64 {
        self.0[IO_READ as usize..=IO_FAULT as usize].iter().sum()
    }

    /// Neither on a CPU nor waiting for one.
    pub fn asleep(&self) -> u64 {
        self.sum() - self.of(RUNNING) - self.of(RUNNABLE)
    }

    /// One account.
    pub fn of(&self, account: u32) -> u64 {
        self.0[account as usize]
    }

    /// Accounts that got any time, by number.
    pub fn times(&self) -> impl Iterator<Item = (u8, u64)> {
        self.0.iter().enumerate().filter(|(_, ns)| **ns > 0).map(|(account, ns)| (account as u8, *ns))
    }

    /// Adds another's time.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// What came since an earlier state; nothing is ever negative.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut change = *self;
        for (now, before) in change.0.iter_mut().zip(earlier.0) {
            *now = now.saturating_sub(before);
        }
        change
    }
}

/// Time of all threads of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessLedger {
    /// Threads that lived within the trace.
    pub threads: u64,
    /// Time, summed over them.
    pub accounts: Accounts,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadLedger {
    /// Pid of its process in the initial namespace.
    pub pid: u32,
    /// Its own id there.
    pub tid: u32,
    /// Its name; any bytes; empty when it ended untold.
    pub comm: Vec<u8>,
    /// From the begin of the trace, or its own, in ns since the trace began.
    pub from_ns: u64,
    /// Until its end, or that of the trace.
    pub to_ns: u64,
    /// It ended within the trace.
    pub exited: bool,
    /// Time; adds up to `to_ns - from_ns`.
    pub accounts: Accounts,
}

/// A stretch of the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// Since the trace began.
    pub start_ns: u64,
    /// Since the trace began.
    pub end_ns: u64,
    /// Pid, account and time, by process that had threads in it; of many, threads that slept through are left out.
    pub entries: Vec<(u32, u8, u64)>,
}

/// The ledgers of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledgers {
    /// Threads, in the order of their processes and ids; of more than are kept one by one, the first.
    pub threads: Vec<ThreadLedger>,
    /// Threads that are in the sums of their processes only.
    pub unlisted_threads: u64,
    /// The trace in slices of equal length, as far as the clock allows.
    pub slices: Vec<Slice>,
}
