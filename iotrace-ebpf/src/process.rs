//! The tree of processes: who is a target, under which name, until when.
//!
//! Hooks: sched_process_fork, sched_process_exec, sched_process_exit. Maps: TARGETS, THREADS, EVENTS.

use aya_ebpf::{
    helpers::generated::{bpf_get_current_pid_tgid, bpf_probe_read_kernel, bpf_probe_read_user},
    macros::btf_tracepoint,
    programs::BtfTracePointContext,
};
use iotrace_common::{
    event::{
        ARGS_BYTES, PROCESS_EXEC, PROCESS_EXIT, ProcessExit, ProcessSeen, SHORT_ARGS_BYTES, THREAD_EXIT,
        ThreadExit,
    },
    process::{self, EXITED, KERNEL_THREAD, Target},
};

use crate::{
    log::debug_line,
    maps::{EVENTS, NO_WAKEUP, TARGETS, THREAD_SLOTS, THREADS, tally},
    mem::{config, load, offset, probe},
    target::{bump_generation, current_task, task_field},
};

#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    fork(ctx.arg::<u64>(0), ctx.arg::<u64>(1));
    0
}

#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    exec(ctx.arg::<i32>(1) as u32);
    0
}

#[btf_tracepoint(function = "sched_process_exit")]
fn sched_process_exit(_ctx: BtfTracePointContext) -> i32 {
    exit();
    0
}

/// Second copies, for kernels that preempt programs and skip a program where a preempted thread is in the middle of it.
/// What the first has done the second finds done.
#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork_again(ctx: BtfTracePointContext) -> i32 {
    fork(ctx.arg::<u64>(0), ctx.arg::<u64>(1));
    0
}

/// See [`sched_process_fork_again`].
#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec_again(ctx: BtfTracePointContext) -> i32 {
    exec(ctx.arg::<i32>(1) as u32);
    0
}

/// See [`sched_process_fork_again`].
#[btf_tracepoint(function = "sched_process_exit")]
fn sched_process_exit_again(_ctx: BtfTracePointContext) -> i32 {
    exit();
    0
}

#[inline(always)]
fn fork(parent: u64, child: u64) {
    let parent_tgid: u32 = load(parent, offset!(task_tgid));
    let child_tgid: u32 = load(child, offset!(task_tgid));
    if config!(trace_all) == 1 {
        // A reused thread id must not be taken for the thread that had it.
        bump_generation();
        return;
    }
    let Some(parent_target) = TARGETS.get_ptr_mut(parent_tgid) else { return };
    // SAFETY: a map value.
    if unsafe { (*parent_target).flags } & KERNEL_THREAD != 0 {
        return;
    }
    bump_generation();
    if child_tgid == parent_tgid || config!(follow) == 0 {
        return;
    }
    let start_ns: u64 = load(child, offset!(task_start_time));
    let key = process::key(child_tgid, start_ns);
    // SAFETY: preallocated map; copied at once.
    if unsafe { TARGETS.get(child_tgid) }.is_some_and(|target| target.key == key) {
        return;
    }
    let target = Target { key, ..Target::default() };
    if TARGETS.insert(child_tgid, target, 0).is_err() {
        tally!(lost_target_map);
        return;
    }
    debug_line!("process {} becomes a target: forked by {}", child_tgid, parent_tgid);
    let Some(mut record) = EVENTS.reserve::<ProcessSeen<0>>(0) else {
        tally!(lost_ring);
        return;
    };
    let seen = record.as_mut_ptr();
    // SAFETY: the record is ours until submitted. A fork has its parent's name and arguments until it executes another
    // program, so the arguments are left to that event and to user space.
    unsafe {
        (*seen).kind = iotrace_common::event::PROCESS_SEEN;
        (*seen).ppid = parent_tgid;
        (*seen).process = key;
        (*seen).start_ns = start_ns;
        (*seen).ns_pid = ns_pid(load(child, offset!(task_thread_pid)));
        (*seen).flags = 0;
        copy_comm(&raw mut (*seen).comm, child);
        (*seen).args_len = 0;
        (*seen)._pad = 0;
    }
    record.submit(NO_WAKEUP);
}

#[inline(always)]
fn exec(old_tid: u32) {
    // SAFETY: no arguments.
    let pid_tgid = unsafe { bpf_get_current_pid_tgid() };
    if old_tid != pid_tgid as u32 {
        // A thread other than the leader took over the leader's id: its slot is filed under an id that is gone.
        retire(old_tid, false);
        crate::ledger::renamed(old_tid, pid_tgid as u32);
    }
    // SAFETY: preallocated map; copied at once.
    if let Some(target) = unsafe { TARGETS.get((pid_tgid >> 32) as u32) } {
        if target.key != 0 {
            announce(PROCESS_EXEC, target.key, target.flags);
        } else {
            crate::target::current_process((pid_tgid >> 32) as u32, false);
        }
    }
}

