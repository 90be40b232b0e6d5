//! What a thread that goes to sleep waits for: the account its time goes to until it is woken.
//!
//! A call that is followed anyway has been looked at when it began, and its slot tells. For others the saved registers tell
//! the number of the call and its descriptor; a negative number stands for a page fault. A read of a regular file that
//! sleeps waits for storage, whether or not the kernel calls it that: the daemons of FUSE and the servers of NFS answer
//! without a block request, and so without `in_iowait`.

use aya_ebpf::helpers::generated::{bpf_probe_read_user, bpf_task_pt_regs};
use iotrace_common::{
    config::{GPU_MAJORS, SYSCALL_TABLE},
    ledger::{
        CallClass, IO_FAULT, IO_FSYNC, IO_META, IO_READ, IO_WRITE, OTHER, SLEEP, WAIT_FUTEX, WAIT_GPU,
        WAIT_PIPE_SOCKET, WAIT_POLL,
    },
    op::{DATA_FORMS, Form, OP_READ, OP_WRITE},
    process::tgid_of,
    thread::{Kind, ThreadSlot},
};

use crate::{
    calls::{argument_at, call_number_at, of_call},
    file::kind_and_device,
    maps::TARGETS,
    mem::{config, load, offset, probe},
};

/// Class by system call number of the running architecture ([`CallClass`]); set by the loader.
#[unsafe(no_mangle)]
static CLASS_BY_SYSCALL: [u8; SYSCALL_TABLE] = [0; SYSCALL_TABLE];

// Bits of task_struct.flags (unchanged 5.10..7.2).
/// In the middle of freeing memory: whatever it sleeps for, it was not asked for by the call.
const PF_MEMALLOC: u32 = 0x800;
/// A worker of io_uring, which makes no calls.
const PF_IO_WORKER: u32 = 0x10;

/// Kernel stacks of x86-64 and of arm64 with small pages (THREAD_SIZE without KASAN).
const STACK_BYTES: u64 = 16 << 10;

const REGULAR: u32 = Kind::Regular as u32;
const BLOCK_DEVICE: u32 = Kind::BlockDevice as u32;

/// The account of a task that goes to sleep, or sleeps. `task` is typed.
#[inline(always)]
pub fn account_of(task: u64, process: u64, slot: Option<&ThreadSlot>) -> u32 {
    let flags: u32 = load(task, offset!(task_flags));
    if flags & PF_MEMALLOC != 0 {
        return OTHER;
    }
    let waits: u8 = load(task, offset!(task_iowait));
    let iowait = waits as u32 & config!(iowait_mask) != 0;
    if flags & PF_IO_WORKER != 0 {
        return if iowait { IO_READ } else { OTHER };
    }
    if let Some(slot) = slot {
        let account = by_form(slot, iowait);
        if account != UNKNOWN {
            return account;
        }
    }
    let regs = registers_of(task);
    let number = number_in(regs);
    let in_fault = slot.is_some_and(|slot| slot.form == Form::Fault as u32);
    if number < 0 {
        return if iowait || in_fault { IO_FAULT } else { OTHER };
    }
    let account = by_class(task, process, regs, of_call(&raw const CLASS_BY_SYSCALL, number as u64), iowait);
    // Whatever else waits for a block device: mostly the pages of a program that is executed.
    if account == OTHER && iowait { IO_READ } else { account }
}

/// The followed call does not tell.
const UNKNOWN: u32 = u32::MAX;

#[inline(always)]
fn by_form(slot: &ThreadSlot, iowait: bool) -> u32 {
    let form = slot.form;
    if form == 0 || form == Form::Fault as u32 {
        return UNKNOWN;
    }
    if form < DATA_FORMS as u32 {
        return by_kinds(slot.kinds[0], slot.kinds[1], iowait);
    }
    if form >= Form::IoSubmit as u32 {
        return in_flight(slot.process);
    }
    if form >= Form::Fsync as u32 && form <= Form::AioFsync as u32 { IO_FSYNC } else { IO_META }
}

/// By what is read from and what is written to.
#[inline(always)]
fn by_kinds(from: u32, to: u32, iowait: bool) -> u32 {
    let stores = |kind: u32| kind == REGULAR || kind == BLOCK_DEVICE;
    let flows = |kind: u32| kind == Kind::Pipe as u32 || kind == Kind::Socket as u32;
    if (flows(from) || flows(to)) && !iowait {
        return WAIT_PIPE_SOCKET;
    }
    if stores(from) {
        return IO_READ;
    }
    if stores(to) {
        return IO_WRITE;
    }
    if from == Kind::Absent as u32 && to == Kind::Absent as u32 {
        return UNKNOWN; // left out by a filter
    }
    if from == Kind::Other as u32 || to == Kind::Other as u32 {
        return WAIT_POLL; // eventfd, timerfd, inotify and their kin
    }
    UNKNOWN
}

/// Is a task in a system call, and not in a page fault or an interrupt?
#[inline(always)]
pub fn in_system_call(task: u64) -> bool {
    number_in(registers_of(task)) >= 0
}

