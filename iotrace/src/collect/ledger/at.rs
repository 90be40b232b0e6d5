//! What a ledger says at a moment, which its last change may come before or after.

use iotrace_common::ledger::{ACCOUNTS, Ledger, READY, RUNNING};

use crate::model::Accounts;

/// The accounts at `now_ns`. The time since the last change belongs to the account the thread is in; when the change came
/// after `now_ns`, while the ledgers were read, the time between is taken back from the account it was in before, and of
/// several changes from the others, but never below what they had at an `earlier` moment: what has grown since can give it.
pub fn accounts_at(ledger: &Ledger, now_ns: u64, earlier: &Accounts) -> Accounts {
    let mut accounts = Accounts(ledger.accounts);
    if ledger.ended_ns != 0 && ledger.ended_ns <= now_ns {
        return accounts;
    }
    if ledger.since_ns <= now_ns {
        // One that was ready from the beginning and has a CPU for itself is never switched.
        let state = if ledger.state == READY { RUNNING } else { ledger.state };
        if let Some(account) = accounts.0.get_mut(state as usize) {
            *account += now_ns - ledger.since_ns;
        }
        return accounts;
    }
    let mut early = ledger.since_ns - now_ns;
    for at in std::iter::once(ledger.before as usize).chain(0..ACCOUNTS) {
        if let (Some(account), Some(earlier)) = (accounts.0.get_mut(at), earlier.0.get(at)) {
            let taken = early.min(account.saturating_sub(*earlier));
            *account -= taken;
            early -= taken;
        }
    }
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_common::ledger::{IO_READ, RUNNABLE};

    fn ledger(state: u32, before: u32, since_ns: u64) -> Ledger {
        let mut accounts = [0; ACCOUNTS];
        accounts[RUNNING as usize] = 300;
        accounts[IO_READ as usize] = 700;
        Ledger {
            version_seen: 1,
            process: 1,
            tid: 1,
            state,
            before,
            slot: 0,
            since_ns,
            born_ns: since_ns - 1000,
            ended_ns: 0,
            comm: [0; 16],
            accounts,
            version: 1,
        }
    }

    #[test]
    fn accounts_add_up_to_the_life_so_far_whenever_they_are_read() {
        for now_ns in [4_100, 4_999, 5_000, 5_001, 9_000] {
            for (state, before) in
                [(IO_READ, RUNNING), (RUNNING, RUNNABLE), (READY, RUNNING), (RUNNABLE, IO_READ)]
            {
                let ledger = ledger(state, before, 5_000);
                assert_eq!(
                    accounts_at(&ledger, now_ns, &Accounts::default()).sum(),
                    now_ns - ledger.born_ns,
                    "{state} at {now_ns}"
                );
            }
        }
    }

    #[test]
    fn time_goes_on_in_the_account_the_thread_is_in() {
        let none = Accounts::default();
        assert_eq!(accounts_at(&ledger(IO_READ, RUNNING, 5_000), 5_250, &none).of(IO_READ), 950);
        assert_eq!(accounts_at(&ledger(RUNNING, IO_READ, 5_000), 4_900, &none).of(IO_READ), 600);
    }

    /// Read long after the moment, a thread may have changed often: it was not in its last account all that time.
    #[test]
    fn no_account_falls_below_what_it_had_before() {
        let mut earlier = Accounts::default();
        earlier.0[IO_READ as usize] = 600;
        let now = accounts_at(&ledger(RUNNABLE, IO_READ, 5_000), 4_700, &earlier);
        assert_eq!((now.of(IO_READ), now.of(RUNNING), now.sum()), (600, 100, 700));
    }

    #[test]
    fn an_ended_thread_gets_nothing_more_and_one_not_yet_born_nothing() {
        let mut gone = ledger(RUNNING, IO_READ, 5_000);
        gone.ended_ns = 5_000;
        assert_eq!(accounts_at(&gone, 9_000, &Accounts::default()).sum(), 1_000);
        let mut young = ledger(RUNNABLE, RUNNING, 5_000);
        young.accounts = [0; ACCOUNTS];
        assert_eq!(accounts_at(&young, 4_000, &Accounts::default()).sum(), 0);
    }
}
