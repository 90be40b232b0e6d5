//! Reads and writes, every form once: hooks on the system calls themselves, by fentry/fexit of each call's own entry
//! function where the kernel allows it, else by sys_enter/sys_exit: raw with typed arguments, or as perf events where the
//! kernel preempts raw programs. (Hooks on vfs_read and its kin miss the vector,
//! splice and copy forms, and count the kernel's own reads.)
//!
//! Maps: THREADS, THREAD_SLOTS, ERRNOS, FILES_SEEN, EVENTS. Times are ns, sizes bytes.

use core::arch::asm;

use aya_ebpf::{
    EbpfContext as _,
    bindings::pt_regs,
    helpers::generated::{bpf_get_current_comm, bpf_ktime_get_ns},
    macros::{btf_tracepoint, fentry, fexit, tracepoint},
    programs::{BtfTracePointContext, FEntryContext, FExitContext, TracePointContext},
};
use iotrace_common::{
    config::{ABSENT, COMM_FILTERS, SYSCALL_TABLE},
    event::{FILE_SEEN, FileSeen},
    hist::BUCKETS,
    thread::{
        ErrnoKey, FORMS, FileKey, Form, KINDS, Kind, OP_READ, OP_WRITE, OpSlot, Pending, ThreadSlot,
        UNKNOWN_SIZE,
    },
};

use crate::{
    file::{iovec_bytes, resolve, size_now},
    maps::{DEVICE_FILTER, ERRNOS, EVENTS, FILES_SEEN, NO_WAKEUP, TALLY, tally},
    mem::{atomic_add, bounded, bounded_bucket, config, load, offset},
    target::{counting, current_slot, current_task, slot_of_call, task_field},
};

/// Form by system call number of the running architecture; set by the loader.
#[unsafe(no_mangle)]
static FORM_BY_SYSCALL: [u8; SYSCALL_TABLE] = [0; SYSCALL_TABLE];

#[inline(always)]
fn form_of(number: u64) -> u8 {
    if number >= SYSCALL_TABLE as u64 {
        return 0;
    }
    // SAFETY: in bounds; volatile because the loader replaces the values.
    unsafe { core::ptr::read_volatile((&raw const FORM_BY_SYSCALL).cast::<u8>().add(number as usize)) }
}

/// Arguments of a system call, by direct loads from the registers saved at entry.
#[inline(always)]
fn argument(regs: u64, index: usize) -> u64 {
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
    load(regs, offset as u32)
}

