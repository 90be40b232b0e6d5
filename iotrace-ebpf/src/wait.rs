//! Time off the CPU within a call: how long it waited. A thread that was preempted, and only waits for its turn, does not
//! wait in this sense.
//!
//! Hook: sched_switch. Maps: THREAD_MARKS, THREADS, THREAD_SLOTS. Times are ns.

use aya_ebpf::{
    helpers::generated::bpf_task_pt_regs, macros::btf_tracepoint, programs::BtfTracePointContext,
};
use iotrace_common::op::Form;

use crate::{
    calls::{call_number, now},
    mem::{config, load, offset},
    target::slot_of_thread,
};

/// Is the thread in a system call, and not in a page fault or an interrupt? Not known on older kernels: no.
#[inline(always)]
fn in_system_call(task: u64) -> bool {
    if config!(task_regs) == 0 {
        return false;
    }
    // SAFETY: a task, typed for the verifier.
    let regs = unsafe { bpf_task_pt_regs(task as *mut _) } as u64;
    call_number(regs) as i64 >= 0
}

/// (preempt, prev, next), since 5.18 with prev_state behind them.
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let preempted = ctx.arg::<u64>(0) & 1 != 0;
    let (prev, next) = (ctx.arg::<u64>(1), ctx.arg::<u64>(2));
    let prev_tid: u32 = load(prev, offset!(task_pid));
    let next_tid: u32 = load(next, offset!(task_pid));
    if !preempted
        && prev_tid != 0
        && let Some(slot) = slot_of_thread(prev_tid)
        && slot.form != 0
    {
        // TASK_RUNNING is 0: it gave up its turn.
        let state: u32 = load(prev, offset!(task_state));
        // A fault of which no hook tells the end is over once its thread is in a system call.
        if state != 0 && !(slot.form == Form::Fault as u32 && in_system_call(prev)) {
            slot.off_ns = now();
        }
    }
    if next_tid != 0
        && let Some(slot) = slot_of_thread(next_tid)
        && slot.off_ns != 0
    {
        slot.wait_ns += now().saturating_sub(slot.off_ns);
        slot.off_ns = 0;
    }
    0
}