#[inline(always)]
fn exit() {
    // SAFETY: no arguments.
    let pid_tgid = unsafe { bpf_get_current_pid_tgid() };
    let tgid = (pid_tgid >> 32) as u32;
    let task = current_task();
    let signal: u64 = task_field(task, offset!(task_signal));
    let live: u32 = task_field(signal, offset!(signal_live));
    retire(pid_tgid as u32, live == 0);
    crate::ledger::end(pid_tgid as u32);
    if live != 0 {
        return;
    }
    // SAFETY: preallocated map; copied at once.
    let Some(place) = TARGETS.get_ptr_mut(tgid) else { return };
    // SAFETY: a map value, which nobody else changes at this point of the process's life.
    let target = unsafe { *place };
    if target.flags & EXITED != 0 {
        return;
    }
    bump_generation();
    // SAFETY: as above.
    unsafe { (*place).flags = target.flags | EXITED };
    if target.key == 0 {
        let _ = TARGETS.remove(tgid);
        return;
    }
    // The entry stays: the last references to its files are dropped after this point, and may write. User space removes
    // it later; a process that reuses the pid is told apart by its start time.
    match EVENTS.reserve::<ProcessExit>(0) {
        Some(mut record) => {
            let gone = record.as_mut_ptr();
            // SAFETY: the record is ours until submitted.
            unsafe {
                (*gone).kind = PROCESS_EXIT;
                (*gone).exit_code = task_field(task, offset!(task_exit_code));
                (*gone).process = target.key;
                copy_comm(&raw mut (*gone).comm, task_field(task, offset!(task_group_leader)));
            }
            record.submit(NO_WAKEUP);
        }
        None => tally!(lost_ring),
    }
}

/// Hands the slot of a thread that is gone to user space; `last` when its process goes with it.
#[inline(always)]
fn retire(tid: u32, last: bool) {
    // SAFETY: preallocated map; copied at once.
    let Some(&slot) = (unsafe { THREADS.get(tid) }) else { return };
    if let Some(slot) = THREAD_SLOTS.get_ptr_mut(slot) {
        // SAFETY: a map value; its thread is this one, or gone.
        let slot = unsafe { &mut *slot };
        if slot.tid == tid {
            crate::fault::finish(slot);
            crate::session::leave(slot, last.into());
        }
    }
    let _ = THREADS.remove(tid);
    bump_generation();
    match EVENTS.reserve::<ThreadExit>(0) {
        Some(mut record) => {
            record.write(ThreadExit { kind: THREAD_EXIT, slot });
            record.submit(NO_WAKEUP);
        }
        // The slot keeps its numbers and is read at the end; it is only not free again.
        None => tally!(lost_ring),
    }
}

/// Tells user space of the current process: ids, name, arguments.
#[unsafe(export_name = "iotrace_announce")]
#[inline(never)]
pub extern "C" fn announce(kind: u32, key: u64, flags: u32) -> u32 {
    let mm: u64 = if flags & KERNEL_THREAD != 0 { 0 } else { task_field(current_task(), offset!(task_mm)) };
    let (start, end): (u64, u64) = if mm == 0 {
        (0, 0)
    } else {
        (task_field(mm, offset!(mm_arg_start)), task_field(mm, offset!(mm_arg_end)))
    };
    let length = if start == 0 { 0 } else { end.saturating_sub(start) };
    if length <= SHORT_ARGS_BYTES as u64 {
        announce_with::<SHORT_ARGS_BYTES>(kind, key, flags, start, length);
    } else {
        announce_with::<ARGS_BYTES>(kind, key, flags, start, length);
    }
    0
}

#[inline(always)]
fn announce_with<const ARGS: usize>(kind: u32, key: u64, flags: u32, args: u64, args_len: u64) {
    let Some(mut record) = EVENTS.reserve::<ProcessSeen<ARGS>>(0) else {
        tally!(lost_ring);
        return;
    };
    let leader: u64 = task_field(current_task(), offset!(task_group_leader));
    let parent: u64 = task_field(leader, offset!(task_real_parent));
    let seen = record.as_mut_ptr();
    // SAFETY: the record is ours until submitted.
    unsafe {
        (*seen).kind = kind;
        (*seen).ppid = task_field(parent, offset!(task_tgid));
        (*seen).process = key;
        (*seen).start_ns = task_field(leader, offset!(task_start_time));
        (*seen).ns_pid = ns_pid(task_field(leader, offset!(task_thread_pid)));
        (*seen).flags = flags;
        copy_comm(&raw mut (*seen).comm, leader);
        (*seen)._pad = 0;
        (*seen).args_len = copy_args(&raw mut (*seen).args, args, args_len);
    }
    record.submit(NO_WAKEUP);
}

/// Pid in the innermost namespace: `pid->numbers[pid->level].nr`.
#[inline(always)]
fn ns_pid(pid: u64) -> u32 {
    let level: u32 = probe(pid, offset!(pid_level)).unwrap_or(0);
    // struct upid { int nr; struct pid_namespace *ns; }
    probe(pid, offset!(pid_numbers) + (level & 31) * 16).unwrap_or(0)
}

#[inline(always)]
unsafe fn copy_comm(to: *mut [u8; 16], task: u64) {
    // SAFETY: 16 bytes of an event; the helper checks the source.
    unsafe {
        if bpf_probe_read_kernel(to.cast(), 16, (task + offset!(task_comm) as u64) as *const _) != 0 {
            *to = [0; 16];
        }
    }
}

/// Copies arguments of the current process, no more than there is room for, and returns their length; 0 when they cannot be
/// read.
#[inline(always)]
unsafe fn copy_args<const ARGS: usize>(to: *mut [u8; ARGS], from: u64, mut length: u64) -> u32 {
    if length > ARGS as u64 {
        length = ARGS as u64;
    }
    // SAFETY: `length` is at most the array's size; the helper checks the source.
    let error = unsafe { bpf_probe_read_user(to.cast(), length as u32, from as *const _) };
    if error == 0 { length as u32 } else { 0 }
}
