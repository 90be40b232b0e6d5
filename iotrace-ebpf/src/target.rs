//! Is the current thread a target's, and which slot is its own?
//!
//! Asked on every system call of every process, so the answer is cached per CPU: the last thread seen there, with its
//! answer, in one word (a preempted program cannot leave half of it). A generation in the word makes it stale when the
//! set of targets changes. A thread that is none costs two array loads.

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_get_current_task_btf,
};
use iotrace_common::{
    process::{self, Target},
    thread::ThreadSlot,
};

use crate::{
    log::debug_line,
    maps::{
        CGROUPS, FREE_SLOTS, OWNER_CACHE, RUN_STATE, TARGETS, THREAD_CACHE, THREAD_MARK_COUNT, THREAD_MARKS,
        THREAD_SLOTS, THREADS, tally,
    },
    mem::{bounded, config, load, offset, probe},
    process::announce,
};

/// Top 22 bits thread id, 20 bits slot, 22 bits generation.
const NOT_A_TARGET: u64 = (1 << 20) - 1;
const GENERATION_MASK: u64 = (1 << 22) - 1;

/// task_struct.flags of a kernel thread.
pub const PF_KTHREAD: u32 = 0x0020_0000;

/// The current task, as a pointer the verifier has typed on 5.11 and later.
#[inline(always)]
pub fn current_task() -> u64 {
    // SAFETY: no arguments.
    unsafe { if config!(task_btf) == 1 { bpf_get_current_task_btf() as u64 } else { bpf_get_current_task() } }
}

/// Reads a field of the current task or of what it points to.
#[inline(always)]
pub fn task_field<T: Copy + Default>(base: u64, offset: u32) -> T {
    if config!(task_btf) == 1 { load(base, offset) } else { probe(base, offset).unwrap_or_default() }
}

/// Is the trace on? See [`iotrace_common::config::RunState::counting`].
#[inline(always)]
pub fn counting() -> bool {
    // SAFETY: a map value; written by user space, hence volatile.
    RUN_STATE.get(0).is_some_and(|state| unsafe { core::ptr::read_volatile(&raw const state.counting) } == 1)
}

#[inline(always)]
fn generation() -> u64 {
    // Loads of a single-entry array compile to two loads.
    match RUN_STATE.get(0) {
        // SAFETY: a map value; written by others, hence volatile.
        Some(g) => unsafe {
            let kernel = core::ptr::read_volatile(&raw const g.kernel);
            let user = core::ptr::read_volatile(&raw const g.user);
            kernel.wrapping_add(user) & GENERATION_MASK
        },
        None => 0,
    }
}

/// The current thread's slot, if it belongs to a target; a slot is given on first use.
#[inline(always)]
pub fn current_slot() -> Option<&'static mut ThreadSlot> {
    // SAFETY: no arguments.
    let pid_tgid = unsafe { bpf_get_current_pid_tgid() };
    let tid = pid_tgid & 0xffff_ffff;
    let generation = generation();
    let cache = THREAD_CACHE.get_ptr_mut(0)?;
    // SAFETY: a map value.
    let cached = unsafe { core::ptr::read_volatile(cache) };
    let slot = if cached >> 42 == tid && cached & GENERATION_MASK == generation {
        (cached >> 22) & NOT_A_TARGET
    } else {
        let slot = find_slot(pid_tgid);
        // SAFETY: a map value; one aligned store.
        unsafe { core::ptr::write_volatile(cache, (tid << 42) | (slot << 22) | generation) };
        slot
    };
    if slot == NOT_A_TARGET {
        return None;
    }
    let slot = THREAD_SLOTS.get_ptr_mut(slot as u32)?;
    // SAFETY: a map value, which only this thread writes.
    let slot = unsafe { &mut *slot };
    if slot.tid as u64 == tid { Some(slot) } else { None }
}

/// A slot by its place.
#[inline(always)]
pub fn slot_at(index: u32) -> Option<&'static mut ThreadSlot> {
    // SAFETY: a map value, which only its thread writes.
    THREAD_SLOTS.get_ptr_mut(index).map(|slot| unsafe { &mut *slot })
}

