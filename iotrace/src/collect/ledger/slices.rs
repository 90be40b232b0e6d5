//! The trace in slices. When they become too many for the memory set aside, neighbours are joined: a long trace has longer
//! slices.

use super::sums::added_up;
use crate::model::{Accounts, Slice};

/// Length of a slice, at first.
pub const SLICE_NS: u64 = 100_000_000;
/// Entries kept, 16 bytes each.
const ENTRIES: usize = 1 << 17;
/// Of more processes than this, threads that only slept through a slice are left out of it.
const PROCESSES: usize = 256;

/// Slices so far.
pub struct Slices {
    list: Vec<Slice>,
    entries: usize,
    /// Of the slice that goes on, in no order.
    open: Vec<(u32, u8, u64)>,
    /// Ends of snapshots that make one slice.
    joined: u32,
    in_last: u32,
}

impl Default for Slices {
    fn default() -> Self {
        Self { list: Vec::new(), entries: 0, open: Vec::new(), joined: 1, in_last: 0 }
    }
}

impl Slices {
    /// Adds time of a thread of one of so many processes to the slice that goes on.
    pub fn add(&mut self, pid: u32, change: &Accounts, processes: usize) {
        if processes > PROCESSES && change.asleep() == change.sum() {
            return;
        }
        self.open.extend(change.times().map(|(account, ns)| (pid, account, ns)));
    }

    /// The slice that goes on is over. Times are since the trace began.
    pub fn end(&mut self, start_ns: u64, end_ns: u64) {
        let entries = added_up(std::mem::take(&mut self.open));
        self.entries += entries.len();
        let slice = Slice { start_ns, end_ns, entries };
        match self.list.last_mut().filter(|_| self.in_last < self.joined) {
            Some(last) => {
                let before = last.entries.len() + slice.entries.len();
                join(last, slice);
                self.entries -= before - last.entries.len();
                self.in_last += 1;
            }
            None => {
                self.list.push(slice);
                self.in_last = 1;
            }
        }
        if self.entries > ENTRIES && self.list.len() > 1 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.in_last += if self.list.len().is_multiple_of(2) { self.joined } else { 0 };
        self.joined *= 2;
        let mut halved: Vec<Slice> = Vec::with_capacity(self.list.len() / 2 + 1);
        for (index, slice) in std::mem::take(&mut self.list).into_iter().enumerate() {
            match halved.last_mut().filter(|_| index % 2 == 1) {
                Some(last) => join(last, slice),
                None => halved.push(slice),
            }
        }
        self.list = halved;
        self.entries = self.list.iter().map(|slice| slice.entries.len()).sum();
    }

    /// All of them.
    pub fn finish(self) -> Vec<Slice> {
        self.list
    }
}

/// Adds a slice to the one before it.
fn join(to: &mut Slice, from: Slice) {
    to.end_ns = from.end_ns;
    let mut entries = std::mem::take(&mut to.entries);
    entries.extend(from.entries);
    to.entries = added_up(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(account: usize, ns: u64) -> Accounts {
        let mut accounts = Accounts::default();
        accounts.0[account] = ns;
        accounts
    }

    #[test]
    fn a_long_trace_has_longer_slices_and_the_same_sum() {
        let mut slices = Slices::default();
        let (processes, rounds) = (200u32, 3000u64);
        for round in 0..rounds {
            for pid in 1..=processes {
                slices.add(pid, &one((round % 2) as usize, 100), 200);
            }
            slices.end(round * 100, (round + 1) * 100);
        }
        let list = slices.finish();
        let entries: usize = list.iter().map(|slice| slice.entries.len()).sum();
        assert!(entries <= ENTRIES, "{entries}");
        let sum: u64 = list.iter().flat_map(|slice| &slice.entries).map(|(_, _, ns)| ns).sum();
        assert_eq!(sum, rounds * u64::from(processes) * 100);
        assert!(list.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
        assert_eq!((list[0].start_ns, list[list.len() - 1].end_ns), (0, rounds * 100));
        let lengths: Vec<u64> = list.iter().map(|slice| slice.end_ns - slice.start_ns).collect();
        assert!(lengths[..lengths.len() - 1].iter().all(|&length| length == lengths[0]), "{lengths:?}");
    }

    #[test]
    fn sleepers_are_left_out_of_a_crowd_only() {
        let mut slices = Slices::default();
        for pid in 1..=300 {
            slices.add(pid, &one(if pid == 7 { 0 } else { 11 }, 100), 300);
        }
        slices.end(0, 100);
        slices.add(1, &one(11, 100), 256);
        slices.end(100, 200);
        let list = slices.finish();
        assert_eq!(list[0].entries, [(7, 0, 100)]);
        assert_eq!(list[1].entries, [(1, 11, 100)]);
    }
}