#[inline(always)]
fn call_number(regs: u64) -> u64 {
    #[cfg(bpf_target_arch = "x86_64")]
    let offset = core::mem::offset_of!(pt_regs, orig_rax);
    #[cfg(bpf_target_arch = "aarch64")]
    let offset = 8 * 34 + 8; // pt_regs.syscallno follows regs, sp, pc, pstate, orig_x0
    load(regs, offset as u32)
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

#[btf_tracepoint(function = "sys_exit")]
fn sys_exit(ctx: BtfTracePointContext) -> i32 {
    let regs = ctx.arg::<u64>(0);
    if form_of(call_number(regs)) != 0 {
        exit(ctx.arg::<i64>(1));
    }
    0
}

/// fentry and fexit of one system call's entry function, `__x64_sys_NAME(const struct pt_regs *)`.
macro_rules! twins {
    ($($enter:ident $exit:ident $form:ident;)*) => { $(
        #[fentry]
        fn $enter(ctx: FEntryContext) -> i32 {
            let regs = ctx.arg::<u64>(0);
            enter(Form::$form as u8, |index| argument(regs, index));
            0
        }

        // The return value is the argument after the last: works before bpf_get_func_ret (5.17) too.
        #[fexit]
        fn $exit(ctx: FExitContext) -> i32 {
            exit(ctx.arg::<i64>(1));
            0
        }
    )* };
}

twins! {
    read_enter read_exit Read;
    pread64_enter pread64_exit Pread64;
    readv_enter readv_exit Readv;
    preadv_enter preadv_exit Preadv;
    preadv2_enter preadv2_exit Preadv2;
    write_enter write_exit Write;
    pwrite64_enter pwrite64_exit Pwrite64;
    writev_enter writev_exit Writev;
    pwritev_enter pwritev_exit Pwritev;
    pwritev2_enter pwritev2_exit Pwritev2;
    sendfile_enter sendfile_exit Sendfile;
    splice_enter splice_exit Splice;
    copy_file_range_enter copy_file_range_exit CopyFileRange;
}

const READ: usize = OP_READ as usize;
const WRITE: usize = OP_WRITE as usize;

#[inline(always)]
fn enter(form: u8, argument: impl Fn(usize) -> u64) {
    let Some(slot) = current_slot() else { return };
    if !counting() {
        return;
    }
    if config!(comm_count) != 0 && !comm_selected() {
        return;
    }
    let first = argument(0) as u32;
    let third = argument(2);
    let (read_fd, write_fd) = match form {
        f if f <= Form::Preadv2 as u8 => (Some(first), None),
        f if f <= Form::Pwritev2 as u8 => (None, Some(first)),
        f if f == Form::Sendfile as u8 => (Some(argument(1) as u32), Some(first)),
        _ => (Some(first), Some(third as u32)),
    };
    slot.kinds[READ] = side(read_fd, OP_READ, &mut slot.pending[READ]);
    slot.kinds[WRITE] = side(write_fd, OP_WRITE, &mut slot.pending[WRITE]);
    slot.requested = match form {
        f if f == Form::Read as u8 || f == Form::Pread64 as u8 => third,
        f if f == Form::Write as u8 || f == Form::Pwrite64 as u8 => third,
        f if f == Form::Sendfile as u8 => argument(3),
        f if f >= Form::Splice as u8 => argument(4),
        _ => iovec_bytes(argument(1), third),
    };
    slot.form = form as u32;
    // SAFETY: no arguments. Last, so that looking up the file is not in the latency.
    slot.enter_ns = unsafe { bpf_ktime_get_ns() };
}

#[inline(always)]
fn side(fd: Option<u32>, op: u32, pending: &mut Pending) -> u32 {
    let absent = Kind::Absent as u32;
    let Some(fd) = fd else { return absent };
    if config!(op_mask) & (1 << op) == 0 {
        return absent;
    }
    *pending = resolve(fd, pending);
    if config!(device_filter) == 1
        && (pending.kind <= Kind::BlockDevice as u32)
        // SAFETY: preallocated map; only its presence matters.
        && unsafe { DEVICE_FILTER.get(pending.dev) }.is_none()
    {
        return absent;
    }
    pending.kind
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

#[inline(always)]
fn exit(returned: i64) {
    let Some(slot) = slot_of_call() else { return };
    let form = slot.form as usize;
    if form == 0 {
        return; // begun before the trace, or not selected
    }
    slot.form = 0;
    // SAFETY: no arguments.
    let latency_ns = unsafe { bpf_ktime_get_ns() } - slot.enter_ns;
    finish(slot, READ, form, latency_ns, returned);
    finish(slot, WRITE, form, latency_ns, returned);
}

#[inline(always)]
fn finish(slot: &mut ThreadSlot, side: usize, form: usize, latency_ns: u64, returned: i64) {
    let kind = slot.kinds[side];
    if kind == Kind::Absent as u32 {
        return;
    }
    if kind > Kind::BlockDevice as u32 {
        // SAFETY: in bounds.
        let apart = unsafe { slot.apart[side].get_unchecked_mut(bounded::<{ KINDS as u64 }>(kind.into())) };
        apart.calls += 1;
        if returned > 0 {
            apart.bytes += returned as u64;
        }
        return;
    }
    count_op();
    record(&mut slot.ops[side], form, latency_ns, returned, slot.requested, side);
    if returned < 0 {
        count_errno(slot.process, side as u32, returned);
    } else if kind == Kind::Regular as u32 {
        note_file(slot, side);
    }
}

/// For the progress line alone, so a plain addition will do.
#[inline(always)]
fn count_op() {
    if let Some(tally) = TALLY.get_ptr_mut(0) {
        // SAFETY: a map value.
        unsafe { (*tally).ops += 1 };
    }
}

#[inline(always)]
fn record(op: &mut OpSlot, form: usize, latency_ns: u64, returned: i64, requested: u64, side: usize) {
    if op.count == 0 || latency_ns < op.latency_min_ns {
        op.latency_min_ns = latency_ns;
    }
    if latency_ns > op.latency_max_ns {
        op.latency_max_ns = latency_ns;
    }
    op.latency_sum_ns += latency_ns;
    add_one(&mut op.latency, latency_ns);
    // SAFETY: in bounds.
    unsafe { *op.forms.get_unchecked_mut(bounded::<{ FORMS as u64 }>(form as u64)) += 1 };
    if returned < 0 {
        op.errors += 1;
    } else {
        let bytes = returned as u64;
        if op.count == op.errors || bytes < op.size_min {
            op.size_min = bytes;
        }
        if bytes > op.size_max {
            op.size_max = bytes;
        }
        op.bytes += bytes;
        add_one(&mut op.size, bytes);
        if requested != UNKNOWN_SIZE && bytes < requested {
            if bytes > 0 {
                op.short += 1;
            } else if side == READ {
                op.eof += 1;
            }
        }
    }
    op.count += 1;
}

#[inline(always)]
fn add_one(counts: &mut [u64; BUCKETS], value: u64) {
    // SAFETY: in bounds.
    unsafe { *counts.as_mut_ptr().add(bounded_bucket(value)) += 1 };
}

#[inline(never)]
fn count_errno(process: u64, op: u32, returned: i64) {
    let mut errno = (-returned) as u32;
    if (512..=516).contains(&errno) {
        errno = 4; // ERESTARTSYS and kin: user space sees EINTR or a restarted call
    }
    let key = ErrnoKey { process, op, errno };
    if ERRNOS.get_ptr_mut(key).is_none() {
        // BPF_NOEXIST (1): another CPU may have been first.
        let _ = ERRNOS.insert(key, 0, 1);
    }
    match ERRNOS.get_ptr_mut(key) {
        Some(count) => atomic_add(count, 1),
        None => tally!(lost_errnos),
    }
}

/// Keeps the file a thread works on; tells user space of a file when it is new to the process or has changed size.
#[inline(always)]
fn note_file(slot: &mut ThreadSlot, side: usize) {
    let pending = slot.pending[side];
    let size = if side == WRITE { size_now(pending.inode, pending.size) } else { pending.size };
    let file = &mut slot.file[side];
    if file.ino == pending.ino && file.dev == pending.dev {
        file.size = size;
        return;
    }
    if file.ino != 0 && file.size != file.noted_size {
        tell(slot.process, side as u32, file.dev, file.ino, file.size);
    }
    file.ino = pending.ino;
    file.dev = pending.dev;
    file.size = size;
    file.noted_size = size;
    tell(slot.process, side as u32, pending.dev, pending.ino, size);
}

#[inline(never)]
fn tell(process: u64, op: u32, dev: u32, ino: u64, size: u64) {
    let key = FileKey { process, ino, dev, op };
    // SAFETY: preallocated map; copied at once. A recycled entry costs one record too many, never one too few.
    if unsafe { FILES_SEEN.get(key) } == Some(&size) {
        return;
    }
    match EVENTS.reserve::<FileSeen>(0) {
        Some(mut record) => {
            record.write(FileSeen { kind: FILE_SEEN, op, process, ino, size, dev, _pad: 0 });
            record.submit(NO_WAKEUP);
            // When this fails the file is told of again: no loss.
            let _ = FILES_SEEN.insert(key, size, 0);
        }
        None => tally!(lost_ring),
    }
}
