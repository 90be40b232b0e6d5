//! Time off the CPU within a call: how long it waited. A thread that was preempted, and only waits for its turn, does not
//! wait in this sense.
//!
//! Hook: sched_switch. Maps: THREADS, THREAD_SLOTS, THREAD_CACHE. Times are ns.

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

use crate::{
    calls::now,
    mem::{load, offset},
    target::slot_of_thread,
};

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
        if state != 0 {
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
