//! The kernel's own account of BPF programs: how often each ran and for how long (`bpf_stats_enabled`).

use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};

use super::table::Program;

/// bpf(2) commands (include/uapi/linux/bpf.h).
const BPF_PROG_GET_NEXT_ID: libc::c_long = 11;
const BPF_PROG_GET_FD_BY_ID: libc::c_long = 13;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_ENABLE_STATS: libc::c_long = 32;

/// Switches the account on, for all programs of the system, until it is dropped.
pub struct Stats {
    _fd: OwnedFd,
}

impl Stats {
    /// Switches it on.
    pub fn enable() -> Result<Self> {
        /// BPF_STATS_RUN_TIME.
        const RUN_TIME: u32 = 0;
        let fd = bpf(BPF_ENABLE_STATS, &mut [RUN_TIME; 1]).context("BPF_ENABLE_STATS")?;
        // SAFETY: a new descriptor that nobody else has.
        Ok(Self { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// One program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its name: 15 characters at most.
    pub name: String,
    /// Runs.
    pub runs: u64,
    /// Nanoseconds over all runs.
    pub ns: u64,
}

impl Account {
    /// Its share of a load of so many operations.
    pub fn under(self, load: &'static str, ops: u64) -> Program {
        Program {
            load,
            name: self.name,
            runs_per_op: self.runs as f64 / ops as f64,
            ns_per_run: self.ns as f64 / self.runs as f64,
        }
    }
}

/// The programs that a process holds, by id.
pub fn of_process(pid: u32) -> Result<BTreeMap<u32, Account>> {
    let mut accounts = BTreeMap::new();
    let folder = format!("/proc/{pid}/fdinfo");
    for entry in fs::read_dir(&folder).with_context(|| folder.clone())?.flatten() {
        // A descriptor may be closed meanwhile.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let number = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        // A link has a prog_id too, but no run time.
        let (Some(id), Some(runs), Some(ns)) = (number("prog_id"), number("run_cnt"), number("run_time_ns"))
        else {
            continue;
        };
        let id = id as u32;
        let name = info(id).map_or_else(|_| format!("program {id}"), |(_, name)| name);
        accounts.insert(id, Account { name, runs, ns });
    }
    Ok(accounts)
}

/// What was added between two looks.
pub fn between(before: &BTreeMap<u32, Account>, after: &BTreeMap<u32, Account>) -> Vec<Account> {
    let added = |(id, account): (&u32, &Account)| {
        let zero = Account::default();
        let old = before.get(id).unwrap_or(&zero);
        let name = account.name.clone();
        Account { name, runs: account.runs - old.runs, ns: account.ns - old.ns }
    };
    after.iter().map(added).filter(|account| account.runs > 0).collect()
}

/// Names of the tracing programs loaded in the system, whoever holds them.
pub fn tracing() -> Vec<String> {
    /// KPROBE, TRACEPOINT, PERF_EVENT, RAW_TRACEPOINT, RAW_TRACEPOINT_WRITABLE, TRACING, LSM.
    const KINDS: [u32; 7] = [2, 5, 7, 17, 24, 26, 29];
    let mut names = Vec::new();
    let mut words = [0; 3];
    while bpf(BPF_PROG_GET_NEXT_ID, &mut words).is_ok() {
        // It writes the next id behind the one it was given.
        words[0] = words[1];
        match info(words[0]) {
            Ok((kind, name)) if KINDS.contains(&kind) => names.push(name),
            // Unloaded meanwhile, or of another kind.
            _ => {}
        }
    }
    names
}

/// The program's kind and name.
fn info(id: u32) -> io::Result<(u32, String)> {
    /// Words of struct bpf_prog_info up to the end of its name, which begins at word 16. Word 0 is the kind.
    const INFO: usize = 20;
    let fd = bpf(BPF_PROG_GET_FD_BY_ID, &mut [id, 0, 0])?;
    // SAFETY: a new descriptor that nobody else has.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = [0_u32; INFO];
    let address = info.as_mut_ptr() as u64;
    let size = size_of_val(&info) as u32;
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut [fd.as_raw_fd() as u32, size, address as u32, (address >> 32) as u32])?;
    let bytes: Vec<u8> = info[16..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok((info[0], String::from_utf8_lossy(&bytes[..end]).into_owned()))
}

/// bpf(2) with an argument of 32-bit words, in the order of a little-endian machine.
fn bpf(command: libc::c_long, words: &mut [u32]) -> io::Result<i32> {
    // SAFETY: the argument is live and of the size given; addresses in it are those of live buffers.
    let ret = unsafe { libc::syscall(libc::SYS_bpf, command, words.as_mut_ptr(), size_of_val(words)) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_counts_from_the_first_look() {
        let account = |runs, ns| Account { name: "p".into(), runs, ns };
        let before = [(1, account(10, 100)), (2, account(5, 50))].into();
        let after = [(1, account(30, 500)), (2, account(5, 50)), (3, account(1, 7))].into();
        assert_eq!(between(&before, &after), [account(20, 400), account(1, 7)]);
    }
}
