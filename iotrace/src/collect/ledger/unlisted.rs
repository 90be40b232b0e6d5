//! Sums of ended threads that are not listed one by one: a few numbers each, added up by process when they have become many.

use std::collections::HashMap;

use super::sums::added_up;
use crate::model::{Accounts, ProcessLedger};

/// In place of an account: how many threads.
const THREADS: u8 = u8::MAX;
/// Numbers are added up when there are twice as many as were left the last time, and these.
const SLACK: usize = 4096;

/// Key of the process, account, time.
#[derive(Default)]
pub struct Unlisted {
    numbers: Vec<(u64, u8, u64)>,
    left: usize,
}

impl Unlisted {
    /// Adds a thread of a process.
    pub fn add(&mut self, process: u64, accounts: &Accounts) {
        self.numbers.push((process, THREADS, 1));
        self.numbers.extend(accounts.times().map(|(account, ns)| (process, account, ns)));
        if self.numbers.len() > 2 * self.left + SLACK {
            self.numbers = added_up(std::mem::take(&mut self.numbers));
            self.left = self.numbers.len();
        }
    }

    /// By process key.
    pub fn finish(self) -> HashMap<u64, ProcessLedger> {
        let mut processes: HashMap<u64, ProcessLedger> = HashMap::new();
        for (process, account, number) in self.numbers {
            let of = processes.entry(process).or_default();
            match of.accounts.0.get_mut(account as usize) {
                Some(ns) => *ns += number,
                None => of.threads += number,
            }
        }
        processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_right_and_take_little() {
        let mut unlisted = Unlisted::default();
        for thread in 0..100_000u64 {
            let mut accounts = Accounts::default();
            accounts.0[(thread % 13) as usize] = thread;
            unlisted.add(thread % 3, &accounts);
        }
        assert!(unlisted.numbers.capacity() < 1 << 15);
        let processes = unlisted.finish();
        assert_eq!(processes.values().map(|of| of.threads).sum::<u64>(), 100_000);
        assert_eq!(processes[&1].threads, 33_333);
        let time: u64 = processes.values().map(|of| of.accounts.sum()).sum();
        assert_eq!(time, (0..100_000).sum::<u64>());
    }
}
