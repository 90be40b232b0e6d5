//! Loads the kernel object and attaches what the plan says.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use aya::{
    Btf, Ebpf, EbpfLoader, VerifierLogLevel, include_bytes_aligned,
    maps::{CgroupArray, MapData, RingBuf},
};
use iotrace_common::{
    block::DeviceLayout,
    config::{Config, Offsets, RunState},
    ledger,
    process::Target,
};

use super::{
    error::StartError,
    kernel_log::{self, KernelLog},
    ledger::Tracker,
    maps::{self, Maps, named},
    pids::{self, Pids},
    procfs,
    selection::Selection,
    totals::kernel_number,
};
use crate::{
    kernel::{
        btf,
        call_classes::class_by_syscall,
        devices::{self, Disk},
        layout, lockdown,
    },
    model::Probe,
    probes::{
        attach,
        kernel::Kernel,
        plan::{self, Metric},
    },
};

/// Kernel memory for thread slots is bounded at both ends.
const THREAD_SLOTS: (u32, u32) = (4096, 32_768);
/// Ledgers, 184 bytes each, at least.
const LEDGERS: u32 = 16_384;
/// Sets of block statistics, with named targets and with `-a`.
const BLOCK_SETS: (u32, u32) = (2048, 8192);
/// Sets of statistics of operations, 2.4 KB each, with named targets and with `-a`.
const OP_SETS: (u32, u32) = (4096, 16_384);
/// Ring buffer, with named targets and with `-a`, where every process of the system may end at once: 10 000 of them make
/// 45 000 records of 90 bytes, and iotrace, one thread among those, may not run for most of a second. What is mapped of it
/// is resident twice, for its mapping holds every page twice.
const RING_BYTES: (u32, u32) = (4 << 20, 8 << 20);
/// Entries of the array of requests in flight: 48 bytes each.
const IN_FLIGHT_LIMIT: u32 = 1 << 18;

/// Loaded and attached; everything is gone from the kernel when this is dropped.
pub struct Loaded {
    /// Programs.
    pub ebpf: Ebpf,
    /// Maps.
    pub maps: Maps,
    /// Rare facts; `None` once the last was read.
    pub events: Option<RingBuf<MapData>>,
    /// Debug lines of the programs, under `-vv`.
    pub log: Option<KernelLog>,
    /// Pids here and in the initial namespace.
    pub pids: Pids,
    /// What was attached how.
    pub probes: Vec<Probe>,
    /// Disks as they were at the start.
    pub disks: Vec<Disk>,
    /// Whether threads have ledgers, and why those that were there before may have none.
    pub ledgers: Option<Tracker>,
    /// How long it took.
    pub attach_time: Duration,
}

/// Loads and attaches. `targets` are pids of iotrace's own namespace.
pub fn load(selection: &Selection, targets: &[u32]) -> Result<Loaded, StartError> {
    let began = Instant::now();
    let kernel = Kernel::of(btf::Btf::of_kernel()?, &selection.without);
    tracing::debug!("kernel types read after {:?}", began.elapsed());
    let disks = devices::disks();
    let (layouts, entries) = device_layouts(&disks, selection);
    let mut config = config(selection, &kernel);
    config.in_flight_mask = entries - 1;

    let mut ebpf = open(&kernel.offsets, &config, selection, entries)?;
    tracing::debug!("object loaded after {:?}", began.elapsed());
    if !selection.cgroups.is_empty() {
        watch_cgroups(&mut ebpf, selection);
    }
    let log = KernelLog::open(&mut ebpf);
    let mut maps = Maps::take(&mut ebpf)?;
    for slot in 0..maps.free_slots.capacity() {
        maps.free_slots.push(slot, 0).map_err(named("FREE_SLOTS"))?;
    }
    for set in 0..maps.free_sets.capacity() {
        maps.free_sets.push(set, 0).map_err(named("FREE_SETS"))?;
    }
    for set in 0..maps.free_op_sets.capacity() {
        maps.free_op_sets.push(set, 0).map_err(named("FREE_OP_SETS"))?;
    }
    for ledger in (0..maps.free_ledgers.capacity()).rev() {
        maps.free_ledgers.push(ledger, 0).map_err(named("FREE_LEDGERS"))?;
    }
    for (number, layout) in layouts {
        maps.devices.insert(kernel_number(number), layout, 0).map_err(named("DEVICES"))?;
    }
    for &number in &selection.device_numbers {
        maps.device_filter.insert(kernel_number(number), 1, 0).map_err(named("DEVICE_FILTER"))?;
    }
    let btf = Btf::from_sys_fs()?;
    tracing::debug!("kernel types read again, by aya, after {:?}", began.elapsed());
    let pids = Pids::new(&mut ebpf, &btf);
    let own_tgid = pids.to_host(std::process::id()).unwrap_or(0);
    maps.run_state.set(0, RunState { own_tgid, ..RunState::default() }, 0).map_err(named("RUN_STATE"))?;
    for &pid in targets {
        match pids.to_host(pid) {
            Some(tgid) => maps.targets.insert(tgid, Target::default(), 0).map_err(named("TARGETS"))?,
            // One of the user's own, not a descendant that ended meanwhile.
            None if selection.targets.pids.contains(&pid) && lockdown::hides_memory() => {
                return Err(StartError::LockedDown);
            }
            None if selection.targets.pids.contains(&pid) => {
                let reason = pids.refusal().unwrap_or("it is not among the kernel's processes").to_owned();
                return Err(StartError::NoTranslation { pid, reason });
            }
            None => {}
        }
    }
    let metrics = plan::metrics();
    let probes: Vec<_> = metrics
        .iter()
        .map(|metric| match selection.block_only && !metric.serves_block() {
            true => Probe::left_out(metric.name),
            false => attach::attach_metric(&mut ebpf, metric, &kernel, &btf),
        })
        .collect();
    let attached = |metric| probes.iter().any(|p: &Probe| p.metric == metric && p.variant.is_some());
    let ledgers = attached(plan::WAITS_METRIC)
        .then(|| Tracker::new(pids::load_walk(&mut ebpf, super::ledger::WALK, &btf).err()));
    drop(btf);
    give_back_memory();
    // Mapped twice in a row and counted as resident at once, so not while the kernel's types are in memory.
    let events = Some(maps::take(&mut ebpf, "EVENTS")?);
    Ok(Loaded { ebpf, maps, events, log, pids, probes, disks, ledgers, attach_time: began.elapsed() })
}