/// The slow path: through the maps. Checked apart.
#[unsafe(export_name = "iotrace_find_slot")]
#[inline(never)]
extern "C" fn find_slot(pid_tgid: u64) -> u64 {
    let tid = pid_tgid as u32;
    // SAFETY: preallocated map; the value is copied at once.
    if let Some(&slot) = unsafe { THREADS.get(tid) } {
        return slot as u64;
    }
    let process = current_process((pid_tgid >> 32) as u32, true);
    if process == process::OTHERS {
        return NOT_A_TARGET;
    }
    let Ok(Some(slot)) = FREE_SLOTS.pop() else {
        tally!(lost_thread_slots);
        return NOT_A_TARGET;
    };
    let Some(place) = THREAD_SLOTS.get_ptr_mut(slot) else {
        return NOT_A_TARGET;
    };
    // SAFETY: a slot from the free list is this thread's alone, and all zero.
    unsafe {
        (*place).tid = tid;
        (*place).process = process;
        (*place).index = slot;
    }
    if THREADS.insert(tid, slot, 0).is_err() {
        tally!(lost_thread_map);
        // SAFETY: as above; the slot is not reachable and goes back.
        unsafe { (*place).tid = 0 };
        let _ = FREE_SLOTS.push(slot, 0);
        return NOT_A_TARGET;
    }
    mark(tid);
    crate::ledger::has_slot(tid, slot);
    debug_line!("thread {} of process {} has slot {}", tid, (pid_tgid >> 32) as u32, slot);
    slot as u64
}

/// The key of the current process if it is a target, else `OTHERS`. `register` makes it one where the run says so
/// (`-a`, a cgroup).
#[inline(always)]
pub fn current_process(tgid: u32, register: bool) -> u64 {
    if RUN_STATE.get(0).is_some_and(|state| state.own_tgid == tgid) {
        return process::OTHERS;
    }
    let found = TARGETS.get_ptr_mut(tgid);
    if found.is_none() && !(register && wanted()) {
        return process::OTHERS;
    }
    let leader: u64 = task_field(current_task(), offset!(task_group_leader));
    let key = process::key(tgid, task_field(leader, offset!(task_start_time)));
    match found {
        // SAFETY: a map value.
        Some(target) => unsafe {
            if (*target).key == key {
                return key;
            }
            if (*target).key != 0 && config!(trace_all) == 0 {
                // A later process under a reused pid.
                return process::OTHERS;
            }
            (*target).key = key;
        },
        None => {
            let target = Target { key, ..Target::default() };
            if TARGETS.insert(tgid, target, 0).is_err() {
                tally!(lost_target_map);
                return process::OTHERS;
            }
        }
    }
    debug_line!("process {} is a target: first seen here", tgid);
    announce(iotrace_common::event::PROCESS_SEEN, key, 0);
    key
}

/// Does the run make a target of every process, or of this one by its cgroup?
#[inline(always)]
fn wanted() -> bool {
    if config!(trace_all) == 1 {
        return true;
    }
    let count = config!(cgroup_count);
    (0..8u32).any(|index| index < count && CGROUPS.current_task_under_cgroup(index) == Ok(true))
}

/// The owner of a block request begun by the current task: a target, a kernel thread under its own name, or others.
/// Cached per CPU like the thread's slot; a key holds its tgid, so the answer and whom it is about are one word.
#[inline(always)]
pub fn current_owner() -> u64 {
    // SAFETY: no arguments.
    let tgid = unsafe { bpf_get_current_pid_tgid() } >> 32;
    let generation = generation();
    let Some(cache) = OWNER_CACHE.get_ptr_mut(0) else { return process::OTHERS };
    // SAFETY: a map value.
    let (cached, cached_generation) = unsafe {
        (core::ptr::read_volatile(&raw const (*cache)[0]), core::ptr::read_volatile(&raw const (*cache)[1]))
    };
    if cached >> process::START_BITS == tgid && cached_generation == generation {
        return if cached & NOBODY == NOBODY { process::OTHERS } else { cached };
    }
    let owner = find_owner(tgid as u32);
    let answer = if owner == process::OTHERS { (tgid << process::START_BITS) | NOBODY } else { owner };
    // SAFETY: a map value.
    unsafe {
        core::ptr::write_volatile(&raw mut (*cache)[1], generation);
        core::ptr::write_volatile(&raw mut (*cache)[0], answer);
    }
    owner
}

