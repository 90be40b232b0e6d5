//! System calls: from the kernel's hooks to what the call does. sys_enter and sys_exit: raw with typed arguments, or as perf
//! events where the kernel preempts raw programs. (Hooks on vfs_read and its kin miss the vector, splice and copy forms, and
//! count the kernel's own reads. fentry on the entry function of each call would spare other calls the detour, but takes two
//! programs a call: with the 46 that are followed, attaching and detaching takes seconds.)

use core::arch::asm;

use aya_ebpf::{
    EbpfContext as _,
    bindings::pt_regs,
    helpers::generated::{bpf_get_current_comm, bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use iotrace_common::{
    config::{ABSENT, COMM_FILTERS, SYSCALL_TABLE},
    op::{DATA_FORMS, FORMS, Form},
};

use crate::{
    async_io,
    mem::{bounded, config, load, offset, probe},
    meta, rw,
    target::{counting, current_slot, current_task, slot_of_call, task_field},
};

/// Form by system call number of the running architecture; set by the loader.
#[unsafe(no_mangle)]
static FORM_BY_SYSCALL: [u8; SYSCALL_TABLE] = [0; SYSCALL_TABLE];

#[inline(always)]
fn form_of(number: u64) -> u8 {
    of_call(&raw const FORM_BY_SYSCALL, number)
}

/// What a table says of a system call; 0 of one beyond it.
#[inline(always)]
pub fn of_call(table: *const [u8; SYSCALL_TABLE], number: u64) -> u8 {
    if number >= SYSCALL_TABLE as u64 {
        return 0;
    }
    // SAFETY: in bounds of a static; volatile because the loader replaces the values.
    unsafe { core::ptr::read_volatile(table.cast::<u8>().add(number as usize)) }
}

/// Arguments of a system call, by direct loads from the registers saved at entry.
#[inline(always)]
fn argument(regs: u64, index: usize) -> u64 {
    load(regs, argument_offset(index))
}

/// The same where `regs` may be a plain address.
#[inline(always)]
pub fn argument_at(regs: u64, index: usize, typed: bool) -> u64 {
    let offset = argument_offset(index);
    if typed { load(regs, offset) } else { probe(regs, offset).unwrap_or(0) }
}

#[inline(always)]
const fn argument_offset(index: usize) -> u32 {
    #[cfg(bpf_target_arch = "x86_64")]
    let offset = match index {
        0 => core::mem::offset_of!(pt_regs, rdi),
        1 => core::mem::offset_of!(pt_regs, rsi),
        2 => core::mem::offset_of!(pt_regs, rdx),
        3 => core::mem::offset_of!(pt_regs, r10),
        4 => core::mem::offset_of!(pt_regs, r8),
        _ => core::mem::offset_of!(pt_regs, r9),
    };
    #[cfg(bpf_target_arch = "aarch64")]
    let offset = index * 8;
    offset as u32
}

/// Where the registers that were saved tell the number of the call; negative after a fault or an interrupt.
#[cfg(bpf_target_arch = "x86_64")]
const CALL_NUMBER: u32 = core::mem::offset_of!(pt_regs, orig_rax) as u32;
/// pt_regs.syscallno, which is an int, follows regs, sp, pc, pstate, orig_x0.
#[cfg(bpf_target_arch = "aarch64")]
const CALL_NUMBER: u32 = 8 * 34 + 8;

#[cfg(bpf_target_arch = "x86_64")]
type CallNumber = i64;
#[cfg(bpf_target_arch = "aarch64")]
type CallNumber = i32;

/// Number of the call whose registers were saved.
#[inline(always)]
fn call_number(regs: u64) -> u64 {
    load::<CallNumber>(regs, CALL_NUMBER) as u64
}

/// The same where `regs` may be a plain address; negative when it cannot be read.
#[inline(always)]
pub fn call_number_at(regs: u64, typed: bool) -> u64 {
    let number: CallNumber =
        if typed { load(regs, CALL_NUMBER) } else { probe(regs, CALL_NUMBER).unwrap_or(-1) };
    number as u64
}

#[btf_tracepoint(function = "sys_enter")]
fn sys_enter(ctx: BtfTracePointContext) -> i32 {
    let form = form_of(ctx.arg::<u64>(1));
    if form != 0 && !is_32_bit_call() {
        let regs = ctx.arg::<u64>(0);
        enter(form, |index| argument(regs, index));
    }
    0
}

#[btf_tracepoint(function = "sys_exit")]
fn sys_exit(ctx: BtfTracePointContext) -> i32 {
    let regs = ctx.arg::<u64>(0);
    if form_of(call_number(regs)) != 0 {
        exit(ctx.arg::<i64>(1));
    }
    0
}

/// raw_syscalls:sys_enter as a perf event: the kernel never preempts the program, at the price of copying the arguments.
#[tracepoint]
fn sys_enter_event(ctx: TracePointContext) -> u32 {
    let form = form_of(event_word::<0>(&ctx));
    if form != 0 && !is_32_bit_call() {
        enter(form, |index| match index {
            0 => event_word::<1>(&ctx),
            1 => event_word::<2>(&ctx),
            2 => event_word::<3>(&ctx),
            3 => event_word::<4>(&ctx),
            _ => event_word::<5>(&ctx),
        });
    }
    0
}

/// raw_syscalls:sys_exit likewise.
#[tracepoint]
fn sys_exit_event(ctx: TracePointContext) -> u32 {
    if form_of(event_word::<0>(&ctx)) != 0 {
        exit(event_word::<1>(&ctx) as i64);
    }
    0
}

/// Word `N` after the fields all events have: the call's number, then its arguments or what it returned. Assembly, because
/// the verifier wants the offset in the load itself.
#[inline(always)]
fn event_word<const N: u32>(ctx: &TracePointContext) -> u64 {
    let word: u64;
    // SAFETY: within the event of either tracepoint; checked by the verifier.
    unsafe { asm!("{0} = *(u64 *)({1} + {2})", out(reg) word, in(reg) ctx.as_ptr(), const 8 + 8 * N) };
    word
}

/// A 32-bit program's call has another numbering: 19 is lseek there and readv here.
#[inline(always)]
fn is_32_bit_call() -> bool {
    const TS_COMPAT: u32 = 2;
    let status = offset!(task_status);
    cfg!(bpf_target_arch = "x86_64")
        && status != ABSENT
        && task_field::<u32>(current_task(), status) & TS_COMPAT != 0
}

#[inline(always)]
fn enter(form: u8, argument: impl Fn(usize) -> u64) {
    let Some(slot) = current_slot() else { return };
    if !counting() {
        return;
    }
    if config!(comm_count) != 0 && !comm_selected() {
        return;
    }
    crate::fault::finish(slot);
    if form >= Form::IoSubmit as u8 {
        if form == Form::IoSubmit as u8 {
            slot.requested = argument(1);
            slot.argument = argument(2);
            async_io::io_submit(slot, argument(1), argument(2));
        } else {
            slot.argument = argument(3);
        }
        slot.form = form as u32;
        return;
    }
    slot.wait_ns = 0;
    slot.cached_bytes = 0;
    if (form as usize) < DATA_FORMS {
        rw::enter(slot, form, argument);
    } else if !meta::enter(slot, form, argument) {
        return;
    }
    slot.form = form as u32;
    slot.off_ns = 0;
    // Last, so that looking up the file is not in the latency.
    slot.enter_ns = now();
}

#[inline(always)]
fn exit(returned: i64) {
    let Some(slot) = slot_of_call() else { return };
    let form = bounded::<{ FORMS as u64 }>(slot.form as u64);
    if form == 0 || form == Form::Fault as usize {
        return; // begun before the trace, or not selected
    }
    slot.form = 0;
    if form > Form::IoSubmit as usize {
        async_io::io_getevents(slot, slot.argument, returned);
        return;
    }
    if form == Form::IoSubmit as usize {
        async_io::io_submitted(slot, returned);
        return;
    }
    let latency_ns = now() - slot.enter_ns;
    if form < DATA_FORMS {
        rw::exit(slot, form, latency_ns, returned);
    } else {
        meta::exit(slot, form as u32, latency_ns, returned);
    }
}

/// CLOCK_MONOTONIC, ns.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_ns() }
}

#[inline(always)]
pub fn comm_selected() -> bool {
    let mut comm = [0u64; 2];
    // SAFETY: 16 bytes, the size of a command name.
    if unsafe { bpf_get_current_comm(comm.as_mut_ptr().cast(), 16) } != 0 {
        return false;
    }
    for index in 0..COMM_FILTERS {
        if index as u32 >= config!(comm_count) {
            break;
        }
        // SAFETY: in bounds of the static; volatile because the loader replaces it.
        let wanted = unsafe {
            core::ptr::read_volatile((&raw const crate::mem::CONFIG.comms).cast::<[u64; 2]>().add(index))
        };
        if wanted[0] == comm[0] && wanted[1] == comm[1] {
            return true;
        }
    }
    false
}
