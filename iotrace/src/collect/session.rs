//! A running trace: drained a few times a second, closed into a [`crate::model::Trace`].

mod finish;

use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use iotrace_common::{
    config::RunState,
    event::ARGS_BYTES,
    process::{Target, tgid_of},
    thread::{OpSet, ThreadSlot},
};

use super::{
    backlog::Backlog,
    clock,
    containers::Containers,
    cost,
    error::StartError,
    events::Event,
    file_places::FilePlaces,
    files::Files,
    leftovers,
    loader::{self, Loaded},
    mounts::Mounts,
    processes::Processes,
    procfs,
    selection::Selection,
    totals,
};
use crate::{
    cli::SelfStats,
    model::{BlockEntry, Container, Process},
};

/// How often the ring buffer is drained. At 20 000 records a second a quarter of it fills meanwhile.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// So many records in one drain, and the next comes after [`HURRY`].
const MANY_RECORDS: usize = 1000;
/// Pause between drains under pressure.
pub const HURRY: Duration = Duration::from_millis(5);

/// How full the ring buffer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// As usual.
    Low,
    /// Filling: drain again soon.
    High,
}

/// What belongs to a process stays in the kernel's maps this long after its end: the last references to its files are
/// dropped, and its last writes complete, after its exit is told.
const GRACE: Duration = Duration::from_secs(1);

/// A running trace.
pub struct Session {
    loaded: Loaded,
    backlog: Backlog,
    selection: Selection,
    processes: Processes,
    containers: Containers,
    /// Targets given by pid that the kernel side has not met yet.
    waiting: HashMap<u32, Process>,
    files: Files,
    mounts: Mounts,
    file_places: FilePlaces,
    /// First failures: process key, operation, errno, path.
    failures: Vec<(u64, u32, u32, Vec<u8>)>,
    /// Processes that ended and whose traces in the maps are still to be removed.
    ended: Vec<(u64, Instant)>,
    others: Vec<BlockEntry>,
    undecoded: u64,
    user_generation: u64,
    sampler: cost::Sampler,
    self_stats: SelfStats,
    began: Instant,
    began_monotonic_ns: u64,
    started_at_unix_ns: u64,
    cpu_at_start_ns: u64,
    last_cleanup: Instant,
}

/// What a progress line shows.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Since the probes were attached.
    pub elapsed: Duration,
    /// Reads and writes of storage; `None` when they are left out.
    pub ops: Option<u64>,
    /// Block requests completed.
    pub requests: u64,
    /// Losses of every cause.
    pub lost: u64,
}

impl Session {
    /// Loads, attaches and begins. `pids` are those of the selection with their descendants.
    pub fn start(selection: Selection, pids: &[u32], self_stats: SelfStats) -> Result<Self, StartError> {
        let loaded = loader::load(&selection, pids)?;
        loader::refuse_without_required(&loaded.probes)?;
        let mut session = Self {
            loaded,
            backlog: Backlog::default(),
            selection,
            processes: Processes::default(),
            containers: Containers::default(),
            waiting: HashMap::new(),
            files: Files::default(),
            mounts: Mounts::new(),
            file_places: FilePlaces::default(),
            failures: Vec::new(),
            ended: Vec::new(),
            others: Vec::new(),
            undecoded: 0,
            user_generation: 0,
            sampler: cost::Sampler::start(SelfStats::Off),
            self_stats,
            began: Instant::now(),
            began_monotonic_ns: clock::monotonic_ns(),
            started_at_unix_ns: clock::unix_ns(),
            cpu_at_start_ns: cost::own_cpu_ns(),
            last_cleanup: Instant::now(),
        };
        pids.iter().for_each(|&pid| session.expect(pid));
        // What a command did before it left the namespace that it was started in is named as here.
        session.mounts.for_process(std::process::id(), 0);
        session.look_for_files();
        Ok(session)
    }