/// Start time of a process that is no target.
const NOBODY: u64 = (1 << process::START_BITS) - 1;

#[unsafe(export_name = "iotrace_find_owner")]
#[inline(never)]
extern "C" fn find_owner(tgid: u32) -> u64 {
    let flags: u32 = task_field(current_task(), offset!(task_flags));
    if flags & PF_KTHREAD == 0 { current_process(tgid, true) } else { kernel_thread(tgid) }
}

/// [`current_slot`] at the end of a call whose beginning was seen: no news of the target set matters any more.
#[inline(always)]
pub fn slot_of_call() -> Option<&'static mut ThreadSlot> {
    // SAFETY: no arguments.
    let tid = unsafe { bpf_get_current_pid_tgid() } & 0xffff_ffff;
    let cache = THREAD_CACHE.get_ptr_mut(0)?;
    // SAFETY: a map value.
    let cached = unsafe { core::ptr::read_volatile(cache) };
    if cached >> 42 != tid {
        return current_slot();
    }
    let slot = THREAD_SLOTS.get_ptr_mut(((cached >> 22) & NOT_A_TARGET) as u32)?;
    // SAFETY: a map value, which only this thread writes.
    let slot = unsafe { &mut *slot };
    if slot.tid as u64 == tid { Some(slot) } else { None }
}

/// The slot of any thread, if it has one.
#[inline(always)]
pub fn slot_of_thread(tid: u32) -> Option<&'static mut ThreadSlot> {
    // SAFETY: preallocated map; copied at once.
    let slot = *unsafe { THREADS.get(tid) }?;
    let slot = THREAD_SLOTS.get_ptr_mut(slot)?;
    // SAFETY: a map value, of a thread that is not running anywhere else.
    let slot = unsafe { &mut *slot };
    if slot.tid == tid { Some(slot) } else { None }
}

#[inline(always)]
fn mark_of(tid: u32) -> Option<*mut u8> {
    let marks = THREAD_MARKS.get_ptr_mut(0)?;
    // SAFETY: in bounds.
    Some(unsafe { marks.cast::<u8>().add(bounded::<{ THREAD_MARK_COUNT as u64 }>(tid as u64 & 0xffff)) })
}

/// May a thread have a ledger or a slot? For the scheduler, which must not be kept: of most threads it says at once that they
/// have none.
#[inline(always)]
pub fn has_mark(tid: u32) -> bool {
    // SAFETY: a map value.
    mark_of(tid).is_some_and(|mark| unsafe { core::ptr::read_volatile(mark) } != 0)
}

/// Notes that a thread of this id has, or had, one of them.
#[inline(always)]
pub fn mark(tid: u32) {
    if let Some(mark) = mark_of(tid) {
        // SAFETY: a map value.
        unsafe { core::ptr::write_volatile(mark, 1) };
    }
}

#[inline(always)]
fn kernel_thread(tgid: u32) -> u64 {
    // SAFETY: preallocated map; copied at once.
    if let Some(target) = unsafe { TARGETS.get(tgid) } {
        return target.key;
    }
    let key = process::key(tgid, task_field(current_task(), offset!(task_start_time)));
    let target = Target { key, flags: process::KERNEL_THREAD, ..Target::default() };
    if TARGETS.insert(tgid, target, 0).is_err() {
        tally!(lost_target_map);
        return process::OTHERS;
    }
    announce(iotrace_common::event::PROCESS_SEEN, key, process::KERNEL_THREAD);
    key
}

/// Makes every per-CPU cache stale.
#[inline(always)]
pub fn bump_generation() {
    if let Some(g) = RUN_STATE.get_ptr_mut(0) {
        // SAFETY: a field of a map value.
        crate::mem::atomic_add(unsafe { &raw mut (*g).kernel }, 1);
    }
}