/// The first metric without which there is nothing to trace, and which could not be attached. Where only block requests are
/// traced, those are.
pub fn refuse_without_required(probes: &[Probe]) -> Result<(), StartError> {
    const OF_BLOCK_ONLY: [&str; 2] = ["block owner", "block phases"];
    let block_only = probes.iter().any(Probe::is_left_out);
    let required = |metric: &Metric| metric.required || block_only && OF_BLOCK_ONLY.contains(&metric.name);
    for metric in plan::metrics().iter().filter(|metric| required(metric)) {
        let missing = |p: &&Probe| p.metric == metric.name && p.variant.is_none() && !p.is_left_out();
        if let Some(probe) = probes.iter().find(missing) {
            if lockdown::hides_memory() {
                return Err(StartError::LockedDown);
            }
            return Err(StartError::Metric { metric: probe.metric.clone(), reason: probe.reason.clone() });
        }
    }
    Ok(())
}

fn open(
    offsets: &Offsets,
    config: &Config,
    selection: &Selection,
    in_flight: u32,
) -> Result<Ebpf, StartError> {
    let forms = layout::form_by_syscall();
    let slots = if selection.block_only {
        1 // no map can be empty
    } else if selection.targets.all {
        procfs::task_count().unwrap_or(0).saturating_mul(2).clamp(THREAD_SLOTS.0, THREAD_SLOTS.1)
    } else {
        THREAD_SLOTS.0
    };
    let ledgers = if selection.block_only { 1 } else { selection.ledgers.unwrap_or(slots.max(LEDGERS)) };
    let op_sets = if selection.targets.all { OP_SETS.1 } else { OP_SETS.0 };
    let sets = if selection.targets.all { BLOCK_SETS.1 } else { BLOCK_SETS.0 };
    let (log_level, log_bytes) = kernel_log::level_and_size();
    let ring_bytes = if selection.targets.all { RING_BYTES.1 } else { RING_BYTES.0 };
    EbpfLoader::new()
        .verifier_log_level(VerifierLogLevel::STATS | VerifierLogLevel::DEBUG)
        .override_global("OFFSETS", offsets, true)
        .override_global("CONFIG", config, true)
        .override_global("FORM_BY_SYSCALL", &forms, true)
        .override_global("CLASS_BY_SYSCALL", &class_by_syscall(), true)
        .override_global(aya_log::LEVEL, &log_level, true)
        .map_max_entries("AYA_LOGS", log_bytes)
        .map_max_entries("THREAD_SLOTS", slots)
        .map_max_entries("FREE_SLOTS", slots)
        .map_max_entries("LEDGERS", ledgers.div_ceil(ledger::BLOCK as u32))
        .map_max_entries("LEDGER_PLACES", ledgers)
        .map_max_entries("FREE_LEDGERS", ledgers)
        .map_max_entries("BLOCK_STATS", sets)
        .map_max_entries("FREE_SETS", sets)
        .map_max_entries("OP_STATS", op_sets)
        .map_max_entries("FREE_OP_SETS", op_sets)
        .map_max_entries("IN_FLIGHT", in_flight)
        .map_max_entries("EVENTS", selection.ring_bytes.unwrap_or(ring_bytes))
        .btf(None)
        .load(include_bytes_aligned!(concat!(env!("OUT_DIR"), "/iotrace-ebpf")))
        .map_err(StartError::from_load)
}

