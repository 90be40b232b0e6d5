//! The wait ledger: where every nanosecond of every thread of a target goes. And, with it, how long a call of a thread was
//! off the CPU: a thread that was preempted, and only waits for its turn, does not wait in this sense.
//!
//! Hooks: sched_switch, sched_wakeup, sched_wakeup_new; a walk over all threads at the start; the exit of a thread is
//! told by `process`. The three run under the lock of a run queue, so a ledger is written by one at a time; at the exit it is
//! taken from them first. Maps: LEDGERS, LEDGER_PLACES, FREE_LEDGERS, THREAD_MARKS, THREADS, THREAD_SLOTS, RUN_STATE. Times
//! are ns.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::bpf_get_current_comm, macros::btf_tracepoint, programs::BtfTracePointContext,
};
use iotrace_common::{
    ledger::{ACCOUNTS, BLOCK, Ledger, OTHER, READY, RUNNABLE, RUNNING},
    op::Form,
    process::{self, KERNEL_THREAD},
    thread::ThreadSlot,
};

use crate::{
    account::{account_of, in_system_call},
    calls::now,
    maps::{FREE_LEDGERS, LEDGER_PLACES, LEDGERS, RUN_STATE, TARGETS, THREADS, tally},
    mem::{bounded, config, load, offset, shared_max},
    target::{PF_KTHREAD, has_mark, mark, slot_at, slot_of_thread},
};

const LEDGER_WORDS: usize = size_of::<Ledger>() / 8;

/// (preempt, prev, next), since 5.18 with prev_state behind them.
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let preempted = ctx.arg::<u64>(0) & 1 != 0;
    let (prev, next) = (ctx.arg::<u64>(1), ctx.arg::<u64>(2));
    let prev_tid: u32 = load(prev, offset!(task_pid));
    let next_tid: u32 = load(next, offset!(task_pid));
    if prev_tid != 0 && has_mark(prev_tid) {
        leaves(prev, prev_tid, preempted);
    }
    if next_tid != 0 && has_mark(next_tid) {
        comes(next_tid);
    }
    0
}

#[inline(always)]
fn leaves(task: u64, tid: u32, preempted: bool) {
    let state: u32 = load(task, offset!(task_state));
    // For the last time. Its end has been told, unless the kernel skipped the program that tells it for another thread that was
    // preempted in it (7.2).
    const TASK_DEAD: u32 = 0x80;
    if state & TASK_DEAD != 0 {
        return end(tid);
    }
    let ledger = ledger_of(tid);
    let slot = slot_beside(ledger, tid);
    // TASK_RUNNING is 0: it gave up its turn.
    let ready = preempted || state == 0;
    let at = now();
    if let Some(ledger) = ledger {
        // SAFETY: a map value.
        let process = unsafe { (*ledger).process };
        let account = if ready { RUNNABLE } else { account_of(task, process, slot.as_deref()) };
        turn(ledger, RUNNING, account, at);
    }
    if let Some(slot) = slot
        && slot.form != 0
        && !ready
        // A fault of which no hook tells the end is over once its thread is in a system call.
        && !(slot.form == Form::Fault as u32 && in_system_call(task))
    {
        slot.off_ns = at;
    }
}

#[inline(always)]
fn comes(tid: u32) {
    let ledger = ledger_of(tid);
    let slot = slot_beside(ledger, tid);
    let at = now();
    if let Some(ledger) = ledger {
        turn(ledger, RUNNABLE, RUNNING, at);
    }
    if let Some(slot) = slot {
        end_wait(slot, at);
    }
}

/// A thread that was asleep within a call is woken, or runs again without a wake-up having been seen. What it then waits for
/// its turn is no wait of the call.
#[inline(always)]
fn end_wait(slot: &mut ThreadSlot, at: u64) {
    if slot.off_ns != 0 {
        slot.wait_ns += at.saturating_sub(slot.off_ns);
        slot.off_ns = 0;
    }
}

/// (task): on its way to a run queue.
#[btf_tracepoint(function = "sched_wakeup")]
fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    let tid: u32 = load(ctx.arg::<u64>(0), offset!(task_pid));
    if !has_mark(tid) {
        return 0;
    }
    let ledger = ledger_of(tid);
    let slot = slot_beside(ledger, tid);
    let at = now();
    if let Some(ledger) = ledger {
        // SAFETY: a map value.
        let state = unsafe { (*ledger).state };
        // One that was about to sleep and is woken before it has left the CPU never slept.
        if state > RUNNABLE && state != READY {
            turn(ledger, OTHER, RUNNABLE, at);
        }
    }
    if let Some(slot) = slot {
        end_wait(slot, at);
    }
    0
}

