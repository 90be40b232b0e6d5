//! The wait ledgers: read ten times a second, so that the trace comes in slices, and threads that ended are taken out of the
//! kernel's map. Of a thread that has not changed its state since, the time goes on in the account it is in.

mod at;
mod slices;
mod sums;
mod unlisted;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use aya::{Ebpf, maps::MapError};
use iotrace_common::{
    ledger::{BLOCK, Ledger, LedgerBlock, READY},
    process::tgid_of,
};

use super::{maps::Maps, pids};
use crate::model::{Accounts, Ledgers, ProcessLedger, ThreadLedger};
use at::accounts_at;
use slices::Slices;
use unlisted::Unlisted;

/// Threads that are told of one by one when they have ended; of more, their processes' sums tell.
const LISTED: usize = 2048;
/// Threads that are told of one by one at the end.
const LISTED_AT_END: usize = 20_000;
/// A block that changes while it is read is read again, so often.
const TRIES: usize = 8;
/// Name of the walk over all threads in the kernel object.
pub const WALK: &str = "ledgers_of_threads";

/// A thread whose ledger is in the kernel's map. Most threads of a large system sleep through a trace: of those nothing is
/// kept but what they sleep for.
struct Known {
    tid: u32,
    /// Account it was in when first read, its only one so far.
    state: u32,
    process: u64,
    born_ns: u64,
    /// Once it has been in more than one.
    moved: Option<Box<Moved>>,
    /// It has ended and was given back.
    taken: bool,
}

/// What a thread had.
struct Moved {
    /// When the trace began.
    base: Accounts,
    /// When last read.
    at: Accounts,
}

impl Known {
    /// What it had at a time when it had not moved yet.
    fn unmoved(&self, at_ns: u64) -> Accounts {
        let mut accounts = Accounts::default();
        if let Some(account) = accounts.0.get_mut(self.state as usize) {
            *account = at_ns.saturating_sub(self.born_ns);
        }
        accounts
    }
}

/// What was read of the ledgers so far.
#[derive(Default)]
pub struct Tracker {
    /// By place in the kernel's map.
    known: Vec<Option<Known>>,
    /// Processes met.
    met: HashSet<u64>,
    ended: Vec<(u64, ThreadLedger)>,
    unlisted: Unlisted,
    slices: Slices,
    began_ns: u64,
    last_ns: u64,
    refused: Option<String>,
}

impl Tracker {
    /// `refused`: why the kernel does not allow the walk over all threads.
    pub fn new(refused: Option<String>) -> Self {
        Self { refused, ..Self::default() }
    }

    /// Opens a ledger for every thread of a target that has none.
    pub fn walk(&mut self, ebpf: &mut Ebpf) {
        if self.refused.is_none() {
            self.refused = pids::walk(ebpf, WALK).err();
        }
    }

