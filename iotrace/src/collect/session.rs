//! A running trace: drained a few times a second, closed into a [`Trace`].

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
    sync::Arc,
    time::{Duration, Instant},
};

use aya::{
    maps::{MapData, RingBuf},
    programs::Program,
};
use iotrace_common::{
    config::RunState,
    event::ARGS_BYTES,
    op::Form,
    process::{OTHERS, Target, tgid_of},
    thread::{OpSet, ThreadSlot},
};

use super::{
    clock,
    containers::{self, Containers},
    cost,
    error::StartError,
    events::{self, Event},
    file_places::FilePlaces,
    files::Files,
    leftovers,
    loader::{self, Loaded},
    mounts::Mounts,
    processes::{Processes, add_block},
    procfs,
    selection::Selection,
    totals,
};
use crate::{
    cli::SelfStats,
    kernel::devices,
    model::{BlockEntry, Container, Meta, Overhead, Process, ProgramCost, Trace},
    probes::attach,
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
        self.set_state(|state| state.counting = 1);
        self.began = Instant::now();
        self.began_monotonic_ns = clock::monotonic_ns();
        self.started_at_unix_ns = clock::unix_ns();
        self.cpu_at_start_ns = cost::own_cpu_ns();
        self.sampler = cost::Sampler::start(self.self_stats);
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
        let next =
            |ring: &mut Option<RingBuf<MapData>>| ring.as_mut()?.next().map(|record| events::decode(&record));
        while let Some(event) = next(&mut self.loaded.events) {
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
                let known = self.waiting.remove(&pid);
                // The kernel side reads the arguments of the moment, but no more than fit its record.
                let cmdline = match known {
                    Some(known) if !exec && (args.is_empty() || args.len() == ARGS_BYTES) => known.cmdline,
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
        !waiting && !self.processes.any_alive()
    }

    /// Detaches and adds everything up.
    pub fn finish(mut self, mut meta: Meta) -> Trace {
        self.set_state(|state| state.counting = 0);
        meta.duration_ns = self.began.elapsed().as_nanos() as u64;
        meta.started_at_unix_ns = self.started_at_unix_ns;
        let user_cpu_ns = cost::own_cpu_ns() - self.cpu_at_start_ns;
        let sampler = std::mem::replace(&mut self.sampler, cost::Sampler::start(SelfStats::Off));
        let (sampled, refused) = sampler.finish();
        let programs = self.program_costs();
        let map_bytes = cost::map_bytes();
        self.detach();
        self.drain();
        // Its mapping counts as resident memory, and the report is built next.
        self.loaded.events = None;
        let in_progress = self.take_live_slots();
        let in_flight = self.take_block_sets();
        self.take_op_sets(|_| true);
        let errors: Vec<_> = self.loaded.maps.errnos.iter().flatten().collect();
        for (key, count) in errors {
            self.processes.add_errors(key.process, key.op, key.errno as i32, count);
        }
        let tally = self.loaded.maps.counters();
        let missed_runs = totals::lost_runs(&programs, &tally);
        let not_covered = if self.selection.block_only {
            "Nothing was attached to system calls: what the page cache serves, and the time of a call, are not in this \
             report."
        } else {
            "AIO (io_submit) completes, for this report, when its event is fetched by io_getevents."
        };
        let mut notes = vec![not_covered.to_owned()];
        if let Some(oldest) = in_progress.iter().min() {
            let since = Duration::from_nanos(clock::monotonic_ns().saturating_sub(*oldest));
            notes.push(format!(
                "Calls on files still in progress at the end, not counted: {}, the longest for {:.1} s.",
                in_progress.len(),
                since.as_secs_f64()
            ));
        }
        let transfers = self.loaded.maps.transfers.keys().flatten().count();
        if transfers > 0 {
            notes.push(format!(
                "Asynchronous transfers not seen to complete by the end, not counted: {transfers} (io_uring and AIO)."
            ));
        }
        if missed_runs > 0 {
            notes.push(
                "program_runs_skipped: the kernel does not run a program on a CPU that was preempted or interrupted in \
                 the middle of the same program; calls are missing, block requests lack latency."
                    .to_owned(),
            );
        }
        if tally.block_ended_unseen > 0 {
            notes.push(format!(
                "{} block requests ended unseen (an interrupt that hits an idle CPU is not traced on some virtual \
                 machines): they are counted with their bytes, but without latency.",
                tally.block_ended_unseen
            ));
        }
        if let Some(refused) = refused {
            notes.push(format!("Cost of the kernel programs not measured: BPF_ENABLE_STATS: {refused}."));
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut trace = Trace {
            meta,
            probes: std::mem::take(&mut self.loaded.probes),
            block: totals::block_counts(&tally, in_flight),
            lost: totals::losses(&tally, self.undecoded, missed_runs),
            notes,
            others: std::mem::take(&mut self.others),
            overhead: Overhead {
                programs,
                sampled_ns: sampled.as_nanos() as u64,
                user_cpu_ns,
                max_rss_bytes: cost::max_rss_bytes(),
                map_bytes,
                attach_ns: self.loaded.attach_time.as_nanos() as u64,
            },
            ..Trace::default()
        };
        self.loaded.pids.refresh(&mut self.loaded.ebpf);
        let pids = &self.loaded.pids;
        let mut files = std::mem::take(&mut self.files);
        let by_process = files.by_process();
        trace.processes = std::mem::take(&mut self.processes).finish(by_process, |pid| pids.from_host(pid));
        let lost = leftovers::lost_classes(&self.loaded.maps);
        for (class, lost) in lost.iter().enumerate() {
            files.lost(class, lost.opens, &lost.totals);
        }
        if files.renames_dropped() > 0 {
            trace.notes.push(format!(
                "{} renames were too many to look at: a checkpoint among them stands under its first name.",
                files.renames_dropped()
            ));
        }
        let mut paths = leftovers::Paths::new(pids, &mut self.mounts);
        trace.files = files.finish(&mut paths, self.began_monotonic_ns);
        trace.files.records_lost = lost.iter().map(|class| class.records).sum();
        if trace.files.checkpoint_count > trace.files.checkpoints.len() as u64 {
            trace.notes.push(format!(
                "Of {} files written like checkpoints the first {} are listed and added up.",
                trace.files.checkpoint_count,
                trace.files.checkpoints.len()
            ));
        }
        trace.files.failures = leftovers::failures(std::mem::take(&mut self.failures), &trace.processes);
        for (pid, mut process) in waiting {
            process.exited = pids.from_host(pid).and_then(procfs::status).is_none_or(|s| s.zombie);
            trace.processes.push(process);
        }
        let unknown = self.containers.look_again(&mut trace.processes, |pid| pids.from_host(pid));
        trace.notes.extend(containers::unknown_note(unknown));
        add_devices(&mut trace);
        trace
    }

    fn program_costs(&self) -> Vec<ProgramCost> {
        let mut costs = Vec::new();
        for (name, program) in self.loaded.ebpf.programs() {
            let Ok(fd) = program.fd() else { continue };
            let info = cost::fd_info(fd.as_fd().as_raw_fd());
            let number = |field: &str| info.get(field).copied().unwrap_or(0);
            costs.push(ProgramCost {
                name: name.to_owned(),
                run_count: number("run_cnt"),
                run_time_ns: number("run_time_ns"),
                runs_skipped: number("recursion_misses"),
            });
        }
        costs.sort_by(|a, b| b.run_time_ns.cmp(&a.run_time_ns).then_with(|| a.name.cmp(&b.name)));
        costs
    }

    fn detach(&mut self) {
        let loaded: Vec<String> = self
            .loaded
            .ebpf
            .programs()
            .filter(|(_, p)| is_loaded(p) && !matches!(p, Program::Iter(_)))
            .map(|(n, _)| n.to_owned())
            .collect();
        loaded.iter().for_each(|name| attach::detach(&mut self.loaded.ebpf, name));
    }

    /// Returns when each call that is still in progress began.
    fn take_live_slots(&mut self) -> Vec<u64> {
        let mut in_progress = Vec::new();
        let mut parts = leftovers::Parts::default();
        let mut slots: Vec<u32> = self.loaded.maps.threads.iter().flatten().map(|(_, slot)| slot).collect();
        if self.loaded.maps.counters().lost_ring > 0 {
            // The end of some threads was not told: look at every slot.
            slots = (0..self.loaded.maps.thread_slots.len()).collect();
        }
        for slot in slots {
            if let Ok(thread) = self.loaded.maps.thread_slots.get(&slot, 0)
                && thread.tid != 0
            {
                // A fault without an end is not a call in progress, nor is waiting for events one on a file.
                if thread.form != 0 && thread.form < Form::Fault as u32 {
                    in_progress.push(thread.enter_ns);
                }
                self.processes.add_thread(&thread);
                parts.of_thread(&thread);
            }
        }
        parts.put_down(&self.loaded.maps);
        let (pids, processes) = (&self.loaded.pids, &self.processes);
        parts.finish(&mut self.files, |key| {
            (!processes.has_ended(key)).then(|| pids.from_host(tgid_of(key))).flatten()
        });
        in_progress
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

    fn take_block_sets(&mut self) -> u64 {
        let sets: Vec<_> = self.loaded.maps.block_sets.iter().flatten().collect();
        let mut in_flight = 0u64;
        for (key, index) in sets {
            let Ok(slot) = self.loaded.maps.block_stats.get(&index, 0) else { continue };
            in_flight = in_flight.wrapping_add(slot.in_flight);
            let entry = totals::block_entry(&key, &slot);
            if entry.stats.count == 0 {
                continue;
            }
            if key.process == OTHERS {
                add_block(&mut self.others, entry);
            } else {
                self.processes.add_block(key.process, entry);
            }
        }
        in_flight
    }
}

fn is_loaded(program: &Program) -> bool {
    program.fd().is_ok()
}

/// Fills in the devices that any request went to, with their totals.
fn add_devices(trace: &mut Trace) {
    let disks = devices::disks();
    let mut found = BTreeMap::new();
    let entries = trace.processes.iter().flat_map(|process| &process.block).chain(&trace.others);
    for entry in entries {
        let device = found.entry(entry.device).or_insert_with(|| totals::device(entry.device, &disks));
        device.totals.entry(entry.op).or_default().merge(&entry.stats);
    }
    trace.devices = found.into_values().collect();
}

/// `uname -r` and the host name, from /proc.
pub fn kernel_and_host() -> (String, String) {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim_end().to_owned()
    };
    (read("osrelease"), read("hostname"))
}