#[inline(always)]
fn number_in(regs: u64) -> i64 {
    call_number_at(regs, config!(task_regs) == 1) as i64
}

/// Where the registers of user mode were saved.
#[inline(always)]
fn registers_of(task: u64) -> u64 {
    if config!(task_regs) == 1 {
        // SAFETY: a task, typed for the verifier.
        return unsafe { bpf_task_pt_regs(task as *mut _) } as u64;
    }
    // At the top of the stack (task_pt_regs, before 5.15 of no use to programs).
    let stack: u64 = load(task, offset!(task_stack));
    stack + STACK_BYTES - size_of::<aya_ebpf::bindings::pt_regs>() as u64
}

#[inline(always)]
fn by_class(task: u64, process: u64, regs: u64, class: u8, iowait: bool) -> u32 {
    const READ: u8 = CallClass::Read as u8;
    const READ_SECOND: u8 = CallClass::ReadSecond as u8;
    const WRITE: u8 = CallClass::Write as u8;
    const IOCTL: u8 = CallClass::Ioctl as u8;
    const POLL_LIST: u8 = CallClass::PollList as u8;
    match class {
        c if c == CallClass::Fsync as u8 => return IO_FSYNC,
        c if c == CallClass::Meta as u8 => return IO_META,
        c if c == CallClass::Poll as u8 => return WAIT_POLL,
        c if c == CallClass::Futex as u8 => return WAIT_FUTEX,
        c if c == CallClass::Socket as u8 => return WAIT_PIPE_SOCKET,
        c if c == CallClass::Sleep as u8 => return SLEEP,
        c if c == CallClass::Async as u8 => return in_flight(process),
        READ | READ_SECOND | WRITE | IOCTL | POLL_LIST => {}
        _ => return OTHER,
    }
    let typed = config!(task_regs) == 1;
    let first = argument_at(regs, 0, typed);
    let fd = match class {
        READ_SECOND => argument_at(regs, 1, typed),
        POLL_LIST => first_of_list(first),
        _ => first,
    };
    // By helper: what is checked apart knows nothing of types.
    let files: u64 = probe(task, offset!(task_files)).unwrap_or(0);
    let found = kind_of_descriptor(files, fd as u32);
    let (kind, major) = (found as u32, (found >> 52) as u32);
    if kind == Kind::Char as u32 && is_gpu(major) {
        return WAIT_GPU;
    }
    let (from, to) = match class {
        POLL_LIST => return WAIT_POLL,
        IOCTL => return OTHER,
        WRITE => (Kind::Absent as u32, kind),
        _ => (kind, Kind::Absent as u32),
    };
    let account = by_kinds(from, to, iowait);
    if account == UNKNOWN { OTHER } else { account }
}

#[inline(always)]
fn is_gpu(major: u32) -> bool {
    (0..GPU_MAJORS).any(|index| {
        // SAFETY: in bounds of the static; volatile because the loader replaces it.
        let gpu = unsafe {
            core::ptr::read_volatile((&raw const crate::mem::CONFIG.gpu_majors).cast::<u32>().add(index))
        };
        gpu != 0 && gpu == major
    })
}

/// Descriptor of the first `struct pollfd`. Of a task that does not run now nothing can be read, and 0 is as good as any.
#[inline(always)]
fn first_of_list(list: u64) -> u64 {
    let mut fd = 0u32;
    // SAFETY: 4 bytes; the helper checks the source.
    unsafe { bpf_probe_read_user((&raw mut fd).cast(), 4, list as *const _) };
    fd.into()
}

/// Kind of what a descriptor of a table stands for, and above it its device. Checked apart.
#[unsafe(export_name = "iotrace_kind_of_descriptor")]
#[inline(never)]
extern "C" fn kind_of_descriptor(files: u64, fd: u32) -> u64 {
    let fdt: u64 = probe(files, offset!(files_fdt)).unwrap_or(0);
    if fd >= probe(fdt, offset!(fdtable_max_fds)).unwrap_or(0) {
        return Kind::Other as u64;
    }
    let table: u64 = probe(fdt, offset!(fdtable_fd)).unwrap_or(0);
    let file: u64 = probe(table, fd * 8).unwrap_or(0);
    let inode: u64 = probe(file, offset!(file_inode)).unwrap_or(0);
    let (kind, dev) = kind_and_device(inode);
    (u64::from(dev) << 32) | u64::from(kind)
}

/// What a process waits for that waits for asynchronous transfers: those of files that it has in flight, reads first. io_uring
/// has others too, of sockets for example.
#[inline(always)]
fn in_flight(process: u64) -> u32 {
    // SAFETY: preallocated map; counters.
    let Some(target) = TARGETS.get_ptr(tgid_of(process)) else { return WAIT_POLL };
    // SAFETY: a map value; written by others, hence volatile.
    let of =
        |op: u32| unsafe { core::ptr::read_volatile(&raw const (*target).in_flight[op as usize]) } as i64;
    if of(OP_READ) > 0 {
        IO_READ
    } else if of(OP_WRITE) > 0 {
        IO_WRITE
    } else if of(2) > 0 {
        IO_FSYNC
    } else {
        WAIT_POLL
    }
}