    /// Begins to count. Everything is attached, and what was forked meanwhile has been added.
    pub fn begin(&mut self) {
        self.open_ledgers();
        self.set_state(|state| state.counting = 1);
        self.began = Instant::now();
        self.began_monotonic_ns = clock::monotonic_ns();
        if let Some(ledgers) = &mut self.loaded.ledgers {
            let met = ledgers.begin(&mut self.loaded.maps, self.began_monotonic_ns);
            self.meet(met);
        }
        self.started_at_unix_ns = clock::unix_ns();
        self.cpu_at_start_ns = cost::own_cpu_ns();
        self.sampler = cost::Sampler::start(self.self_stats);
    }

    /// Of threads of targets that have none.
    fn open_ledgers(&mut self) {
        if let Some(ledgers) = &mut self.loaded.ledgers {
            ledgers.walk(&mut self.loaded.ebpf);
        }
    }

    /// Ends a slice of the ledgers.
    fn read_ledgers(&mut self, now_ns: u64) {
        let Some(ledgers) = &mut self.loaded.ledgers else { return };
        let met = ledgers.snapshot(&mut self.loaded.maps, now_ns);
        self.meet(met);
    }

    /// Processes that have threads. They may never touch a file, and so never be told of.
    fn meet(&mut self, processes: Vec<u64>) {
        for key in processes {
            if let Some(process) = self.waiting.remove(&tgid_of(key)) {
                self.processes.seen(key, process, false);
            }
        }
    }

    /// Tells the kernel side where the files are that `--fstype` and `--path` choose.
    fn look_for_files(&mut self) {
        if !self.selection.files.is_empty() {
            let own = |tgid| leftovers::own_pid(&self.loaded.pids, tgid);
            let pids: Vec<u32> =
                self.waiting.keys().copied().chain(self.processes.alive()).map(own).collect();
            self.file_places.update(&self.selection.files, pids.into_iter(), &mut self.loaded.maps);
        }
    }

    fn set_state(&mut self, change: impl Fn(&mut RunState)) {
        // The kernel's own counter may move between reading and writing: ours moves with every change, and the sum is
        // what makes caches stale.
        if let Ok(mut state) = self.loaded.maps.run_state.get(&0, 0) {
            change(&mut state);
            self.user_generation += 1;
            state.user = self.user_generation << 8;
            let _ = self.loaded.maps.run_state.set(0, state, 0);
        }
    }

    /// What was attached how.
    pub fn probes(&self) -> &[crate::model::Probe] {
        &self.loaded.probes
    }

    /// Adds targets that are none yet: descendants forked while the probes were being attached, or new members of a
    /// cgroup. Returns how many were new.
    pub fn add_targets(&mut self, pids: &[u32]) -> usize {
        let mut added = 0;
        if pids.iter().any(|&pid| self.loaded.pids.to_host(pid).is_none()) {
            self.loaded.pids.refresh(&mut self.loaded.ebpf);
        }
        for &pid in pids {
            let Some(tgid) = self.loaded.pids.to_host(pid) else { continue };
            // BPF_NOEXIST (1): the kernel side may have met it.
            if self.loaded.maps.targets.insert(tgid, Target::default(), 1).is_ok() {
                self.expect(pid);
                added += 1;
            }
        }
        if added > 0 {
            self.set_state(|_| ());
            self.open_ledgers();
        }
        added
    }

    fn expect(&mut self, pid: u32) {
        if let Some(status) = procfs::status(pid)
            && let Some(host_pid) = self.loaded.pids.to_host(pid)
        {
            let process = Process {
                pid: host_pid,
                ns_pid: status.ns_pids.last().copied().unwrap_or(pid),
                ppid: status.ppid,
                comm: procfs::comm(pid).unwrap_or(status.comm),
                cmdline: procfs::cmdline(pid).into(),
                ..Process::default()
            };
            self.waiting.insert(host_pid, process);
        }
    }