/// The parsed types of the kernel, 20 MB, are needed for a moment only; glibc keeps such memory unless asked. It also takes
/// the freeing of a large piece for a sign that more will come, and puts later ones where growing them leaves holes.
fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain calls.
    unsafe {
        const LARGE_BYTES: libc::c_int = 128 << 10;
        libc::malloc_trim(0);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

fn config(selection: &Selection, kernel: &Kernel) -> Config {
    // The request is the last argument of these tracepoints, first or second.
    let request =
        |tracepoint| kernel.tracepoints.get(tracepoint).map_or(0, |arity| arity.saturating_sub(1).min(1));
    let mut config = Config {
        pid_namespace: pids::own_namespace().unwrap_or(0),
        trace_all: selection.targets.all.into(),
        follow: selection.targets.follow.into(),
        cgroup_count: selection.cgroups.len().min(8) as u32,
        op_mask: selection.op_mask(),
        block_op_mask: selection.block_op_mask(),
        device_filter: u32::from(!selection.device_numbers.is_empty()),
        file_filter: selection.files.bits(),
        comm_count: selection.comms.len() as u32,
        task_btf: kernel.functions.contains("bpf_get_current_task_btf").into(),
        insert_arg: request("block_rq_insert"),
        issue_arg: request("block_rq_issue"),
        requeue_arg: request("block_rq_requeue"),
        merge_arg: request("block_rq_merge"),
        page_head_bit: kernel.page_head_bit,
        task_regs: kernel.functions.contains("bpf_task_pt_regs").into(),
        iowait_mask: kernel.iowait_mask,
        ledgers: (!selection.block_only).into(),
        gpu_majors: devices::gpu_majors(),
        uring_submit_args: kernel.tracepoints.get("io_uring_submit_sqe").copied().unwrap_or(0),
        uring_complete_args: kernel.tracepoints.get("io_uring_complete").copied().unwrap_or(0),
        recover_starts: kernel.preempts_programs.into(),
        flush_sequence_flag: kernel.flush_sequence_flag,
        ..Config::OFF
    };
    for (place, comm) in config.comms.iter_mut().zip(&selection.comms) {
        *place = *comm;
    }
    config
}

/// A device's number and its places.
type NumberedLayout = ((u32, u32), DeviceLayout);

/// Places in the array of requests in flight: one a tag, device after device. Devices beyond the limit go through the
/// overflow map.
fn device_layouts(disks: &[Disk], selection: &Selection) -> (Vec<NumberedLayout>, u32) {
    let mut base = 0;
    let mut layouts = Vec::new();
    for disk in disks {
        let scheduled = disk.scheduler.as_deref().is_some_and(|name| name != "none");
        let mut layout = DeviceLayout {
            base,
            tags: disk.tags,
            sched_tags: if scheduled { disk.nr_requests.unwrap_or(0) } else { 0 },
            queues: disk.hardware_queues,
            selected: selection.device_numbers.contains(&disk.number).into(),
            _pad: 0,
        };
        let entries = layout.queues.saturating_mul(layout.tags.saturating_add(layout.sched_tags));
        if base.saturating_add(entries) <= IN_FLIGHT_LIMIT {
            base += entries;
        } else {
            layout.tags = 0;
            layout.sched_tags = 0;
        }
        layouts.push((disk.number, layout));
    }
    (layouts, base.next_power_of_two())
}

/// Lets the kernel side recognise processes that enter the cgroups later. Only version 2 can; for version 1 the session
/// looks at cgroup.procs as it goes.
fn watch_cgroups(ebpf: &mut Ebpf, selection: &Selection) {
    let Some(map) = ebpf.map_mut("CGROUPS") else { return };
    let Ok(mut array) = CgroupArray::try_from(map) else { return };
    for (index, folder) in selection.cgroups.iter().take(8).enumerate() {
        let set = File::open(folder).map(|folder| array.set(index as u32, folder, 0));
        if let Ok(Err(error)) = set {
            tracing::debug!("{}: {error}: members are looked up in cgroup.procs only", folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(minor: u32, queues: u32, tags: u32, scheduler: &str) -> Disk {
        Disk {
            number: (8, minor),
            hardware_queues: queues,
            tags,
            scheduler: Some(scheduler.into()),
            nr_requests: Some(256),
            ..Disk::default()
        }
    }

    #[test]
    fn every_tag_of_every_queue_has_a_place_of_its_own() {
        let disks = [disk(0, 2, 128, "none"), disk(1, 1, 64, "mq-deadline"), disk(2, 4, 1023, "none")];
        let (layouts, entries) = device_layouts(&disks, &Selection::default());
        let mut next = 0;
        for (_, layout) in &layouts {
            assert_eq!(layout.base, next);
            next += layout.queues * (layout.tags + layout.sched_tags);
        }
        assert_eq!(next, 256 + 64 + 256 + 4092);
        assert!(entries.is_power_of_two() && entries >= next);
    }

    #[test]
    fn devices_beyond_the_limit_use_the_overflow_map() {
        let disks = [disk(0, 256, 1023, "none"), disk(1, 256, 1023, "none"), disk(2, 1, 64, "none")];
        let (layouts, entries) = device_layouts(&disks, &Selection::default());
        assert_eq!(layouts[1].1.tags, 0);
        assert_eq!(layouts[2].1.tags, 64);
        assert_eq!(entries, IN_FLIGHT_LIMIT);
    }
}
