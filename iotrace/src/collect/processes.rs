//! The processes seen in a trace, by key: who they are, what their threads that are gone have counted, and which files
//! they touched.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use iotrace_common::{
    op::{
        ASYNC_FORMS, DATA_FORMS, FORM_NAMES, FORM_OPS, FORMS, OP_ASYNC_READ, OP_ASYNC_READ_SIZE,
        OP_ASYNC_WRITE_SIZE, OP_NAMES, OP_READ, OP_WRITE, first_form,
    },
    process::tgid_of,
    thread::{KIND_NAMES, Kind, OpSet, OpSlot, ThreadSlot},
};

use super::{files::OfProcess, procfs, totals};
use crate::model::{BlockEntry, Histogram, OpStats, Process, ProcessLedger, named};

/// Processes by key.
#[derive(Default)]
pub struct Processes {
    /// In the order seen; handed to the trace as it is, so that 10 000 processes are never held twice.
    list: Vec<Process>,
    /// Place in `list` by key.
    places: HashMap<u64, u32>,
    /// Key of the process that has a tgid now.
    current: HashMap<u32, u64>,
    /// Command lines, each once: a system's processes share few.
    cmdlines: HashSet<Arc<Vec<Vec<u8>>>>,
}

impl Processes {
    /// The process of a key, made with what the key says when it is new (its record was lost).
    pub fn entry(&mut self, key: u64) -> &mut Process {
        let list = &mut self.list;
        let place = *self.places.entry(key).or_insert_with(|| {
            list.push(Process { pid: tgid_of(key), ..Process::default() });
            list.len() as u32 - 1
        });
        &mut self.list[place as usize]
    }

    /// The process of a key, if it was met.
    pub fn get(&self, key: u64) -> Option<&Process> {
        Some(&self.list[*self.places.get(&key)? as usize])
    }

    /// The process that has this pid now, or had it last.
    pub fn by_pid(&self, pid: u32) -> Option<&Process> {
        self.get(*self.current.get(&pid)?)
    }

    /// Has this process ended? One that was never told of has not.
    pub fn has_ended(&self, key: u64) -> bool {
        self.get(key).is_some_and(|process| process.exited)
    }

    /// Pids, in the initial namespace, of the user processes known here that still live.
    pub fn alive(&self) -> impl Iterator<Item = u32> {
        self.list.iter().filter(|p| !p.exited && !p.kernel_thread).map(|p| p.pid)
    }

    /// A process was seen, by the kernel side or in /proc.
    pub fn seen(&mut self, key: u64, seen: Process, exec: bool) {
        // A fork has its parent's arguments until it executes another program.
        let inherited = self.current.get(&seen.ppid).and_then(|parent| self.places.get(parent));
        let inherited = inherited.map(|&place| self.list[place as usize].cmdline.clone()).unwrap_or_default();
        self.current.insert(seen.pid, key);
        let cmdline = match self.cmdlines.get(&seen.cmdline) {
            Some(known) => Arc::clone(known),
            None => {
                self.cmdlines.insert(Arc::clone(&seen.cmdline));
                seen.cmdline
            }
        };
        let process = self.entry(key);
        process.ns_pid = seen.ns_pid;
        process.ppid = seen.ppid;
        process.start_ns = seen.start_ns;
        process.comm = seen.comm;
        process.kernel_thread = seen.kernel_thread;
        process.container = seen.container;
        if !cmdline.is_empty() {
            process.cmdline = cmdline;
        } else if process.cmdline.is_empty() && !exec {
            process.cmdline = inherited;
        }
    }

    /// A process ended.
    pub fn exited(&mut self, key: u64, comm: Vec<u8>) {
        let process = self.entry(key);
        process.exited = true;
        if !comm.is_empty() {
            process.comm = comm;
        }
    }

    /// Adds a thread's statistics.
    pub fn add_thread(&mut self, slot: &ThreadSlot) {
        let process = self.entry(slot.process);
        add_op(&mut process.read, &slot.ops[0]);
        add_op(&mut process.write, &slot.ops[1]);
        let [reads, writes] = &slot.apart;
        let kinds = KIND_NAMES.into_iter().zip(reads).zip(writes).skip(Kind::BlockDevice as usize + 1);
        for ((name, read), write) in kinds.filter(|((_, read), write)| read.calls + write.calls > 0) {
            let apart = named(&mut process.apart, name);
            apart.reads += read.calls;
            apart.read_bytes += read.bytes;
            apart.writes += write.calls;
            apart.write_bytes += write.bytes;
        }
    }

    /// Sets the ledger of a process.
    pub fn set_ledger(&mut self, key: u64, ledger: ProcessLedger) {
        self.entry(key).ledger = Some(Box::new(ledger));
    }

    /// Adds failed calls.
    pub fn add_errors(&mut self, key: u64, op: u32, errno: i32, count: u64) {
        let process = self.entry(key);
        let errors = match op {
            OP_READ => &mut process.read.errors,
            OP_WRITE => &mut process.write.errors,
            other => match OP_NAMES.get(other as usize) {
                Some(name) => &mut named(&mut process.meta, name).errors,
                None => return,
            },
        };
        *errors.entry(errno).or_default() += count;
    }

    /// Adds latencies, or sizes, of asynchronous transfers to reads and writes.
    fn add_async(&mut self, set: &OpSet) {
        let process = self.entry(set.key.process);
        let op = match set.key.op {
            OP_ASYNC_READ | OP_ASYNC_READ_SIZE => &mut process.read,
            _ => &mut process.write,
        };
        let values = totals::histogram(&set.latency);
        if matches!(set.key.op, OP_ASYNC_READ_SIZE | OP_ASYNC_WRITE_SIZE) {
            op.bytes += values.sum;
            op.size_bytes.merge(&values);
            return;
        }
        op.count += values.count;
        op.latency_ns.merge(&values);
        for (form, calls) in ASYNC_FORMS.into_iter().zip(set.forms).filter(|(_, calls)| *calls > 0) {
            *named(&mut op.forms, form) += calls;
        }
    }

