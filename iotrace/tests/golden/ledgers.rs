//! Ledgers of a loader: a trainer that waits for four workers, which wait for storage.

use iotrace::model::{Accounts, Ledgers, Process, ProcessLedger, Slice, ThreadLedger};
use iotrace_common::ledger::{
    ACCOUNTS, IO_FSYNC, IO_META, IO_READ, IO_WRITE, OTHER, RUNNABLE, RUNNING, WAIT_FUTEX, WAIT_GPU,
    WAIT_PIPE_SOCKET, WAIT_POLL,
};

/// Shares in per mille of 30 s, the rest in the last account named.
fn shares(whole_ns: u64, parts: &[(u32, u64)], rest: u32) -> Accounts {
    let mut accounts = Accounts([0; ACCOUNTS]);
    for (account, per_mille) in parts {
        accounts.0[*account as usize] = whole_ns / 1000 * per_mille;
    }
    accounts.0[rest as usize] += whole_ns - accounts.sum();
    accounts
}

/// Gives every user process its ledger.
pub fn of(processes: &mut [Process], duration_ns: u64) -> Ledgers {
    let mut threads = Vec::new();
    for (process, index) in processes.iter_mut().filter(|p| !p.kernel_thread).zip(0u64..) {
        let exited = process.exited;
        let life = if exited { duration_ns / 2 } else { duration_ns };
        let accounts = match process.comm == b"python" {
            true => {
                let parts = [(RUNNING, 210), (RUNNABLE, 4), (IO_WRITE, 61), (IO_FSYNC, 7), (WAIT_GPU, 55)];
                shares(life, &parts, WAIT_POLL)
            }
            false => {
                let parts =
                    [(RUNNING, 130 + index * 7), (RUNNABLE, 11), (IO_READ, 512), (IO_META, 148), (OTHER, 3)];
                shares(life, &parts, WAIT_PIPE_SOCKET)
            }
        };
        threads.push(ThreadLedger {
            pid: process.pid,
            tid: process.pid,
            comm: process.comm.clone(),
            from_ns: 0,
            to_ns: life,
            exited,
            accounts,
        });
        let mut sum = accounts;
        let mut count = 1;
        if process.comm == b"python" {
            let accounts = shares(life, &[(RUNNING, 2)], WAIT_FUTEX);
            sum.add(&accounts);
            count += 1;
            let (pid, comm) = (process.pid, b"pt_pin_memory".to_vec());
            threads.push(ThreadLedger { pid, tid: pid + 9, comm, from_ns: 0, to_ns: life, exited, accounts });
        }
        process.ledger = Some(Box::new(ProcessLedger { threads: count, accounts: sum }));
    }
    threads.sort_by_key(|thread| (thread.pid, thread.tid));
    let entries =
        threads.iter().filter(|t| t.tid == t.pid).map(|t| (t.pid, IO_READ as u8, 60_000_000)).collect();
    let slices = vec![
        Slice { start_ns: 0, end_ns: 100_000_000, entries },
        Slice { start_ns: 100_000_000, end_ns: 200_000_000, entries: Vec::new() },
    ];
    Ledgers { threads, unlisted_threads: 0, slices }
}