/// (task): a new one, of any kind; its process, if it is a new one too, has become a target before.
#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    let task = ctx.arg::<u64>(0);
    if is_followed(task) {
        open(task, RUNNABLE);
    }
    0
}

/// Context: `struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; }`. Opens the ledger of every thread
/// of a target that has none. (aya has no macro for iterators.)
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn ledgers_of_threads(ctx: *mut c_void) -> i32 {
    let task: u64 = load(ctx as u64, 8);
    if task == 0 || !is_followed(task) {
        return 0;
    }
    // TASK_DEAD | EXIT_DEAD | EXIT_ZOMBIE
    const GONE: u32 = 0xb0;
    // Its end may have been told already.
    const PF_EXITING: u32 = 0x4;
    let flags: u32 = load(task, offset!(task_flags));
    let state: u32 = load(task, offset!(task_state));
    if state & GONE != 0 || flags & PF_EXITING != 0 {
        return 0;
    }
    let account = if state == 0 { READY } else { account_of(task, 0, None) };
    open(task, account);
    0
}

/// Does a task belong to a target?
#[inline(always)]
fn is_followed(task: u64) -> bool {
    let flags: u32 = load(task, offset!(task_flags));
    let tgid: u32 = load(task, offset!(task_tgid));
    if flags & PF_KTHREAD != 0 || RUN_STATE.get(0).is_some_and(|state| state.own_tgid == tgid) {
        return false;
    }
    // SAFETY: preallocated map; copied at once.
    match unsafe { TARGETS.get(tgid) } {
        Some(target) => target.flags & KERNEL_THREAD == 0,
        None => config!(trace_all) == 1,
    }
}

#[inline(always)]
fn open(task: u64, state: u32) {
    let tid: u32 = load(task, offset!(task_pid));
    let tgid: u32 = load(task, offset!(task_tgid));
    let leader: u64 = load(task, offset!(task_group_leader));
    open_apart(tid, process::key(tgid, load(leader, offset!(task_start_time))), state);
}

/// Checked apart.
#[unsafe(export_name = "iotrace_open_ledger")]
#[inline(never)]
extern "C" fn open_apart(tid: u32, process: u64, state: u32) -> u32 {
    if ledger_of(tid).is_some() {
        return 0;
    }
    let Ok(Some(index)) = FREE_LEDGERS.pop() else {
        tally!(lost_ledgers);
        return 0;
    };
    let Some(ledger) = ledger_at(index) else { return 0 };
    // SAFETY: a ledger from the stack is nobody else's.
    unsafe {
        let version = begin_change(ledger);
        for word in 1..LEDGER_WORDS - 1 {
            core::ptr::write_volatile(ledger.cast::<u64>().add(word), 0);
        }
        (*ledger).process = process;
        (*ledger).tid = tid;
        (*ledger).state = state;
        // SAFETY: preallocated map; copied at once.
        (*ledger).slot = THREADS.get(tid).map_or(0, |slot| *slot + 1);
        (*ledger).born_ns = now();
        (*ledger).since_ns = (*ledger).born_ns;
        end_change(ledger, version);
    }
    if LEDGER_PLACES.insert(tid, index, 0).is_err() {
        tally!(lost_ledgers);
        // SAFETY: as above; nobody's again, so that user space does not take it for a thread that never ends.
        unsafe { (*ledger).tid = 0 };
        let _ = FREE_LEDGERS.push(index, 0);
        return 0;
    }
    mark(tid);
    if let Some(run) = RUN_STATE.get_ptr_mut(0) {
        // SAFETY: a field of a map value.
        shared_max(unsafe { &raw mut (*run).ledgers_used }, u64::from(index) + 1);
    }
    0
}

/// The current thread ends.
#[inline(always)]
pub fn end(tid: u32) {
    if config!(ledgers) == 1 && has_mark(tid) {
        end_apart(tid);
    }
}

/// Checked apart.
#[unsafe(export_name = "iotrace_end_ledger")]
#[inline(never)]
extern "C" fn end_apart(tid: u32) -> u32 {
    let Some(ledger) = ledger_of(tid) else { return 0 };
    // From now on no other program writes it: where this one can be preempted (7.2), sched_switch would come in the middle of
    // the change below.
    let _ = LEDGER_PLACES.remove(tid);
    let at = now();
    turn(ledger, RUNNING, RUNNING, at);
    // SAFETY: a map value.
    unsafe {
        let version = begin_change(ledger);
        if bpf_get_current_comm((&raw mut (*ledger).comm).cast(), 16) != 0 {
            (*ledger).comm = [0; 16];
        }
        // User space sees that it has ended, and gives it back.
        (*ledger).ended_ns = at;
        end_change(ledger, version);
    }
    0
}