    /// Adds an operation's statistics.
    pub fn add_op(&mut self, set: &OpSet) {
        if set.key.op >= OP_ASYNC_READ {
            return self.add_async(set);
        }
        let Some(name) = OP_NAMES.get(set.key.op as usize) else { return };
        let stats = named(&mut self.entry(set.key.process).meta, name);
        let latency = totals::histogram(&set.latency);
        stats.count += latency.count;
        stats.waited += set.waited;
        stats.wait_ns += set.wait_ns;
        stats.cached_bytes += set.cached_bytes;
        stats.latency_ns.merge(&latency);
        let first = first_form(set.key.op);
        for (form, calls) in (first..FORMS).zip(set.forms).filter(|(_, calls)| *calls > 0) {
            if FORM_OPS[form] == set.key.op {
                *named(&mut stats.forms, FORM_NAMES[form]) += calls;
            }
        }
    }

    /// Adds a set of block requests.
    pub fn add_block(&mut self, key: u64, entry: BlockEntry) {
        add_block(&mut self.entry(key).block, entry);
    }

    /// Everything, with file sizes as distributions and names as they are now, for processes that `own_pid` finds in
    /// iotrace's own pid namespace. Kernel threads that did nothing are left out.
    pub fn finish(
        mut self,
        files: impl IntoIterator<Item = (u64, OfProcess)>,
        own_pid: impl Fn(u32) -> Option<u32>,
    ) -> Vec<Process> {
        self.current = HashMap::new();
        for (key, of) in files {
            let process = self.entry(key);
            process.file_sizes = Some(Box::new(of.sizes)).filter(|sizes| !sizes.all.is_empty());
            process.files = Some(Box::new(of.file_use));
        }
        let mut processes = self.list;
        processes.retain(|p| !p.kernel_thread || !p.block.is_empty());
        for process in processes.iter_mut().filter(|p| !p.exited) {
            let Some(pid) = own_pid(process.pid) else { continue };
            if process.ns_pid == 0 {
                // The kernel side never told of it: it touched no file.
                let Some(status) = procfs::status(pid) else {
                    process.exited = true;
                    continue;
                };
                process.ns_pid = status.ns_pids.last().copied().unwrap_or(pid);
                process.ppid = status.ppid;
            }
            // prctl(PR_SET_NAME) changes a name without a hook of ours.
            if let Some(comm) = procfs::comm(pid) {
                process.comm = comm;
            }
            if !process.kernel_thread {
                let cmdline = procfs::cmdline(pid);
                if !cmdline.is_empty() && cmdline != *process.cmdline {
                    process.cmdline = cmdline.into();
                }
            }
        }
        processes
    }
}

/// Adds to the entry of the same device, operation and flags.
pub fn add_block(entries: &mut Vec<BlockEntry>, entry: BlockEntry) {
    let same = |e: &&mut BlockEntry| {
        (e.device, e.op, e.sync, e.meta, e.readahead)
            == (entry.device, entry.op, entry.sync, entry.meta, entry.readahead)
    };
    match entries.iter_mut().find(same) {
        Some(found) => found.stats.merge(&entry.stats),
        None => entries.push(entry),
    }
}

fn add_op(total: &mut OpStats, op: &OpSlot) {
    if op.count == 0 {
        return;
    }
    total.count += op.count;
    total.bytes += op.bytes;
    total.short += op.short;
    total.eof += op.eof;
    total.waited += op.waited;
    total.wait_ns += op.wait_ns;
    total.waited_bytes += op.waited_bytes;
    total.cached_bytes += op.cached_bytes;
    for (form, calls) in FORM_NAMES[..DATA_FORMS].iter().zip(op.forms).filter(|(_, calls)| *calls > 0) {
        *named(&mut total.forms, form) += calls;
    }
    let latency = Histogram::from_parts(&op.latency, op.latency_sum_ns, op.latency_min_ns, op.latency_max_ns);
    total.latency_ns.merge(&latency);
    total.size_bytes.merge(&Histogram::from_parts(&op.size, op.bytes, op.size_min, op.size_max));
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_common::process::key;

    fn named(pid: u32, ppid: u32, comm: &[u8]) -> Process {
        Process { pid, ppid, comm: comm.to_vec(), ..Process::default() }
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut processes = Processes::default();
        let (first, second) = (key(100, 1 << 30), key(100, 1 << 40));
        processes.seen(first, named(100, 1, b"cat"), false);
        processes.exited(first, Vec::new());
        processes.seen(second, named(100, 1, b"dd"), false);
        let mut all = processes.finish([], |_| None);
        all.sort_by(|a, b| a.comm.cmp(&b.comm));
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].comm.as_slice(), all[0].exited), (&b"cat"[..], true));
        assert_eq!(all[1].comm, b"dd");
    }

    #[test]
    fn a_fork_has_its_parents_arguments() {
        let mut processes = Processes::default();
        let parent =
            Process { cmdline: vec![b"python".to_vec()].into(), ..named(u32::MAX >> 11, 1, b"python") };
        let pid = parent.pid;
        processes.seen(key(pid, 1 << 30), parent, false);
        processes.seen(key(pid - 1, 1 << 31), named(pid - 1, pid, b"python"), false);
        assert!(processes.finish([], |_| None).iter().all(|p| *p.cmdline == [b"python".to_vec()]));
    }
}