    /// Why threads that were there before the trace have no ledger.
    pub fn refusal(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// The trace begins: time before it does not count. Returns the processes that have threads.
    pub fn begin(&mut self, maps: &mut Maps, now_ns: u64) -> Vec<u64> {
        self.began_ns = now_ns;
        self.last_ns = now_ns;
        self.read(maps, now_ns)
    }

    /// Whether a slice is over.
    pub fn is_due(&self, now_ns: u64) -> bool {
        // A little early is better than a whole tick late.
        now_ns.saturating_sub(self.last_ns) + slices::SLICE_NS / 8 >= slices::SLICE_NS
    }

    /// Ends a slice. Returns processes met for the first time.
    pub fn snapshot(&mut self, maps: &mut Maps, now_ns: u64) -> Vec<u64> {
        let met = self.read(maps, now_ns);
        self.slices.end(self.last_ns - self.began_ns, now_ns - self.began_ns);
        self.last_ns = now_ns;
        met
    }

    fn read(&mut self, maps: &mut Maps, now_ns: u64) -> Vec<u64> {
        let used = maps.run_state.get(&0, 0).map_or(0, |state| state.ledgers_used) as usize;
        let (mut met, mut free) = (Vec::new(), Vec::new());
        for block in 0..used.div_ceil(BLOCK) {
            let Ok(read) = read_block(maps, block as u32) else { continue };
            let whole = |ledger: &Ledger| ledger.tid != 0 && is_whole(ledger);
            for (index, ledger) in read.ledgers.iter().enumerate().filter(|(_, ledger)| whole(ledger)) {
                let place = block * BLOCK + index;
                if self.known.len() <= place {
                    self.known.resize_with(place + 1, || None);
                }
                if self.account(place, ledger, now_ns) {
                    free.push(place as u32);
                }
                if self.met.insert(ledger.process) {
                    met.push(ledger.process);
                }
            }
        }
        // The last given back is the first given out: the lowest, so that those in use lie together.
        for place in free.into_iter().rev() {
            let _ = maps.free_ledgers.push(place, 0);
        }
        met
    }

    /// Adds what came since the last time. True: the thread has ended, and its place can be given back.
    fn account(&mut self, place: usize, ledger: &Ledger, now_ns: u64) -> bool {
        let same = |known: &Known| known.born_ns == ledger.born_ns && known.process == ledger.process;
        if !self.known[place].as_ref().is_some_and(same) {
            let mut known = Known {
                tid: ledger.tid,
                state: ledger.state,
                process: ledger.process,
                born_ns: ledger.born_ns,
                moved: None,
                taken: false,
            };
            // What it had before the trace began; of one born later, nothing.
            if has_moved(ledger) {
                let base = accounts_at(ledger, self.began_ns, &Accounts::default());
                known.moved = Some(Box::new(Moved { base, at: base }));
            }
            self.known[place] = Some(known);
        }
        let Some(known) = &mut self.known[place] else { return false };
        if known.taken {
            return false;
        }
        known.tid = ledger.tid; // a thread that executes a program takes over its process's id
        let last = match &known.moved {
            Some(moved) => moved.at,
            None => known.unmoved(self.last_ns),
        };
        let now = accounts_at(ledger, now_ns, &last);
        let change = now.since(&last);
        if has_moved(ledger) {
            let base = known.unmoved(self.began_ns);
            known.moved.get_or_insert_with(|| Box::new(Moved { base, at: base })).at = now;
        }
        self.slices.add(tgid_of(known.process), &change, self.met.len());
        // One that ended while the ledgers were read has its end in the next slice.
        if ledger.ended_ns == 0 || ledger.ended_ns > now_ns {
            return false;
        }
        known.taken = true;
        let base = known.moved.take().map_or_else(Accounts::default, |moved| moved.base);
        let accounts = now.since(&base);
        if self.ended.len() >= LISTED {
            self.unlisted.add(known.process, &accounts);
            return true;
        }
        let thread = ThreadLedger {
            pid: tgid_of(known.process),
            tid: ledger.tid,
            comm: ledger.comm.split(|&b| b == 0).next().unwrap_or(&[]).to_vec(),
            from_ns: ledger.born_ns.saturating_sub(self.began_ns),
            to_ns: ledger.ended_ns.saturating_sub(self.began_ns),
            exited: true,
            accounts,
        };
        self.ended.push((known.process, thread));
        true
    }

    /// The ledgers, and those of processes by key. `name` finds the name of a thread that lives, by the ids of its process
    /// and its own in the initial namespace.
    pub fn finish(
        mut self,
        name: impl Fn(u32, u32) -> Option<Vec<u8>>,
    ) -> (Ledgers, HashMap<u64, ProcessLedger>) {
        let mut processes = std::mem::take(&mut self.unlisted).finish();
        let mut unlisted_threads = processes.values().map(|of| of.threads).sum();
        let mut add = |process: u64, accounts: &Accounts| {
            let of = processes.entry(process).or_default();
            of.threads += 1;
            of.accounts.add(accounts);
        };
        let mut threads = Vec::new();
        for (process, thread) in std::mem::take(&mut self.ended) {
            add(process, &thread.accounts);
            threads.push(thread);
        }
        for known in self.known.iter().flatten().filter(|known| !known.taken) {
            let accounts = match &known.moved {
                Some(moved) => moved.at.since(&moved.base),
                None => known.unmoved(self.last_ns).since(&known.unmoved(self.began_ns)),
            };
            add(known.process, &accounts);
            if threads.len() >= LISTED_AT_END {
                unlisted_threads += 1;
                continue;
            }
            let (pid, to_ns) = (tgid_of(known.process), self.last_ns - self.began_ns);
            threads.push(ThreadLedger {
                pid,
                tid: known.tid,
                comm: name(pid, known.tid).unwrap_or_default(),
                // One may be born while the ledgers are read for the last time.
                from_ns: known.born_ns.saturating_sub(self.began_ns).min(to_ns),
                to_ns,
                exited: false,
                accounts,
            });
        }
        threads.sort_by_key(|thread| (thread.pid, thread.tid, thread.from_ns));
        (Ledgers { threads, unlisted_threads, slices: self.slices.finish() }, processes)
    }
}

/// May the thread have been in more than one account? One that was found ready is in another as soon as that is resolved, and
/// the versions of a place go on with its next thread.
fn has_moved(ledger: &Ledger) -> bool {
    ledger.version > 1 || ledger.state == READY
}

/// A block, each ledger as it was at some moment. One that changed whenever it was read is not whole.
fn read_block(maps: &Maps, block: u32) -> Result<LedgerBlock, MapError> {
    let mut read = maps.ledgers.get(&block, 0)?;
    for again in 0..TRIES {
        if read.ledgers.iter().all(is_whole) {
            break;
        }
        // A CPU that does not run now, of a virtual machine, can have stopped in the middle of a change.
        if again >= TRIES / 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let again = maps.ledgers.get(&block, 0)?;
        for (ledger, again) in read.ledgers.iter_mut().zip(again.ledgers) {
            if !is_whole(ledger) {
                *ledger = again;
            }
        }
    }
    Ok(read)
}

/// Did nothing change while it was read?
fn is_whole(ledger: &Ledger) -> bool {
    ledger.version_seen == ledger.version
}