/// A thread that executed a program took over the id of its process's first thread.
#[inline(always)]
pub fn renamed(old_tid: u32, tid: u32) {
    if config!(ledgers) == 1 {
        rename_apart(old_tid, tid);
    }
}

/// Checked apart.
#[unsafe(export_name = "iotrace_rename_ledger")]
#[inline(never)]
extern "C" fn rename_apart(old_tid: u32, tid: u32) -> u32 {
    // SAFETY: preallocated map; copied at once.
    let Some(&index) = (unsafe { LEDGER_PLACES.get(old_tid) }) else { return 0 };
    let Some(ledger) = ledger_at(index) else { return 0 };
    let _ = LEDGER_PLACES.remove(old_tid);
    // There is room for the one just taken out.
    if LEDGER_PLACES.insert(tid, index, 0).is_err() {
        tally!(lost_ledgers);
        return 0;
    }
    mark(tid);
    // SAFETY: a map value, of the current thread.
    unsafe {
        let version = begin_change(ledger);
        (*ledger).tid = tid;
        (*ledger).slot = 0;
        end_change(ledger, version);
    }
    0
}

/// Charges the time since the last change to the account it went to, or to `ready` where that could not be told, and begins
/// another.
#[inline(always)]
fn turn(ledger: *mut Ledger, ready: u32, account: u32, at: u64) {
    // SAFETY: a map value; the account is in bounds.
    unsafe {
        let state = (*ledger).state;
        let to = if state == READY { ready } else { state };
        let version = begin_change(ledger);
        let accounts = (&raw mut (*ledger).accounts).cast::<u64>();
        *accounts.add(bounded::<{ ACCOUNTS as u64 }>(to.into())) += at.saturating_sub((*ledger).since_ns);
        (*ledger).before = to;
        (*ledger).state = account;
        (*ledger).since_ns = at;
        end_change(ledger, version);
    }
}

/// See [`Ledger`] for the order. Returns the new version.
#[inline(always)]
unsafe fn begin_change(ledger: *mut Ledger) -> u64 {
    // SAFETY: callers own the ledger.
    unsafe {
        let version = core::ptr::read_volatile(&raw const (*ledger).version) + 1;
        core::ptr::write_volatile(&raw mut (*ledger).version, version);
        version
    }
}

#[inline(always)]
unsafe fn end_change(ledger: *mut Ledger, version: u64) {
    // SAFETY: callers own the ledger.
    unsafe { core::ptr::write_volatile(&raw mut (*ledger).version_seen, version) };
}

#[inline(always)]
fn ledger_at(index: u32) -> Option<*mut Ledger> {
    let block = LEDGERS.get_ptr_mut(index / BLOCK as u32)?;
    // SAFETY: in bounds.
    Some(unsafe { block.cast::<Ledger>().add(bounded::<{ BLOCK as u64 }>(u64::from(index) % BLOCK as u64)) })
}

#[inline(always)]
fn ledger_of(tid: u32) -> Option<*mut Ledger> {
    if config!(ledgers) == 0 {
        return None;
    }
    // SAFETY: preallocated map; copied at once.
    let &index = unsafe { LEDGER_PLACES.get(tid) }?;
    let ledger = ledger_at(index)?;
    // SAFETY: a map value.
    if unsafe { (*ledger).tid } == tid { Some(ledger) } else { None }
}

/// The thread's slot, which its ledger knows; one without a ledger is looked up.
#[inline(always)]
fn slot_beside(ledger: Option<*mut Ledger>, tid: u32) -> Option<&'static mut ThreadSlot> {
    let Some(ledger) = ledger else { return slot_of_thread(tid) };
    // SAFETY: a map value.
    let known = unsafe { (*ledger).slot };
    if known == 0 {
        return None;
    }
    slot_at(known - 1).filter(|slot| slot.tid == tid)
}

/// A thread has been given a slot.
#[inline(always)]
pub fn has_slot(tid: u32, slot: u32) {
    if let Some(ledger) = ledger_of(tid) {
        // SAFETY: a map value, of the current thread.
        unsafe { (*ledger).slot = slot + 1 };
    }
}
