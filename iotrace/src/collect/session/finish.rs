//! The end of a trace: detach, take what is left in the maps, add everything up.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, AsRawFd as _},
    time::Duration,
};

use aya::programs::Program;
use iotrace_common::{
    op::{DATA_FORMS, Form},
    process::{OTHERS, tgid_of},
    tally::Tally,
    thread::{Kind, ThreadSlot},
};

use super::Session;
use crate::{
    cli::SelfStats,
    collect::{clock, containers, cost, leftovers, processes::add_block, procfs, totals},
    kernel::devices,
    model::{Meta, Overhead, Process, ProgramCost, ThreadLedger, Trace},
    probes::attach,
};

impl Session {
    /// Detaches and adds everything up.
    pub fn finish(mut self, mut meta: Meta) -> Trace {
        self.read_ledgers(clock::monotonic_ns());
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
        let mut notes = self.notes(&tally, &in_progress, missed_runs);
        if let Some(refused) = refused {
            notes.push(format!("Cost of the kernel programs not measured: BPF_ENABLE_STATS: {refused}."));
        }
        let ledgers =
            self.loaded.ledgers.take().map(|tracker| {
                notes.extend(tracker.refusal().map(|reason| {
                    format!("Threads that were there before the trace have no ledger: {reason}.")
                }));
                let pids = &self.loaded.pids;
                tracker.finish(|pid, tid| pids.from_host(pid).and_then(|pid| procfs::thread_comm(pid, tid)))
            });
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
        if let Some((ledgers, by_process)) = ledgers {
            by_process.into_iter().for_each(|(key, ledger)| self.processes.set_ledger(key, ledger));
            trace.ledgers = Some(Box::new(ledgers));
        }
        trace.processes = std::mem::take(&mut self.processes).finish(by_process, |pid| pids.from_host(pid));
        if let Some(ledgers) = trace.ledgers.as_deref() {
            name_the_gone(&mut trace.processes, &ledgers.threads);
        }
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

    /// Limits of this trace, a sentence each.
    fn notes(&self, tally: &Tally, in_progress: &[u64], missed_runs: u64) -> Vec<String> {
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
        notes
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
                if is_in_call(&thread) {
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

/// Processes that touched no file and are gone are known by their threads alone.
fn name_the_gone(processes: &mut [Process], threads: &[ThreadLedger]) {
    for process in processes.iter_mut().filter(|p| p.comm.is_empty()) {
        let found = threads.binary_search_by_key(&(process.pid, process.pid), |t| (t.pid, t.tid));
        if let Ok(at) = found {
            process.comm.clone_from(&threads[at].comm);
        }
    }
}

/// Is this thread in a call that would have counted? A fault without an end is none, waiting for events is none on a file, nor
/// is a read or write of what is not storage: every shell sits in one, of its terminal.
fn is_in_call(thread: &ThreadSlot) -> bool {
    let on_storage = |kind: &u32| [Kind::Regular, Kind::BlockDevice].iter().any(|&of| of as u32 == *kind);
    match thread.form {
        0 => false,
        form if form < DATA_FORMS as u32 => thread.kinds.iter().any(on_storage),
        form => form < Form::Fault as u32,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_a_terminal_is_no_call_on_a_file() {
        // SAFETY: plain data, for which zeroes are a valid value.
        let mut thread: Box<ThreadSlot> = Box::new(unsafe { std::mem::zeroed() });
        assert!(!is_in_call(&thread));
        thread.form = Form::Read as u32;
        for (kinds, expected) in [
            ([Kind::Char, Kind::Absent], false),
            ([Kind::Pipe, Kind::Absent], false),
            ([Kind::Regular, Kind::Absent], true),
            ([Kind::Pipe, Kind::BlockDevice], true),
        ] {
            thread.kinds = kinds.map(|kind| kind as u32);
            assert_eq!(is_in_call(&thread), expected, "{:?}", thread.kinds);
        }
        for (form, expected) in [(Form::Open, true), (Form::Fault, false), (Form::IoGetevents, false)] {
            thread.form = form as u32;
            assert_eq!(is_in_call(&thread), expected);
        }
    }
}