    /// Drains records; to be called every [`DRAIN_INTERVAL`], or sooner when it says so.
    pub fn tick(&mut self) -> Pressure {
        self.sampler.tick();
        let now_ns = clock::monotonic_ns();
        if self.loaded.ledgers.as_ref().is_some_and(|ledgers| ledgers.is_due(now_ns)) {
            self.read_ledgers(now_ns);
        }
        let pressure = if self.drain() > MANY_RECORDS { Pressure::High } else { Pressure::Low };
        if !self.selection.cgroups.is_empty() {
            let cgroups = self.selection.cgroups.clone();
            let members: Vec<_> = cgroups
                .iter()
                .flat_map(|folder| procfs::cgroup_members(folder).unwrap_or_default())
                .collect();
            self.add_targets(&members);
        }
        if self.last_cleanup.elapsed() >= GRACE {
            self.look_for_files();
            self.clean_up();
            self.last_cleanup = Instant::now();
        }
        pressure
    }

    /// Returns the number of records.
    fn drain(&mut self) -> usize {
        if let Some(log) = &mut self.loaded.log {
            log.flush();
        }
        let mut records = 0;
        while let Some(event) = self.backlog.next(self.loaded.events.as_mut()) {
            records += 1;
            match event {
                Some(event) => self.apply(event),
                None => self.undecoded += 1,
            }
        }
        records
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Process { exec, process: key, ppid, start_ns, ns_pid, kernel_thread, comm, args } => {
                let pid = tgid_of(key);
                let waited_for = self.waiting.remove(&pid).map(|process| process.cmdline);
                let known = waited_for.or_else(|| Some(self.processes.get(key)?.cmdline.clone()));
                // The kernel side reads the arguments of the moment, but no more than fit its record.
                let cmdline = match known.filter(|known| !known.is_empty()) {
                    Some(known) if !exec && (args.is_empty() || args.len() == ARGS_BYTES) => known,
                    _ => procfs::split_arguments(&args).into(),
                };
                if !kernel_thread {
                    let own = |pid| leftovers::own_pid(&self.loaded.pids, pid);
                    self.mounts.for_process(own(pid), own(ppid));
                }
                let container = if kernel_thread { None } else { self.container_of(pid, ppid, exec) };
                let seen = Process {
                    pid,
                    ns_pid,
                    ppid,
                    start_ns,
                    comm,
                    cmdline,
                    kernel_thread,
                    container,
                    ..Process::default()
                };
                self.processes.seen(key, seen, exec);
            }
            Event::Exit { process, comm } => {
                self.processes.exited(process, comm);
                self.ended.push((process, Instant::now()));
            }
            Event::ThreadExit { slot } => self.take_slot(slot),
            Event::Session(part) => self.files.session(&part),
            Event::Name(named) => {
                // While its process lives: who mounted it may end with it.
                if self.files.name(&named) {
                    leftovers::Paths::new(&self.loaded.pids, &mut self.mounts).meet(&named);
                }
            }
            Event::Folder { dev, ino, parent, name } => self.files.folder(dev, ino, parent, &name),
            Event::Renamed(renamed) => self.files.renamed(renamed),
            Event::Failed { process, op, errno, path } => self.failures.push((process, op, errno, path)),
        }
    }

    /// The container of a process that was just told of. One that is gone again was where it was before it executed its
    /// program, or where its parent is.
    fn container_of(&mut self, pid: u32, ppid: u32, exec: bool) -> Option<Arc<Container>> {
        match self.loaded.pids.from_host(pid).and_then(|pid| self.containers.of(pid)) {
            Some(whereabouts) => whereabouts.container(),
            None => self.processes.by_pid(if exec { pid } else { ppid }).and_then(|p| p.container.clone()),
        }
    }

    /// Adds up the slot of a thread that is gone and gives it back.
    fn take_slot(&mut self, slot: u32) {
        let maps = &mut self.loaded.maps;
        if let Ok(thread) = maps.thread_slots.get(&slot, 0) {
            // Its files the kernel side has told of, or put down.
            self.processes.add_thread(&thread);
            // SAFETY: all zero is a free slot.
            let empty: ThreadSlot = unsafe { std::mem::zeroed() };
            if maps.thread_slots.set(slot, empty, 0).is_ok() {
                let _ = maps.free_slots.push(slot, 0);
            }
        }
    }

    /// Removes what ended processes left in the maps.
    fn clean_up(&mut self) {
        let (done, still): (Vec<_>, Vec<_>) = self.ended.drain(..).partition(|(_, at)| at.elapsed() >= GRACE);
        self.ended = still;
        if done.is_empty() {
            return;
        }
        let done: HashSet<u64> = done.into_iter().map(|(key, _)| key).collect();
        self.take_op_sets(|process| done.contains(&process));
        leftovers::take_ended(&mut self.files, &mut self.loaded.maps, &done);
        let maps = &mut self.loaded.maps;
        for &key in &done {
            let tgid = tgid_of(key);
            if maps.targets.get(&tgid, 0).is_ok_and(|target| target.key == key) {
                let _ = maps.targets.remove(&tgid);
            }
        }
        let sets: Vec<_> =
            maps.block_sets.iter().flatten().filter(|(set, _)| done.contains(&set.process)).collect();
        for (key, index) in sets {
            let maps = &mut self.loaded.maps;
            let Ok(slot) = maps.block_stats.get(&index, 0) else { continue };
            if slot.in_flight != 0 {
                self.ended.push((key.process, Instant::now()));
                continue;
            }
            let _ = maps.block_sets.remove(&key);
            // SAFETY: all zero is a free set.
            let _ = maps.block_stats.set(
                index,
                unsafe { std::mem::zeroed::<iotrace_common::block::BlockSlot>() },
                0,
            );
            let _ = maps.free_sets.push(index, 0);
            self.processes.add_block(key.process, totals::block_entry(&key, &slot));
        }
    }

    /// Numbers for a progress line.
    pub fn progress(&self) -> Progress {
        let tally = self.loaded.maps.counters();
        Progress {
            elapsed: self.began.elapsed(),
            ops: (!self.selection.block_only).then_some(tally.ops),
            requests: tally.block_completed,
            lost: totals::losses(&tally, self.undecoded, 0).values().sum(),
        }
    }

    /// Are all targets given by pid, and what they forked, gone?
    pub fn all_exited(&self) -> bool {
        let lives = |pid: &u32| {
            let own = self.loaded.pids.from_host(*pid);
            own.and_then(procfs::status).is_some_and(|status| !status.zombie)
        };
        let waiting = self.waiting.keys().any(lives);
        // The end of one that touched no file is not told.
        !waiting && !self.processes.alive().any(|pid| lives(&pid))
    }

    /// Adds up the sets of operations of the processes that `keep` takes, and gives them back.
    fn take_op_sets(&mut self, keep: impl Fn(u64) -> bool) {
        let sets: Vec<_> =
            self.loaded.maps.op_sets.iter().flatten().filter(|(key, _)| keep(key.process)).collect();
        for (key, index) in sets {
            let maps = &mut self.loaded.maps;
            let Ok(set) = maps.op_stats.get(&index, 0) else { continue };
            self.processes.add_op(&set);
            let _ = maps.op_sets.remove(&key);
            // SAFETY: all zero is a free set.
            let _ = maps.op_stats.set(index, unsafe { std::mem::zeroed::<OpSet>() }, 0);
            let _ = maps.free_op_sets.push(index, 0);
        }
    }
}

/// `uname -r` and the host name, from /proc.
pub fn kernel_and_host() -> (String, String) {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim_end().to_owned()
    };
    (read("osrelease"), read("hostname"))
}
