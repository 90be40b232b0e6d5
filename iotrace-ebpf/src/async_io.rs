//! io_uring and AIO: reads, writes and fsyncs timed from their submission to their completion, and charged to who submitted
//! them. They wait for nothing themselves; who waits for them does, elsewhere.
//!
//! Hooks: io_uring_submit_req (io_uring_submit_sqe before 6.4), io_uring_complete; io_submit, io_getevents. An AIO is seen to
//! be complete when its event is fetched. Maps: ASYNC, SESSIONS, OP_STATS. Times are ns, sizes bytes.

use aya_ebpf::{
    helpers::generated::bpf_probe_read_user, macros::btf_tracepoint, programs::BtfTracePointContext,
};
use iotrace_common::{
    async_io::{AsyncKey, AsyncOp},
    op::{
        Form, OP_ASYNC_READ, OP_ASYNC_READ_SIZE, OP_ASYNC_WRITE, OP_ASYNC_WRITE_SIZE, OP_FSYNC, OP_READ,
        OP_WRITE, first_form,
    },
    process::tgid_of,
    thread::{Kind, NO_WAY, Seen, ThreadSlot},
};

use crate::{
    calls::now,
    file::{kind_and_device, look, selected},
    maps::{ASYNC, TARGETS, tally},
    mem::{atomic_add, bounded, checked_apart, config, load, offset, probe},
    meta::{add_to_set, find_set},
    rw::{count_errno, count_op},
    session::{add_transfer, seen, way_of},
    target::{counting, current_slot},
};

/// Transfers followed in one call of io_submit or io_getevents.
const BATCH: u64 = 64;

// enum io_uring_op, whose numbers are part of the interface of the kernel.
const IORING_OP_READV: u8 = 1;
const IORING_OP_WRITEV: u8 = 2;
const IORING_OP_FSYNC: u8 = 3;
const IORING_OP_READ_FIXED: u8 = 4;
const IORING_OP_WRITE_FIXED: u8 = 5;
const IORING_OP_READ: u8 = 22;
const IORING_OP_WRITE: u8 = 23;
const IORING_OP_READV_FIXED: u8 = 60;
const IORING_OP_WRITEV_FIXED: u8 = 61;
/// REQ_F_CQE_SKIP: no completion is told of unless it fails.
const SKIPS_SUCCESS: u32 = 1 << 6;
/// REQ_F_FIXED_FILE: the descriptor is an index of registered files.
const FIXED_FILE: u32 = 1;

#[btf_tracepoint(function = "io_uring_submit_req")]
fn io_uring_submit_req(ctx: BtfTracePointContext) -> i32 {
    submit_uring(ctx.arg::<u64>(0));
    0
}

/// Its name before 6.4, with the request since 5.18, which came second as long as there were many arguments.
#[btf_tracepoint(function = "io_uring_submit_sqe")]
fn io_uring_submit_sqe(ctx: BtfTracePointContext) -> i32 {
    submit_uring(if config!(uring_submit_args) > 2 { ctx.arg::<u64>(1) } else { ctx.arg::<u64>(0) });
    0
}

/// (ring, request, completion) since 6.15; (ring, request, user data, result, ...) before.
#[btf_tracepoint(function = "io_uring_complete")]
fn io_uring_complete(ctx: BtfTracePointContext) -> i32 {
    let result = if config!(uring_complete_args) == 3 {
        load::<i32>(ctx.arg::<u64>(2), offset!(cqe_res))
    } else {
        ctx.arg::<u64>(3) as i32
    };
    complete_uring(ctx.arg::<u64>(1), result.into());
    0
}

#[inline(always)]
fn submit_uring(req: u64) {
    let opcode: u8 = load(req, offset!(uring_opcode));
    let op = match opcode {
        IORING_OP_READV | IORING_OP_READ_FIXED | IORING_OP_READ | IORING_OP_READV_FIXED => OP_READ,
        IORING_OP_WRITEV | IORING_OP_WRITE_FIXED | IORING_OP_WRITE | IORING_OP_WRITEV_FIXED => OP_WRITE,
        IORING_OP_FSYNC => OP_FSYNC,
        _ => return,
    };
    let Some(slot) = current_slot() else { return };
    if !counting() {
        return;
    }
    let flags: u32 = load(req, offset!(uring_flags));
    let fd: u32 = load(req, offset!(uring_fd));
    if flags & SKIPS_SUCCESS != 0 {
        tally!(lost_async);
        return;
    }
    let key = AsyncKey { space: 0, id: req };
    if flags & FIXED_FILE == 0 && !use_file(slot, fd) {
        return;
    }
    submit(slot, &key, op, 0, flags & FIXED_FILE == 0);
}

/// Makes the file behind a descriptor one that the thread uses, so that its name is told.
#[inline(always)]
fn use_file(slot: &mut ThreadSlot, fd: u32) -> bool {
    if !look(slot, fd, false) {
        return false;
    }
    way_of(slot, NO_WAY);
    true
}

/// Begins a transfer, of the file in `slot.seen` when that is `known`.
#[inline(always)]
fn submit(slot: &mut ThreadSlot, key: &AsyncKey, op: u32, form: u32, known: bool) {
    if config!(op_mask) & (1 << op) == 0 {
        return;
    }
    let mut transfer =
        AsyncOp { process: slot.process, start_ns: 0, file: 0, ino: 0, dev: 0, op, form, regular: 0 };
    if known {
        let seen = seen(slot);
        let (kind, dev) = kind_and_device(seen.inode);
        if !is_chosen(kind, seen.file, seen.inode, dev) {
            return;
        }
        transfer.file = seen.file;
        transfer.ino = seen.ino;
        transfer.dev = dev;
        transfer.regular = (kind == Kind::Regular as u32).into();
    }
    transfer.start_ns = now();
    // BPF_NOEXIST (1). A key that is there already is of a transfer whose end was not seen: io_uring tells of none when the queue
    // of completions is full, and a program may use a control block again.
    if ASYNC.insert(key, &transfer, 1).is_ok() {
        note_in_flight(slot.process, op, 1);
        return;
    }
    tally!(lost_async);
    forget(key);
    if ASYNC.insert(key, &transfer, 1).is_ok() {
        note_in_flight(slot.process, op, 1);
    }
}

/// Ends the stay of a transfer that is not counted.
#[inline(always)]
fn forget(key: &AsyncKey) {
    let Some(transfer) = ASYNC.get_ptr(key) else { return };
    // SAFETY: a map value.
    let (process, op) = unsafe { ((*transfer).process, (*transfer).op) };
    if ASYNC.remove(key).is_ok() {
        note_in_flight(process, op, u64::MAX);
    }
}

/// For the ledger of who waits for it.
#[inline(always)]
fn note_in_flight(process: u64, op: u32, change: u64) {
    let kind = bounded::<4>(if op == OP_FSYNC { 2 } else { op.into() });
    if let Some(target) = TARGETS.get_ptr_mut(tgid_of(process))
        && kind < 3
    {
        // SAFETY: a map value; in bounds.
        atomic_add(unsafe { (&raw mut (*target).in_flight).cast::<u64>().add(kind) }, change);
    }
}

/// Checked apart.
#[unsafe(export_name = "iotrace_complete_uring")]
#[inline(never)]
extern "C" fn complete_uring(request: u64, result: i64) -> u32 {
    complete::<true>(AsyncKey { space: 0, id: request }, result);
    0
}

/// Checked apart.
#[unsafe(export_name = "iotrace_complete_aio")]
#[inline(never)]
extern "C" fn complete_aio(process: u64, iocb: u64, result: i64) -> u32 {
    complete::<false>(AsyncKey { space: process, id: iocb }, result);
    0
}

/// Ends a transfer, if it is followed.
#[inline(always)]
fn complete<const URING: bool>(key: AsyncKey, result: i64) {
    let Some(transfer) = ASYNC.get_ptr_mut(key) else { return };
    // SAFETY: a map value, of this transfer alone.
    let transfer = unsafe { &mut *transfer };
    let latency_ns = now() - transfer.start_ns;
    note_in_flight(transfer.process, transfer.op, u64::MAX);
    if URING && transfer.file == 0 && !registered(transfer, key.id) {
        let _ = ASYNC.remove(key);
        return;
    }
    let process = transfer.process;
    count_op();
    if transfer.op == OP_FSYNC {
        let form = if transfer.form == 0 { Form::UringFsync } else { Form::AioFsync };
        count(process, OP_FSYNC, form as u32 - first_form(OP_FSYNC) as u32, latency_ns, (result < 0).into());
    } else {
        let (latencies, sizes) = if transfer.op == OP_READ {
            (OP_ASYNC_READ, OP_ASYNC_READ_SIZE)
        } else {
            (OP_ASYNC_WRITE, OP_ASYNC_WRITE_SIZE)
        };
        count(process, latencies, transfer.form, latency_ns, (result < 0).into());
        if result >= 0 {
            count(process, sizes, transfer.form, result as u64, 0);
        }
    }
    if result < 0 {
        count_errno(process, transfer.op, result);
    } else if transfer.regular == 1 {
        add_transfer(transfer, latency_ns, result as u64);
    }
    let _ = ASYNC.remove(key);
}

/// The file of a request with a registered file, which io_uring looks up after the submission. False: none that counts.
#[inline(always)]
fn registered(transfer: &mut AsyncOp, req: u64) -> bool {
    let file: u64 = probe(req, offset!(uring_file)).unwrap_or(0);
    let inode: u64 = probe(file, offset!(file_inode)).unwrap_or(0);
    let ino: u64 = probe(inode, offset!(inode_ino)).unwrap_or(0);
    let (kind, dev) = kind_and_device(inode);
    if ino == 0 || !is_chosen(kind, file, inode, dev) {
        return false;
    }
    transfer.file = file;
    transfer.ino = ino;
    transfer.dev = dev;
    transfer.regular = (kind == Kind::Regular as u32).into();
    let Some(slot) = current_slot() else { return true };
    // A call in progress holds on to its places, one of which the file may want.
    if slot.form != 0 || slot.process != transfer.process {
        return true;
    }
    // So that its name is told.
    slot.seen = Seen { file, inode, ino, position: 0 };
    way_of(slot, NO_WAY);
    true
}

/// Is it storage, and of what `--path` and `--fstype` choose?
#[inline(always)]
fn is_chosen(kind: u32, file: u64, inode: u64, dev: u32) -> bool {
    kind <= Kind::BlockDevice as u32 && (config!(file_filter) == 0 || selected(file, inode, dev) != 0)
}

/// Adds one transfer to a set of its process.
#[unsafe(export_name = "iotrace_count_async")]
#[inline(never)]
extern "C" fn count(process: u64, op: u32, form: u32, value: u64, failed: u32) -> u32 {
    add_to_set(find_set(process, op), form, value, 0, 0, failed != 0);
    0
}

/// `io_submit(context, count, pointers to iocbs)`: begins each.
#[inline(always)]
pub fn io_submit(slot: &mut ThreadSlot, requests: u64, pointers: u64) {
    // They are mostly of one file, so it is enough to have the first one's named.
    if let Some(word) = user_word(pointers).and_then(|iocb| user_word(iocb + 16)) {
        use_file(slot, (word >> 32) as u32);
    }
    for index in 0..BATCH {
        if index >= requests {
            return;
        }
        submit_one(slot, pointers + 8 * index);
    }
    if requests > BATCH {
        tally!(lost_async, requests - BATCH);
    }
}

checked_apart! {
    /// struct iocb (include/uapi/linux/aio_abi.h), as words: data, key and flags, opcode and descriptor, ...
    fn submit_one as "iotrace_submit_one" (slot, pointer: u64) {
        let Some((iocb, word)) = user_word(pointer).and_then(|iocb| Some((iocb, user_word(iocb + 16)?))) else {
            tally!(lost_async);
            return;
        };
        // Linux opcodes of AIO: PREAD 0, PWRITE 1, FSYNC 2, FDSYNC 3, PREADV 7, PWRITEV 8.
        let op = match word & 0xffff {
            0 | 7 => OP_READ,
            1 | 8 => OP_WRITE,
            2 | 3 => OP_FSYNC,
            _ => return,
        };
        let key = AsyncKey { space: slot.process, id: iocb };
        if look(slot, (word >> 32) as u32, false) {
            submit(slot, &key, op, 1, true);
        }
    }
}

checked_apart! {
    /// io_submit took the first `taken` of its transfers and refused the others, which have been taken for begun.
    pub fn io_submitted as "iotrace_io_submitted" (slot, taken: i64) {
        let (requests, pointers) = (slot.requested, slot.argument);
        let taken = if taken < 0 { 0 } else { taken as u64 };
        let refused = requests.saturating_sub(taken);
        for index in 0..BATCH {
            if index >= refused {
                break;
            }
            refuse_one(slot, pointers + 8 * (taken + index));
        }
    }
}

checked_apart! {
    fn refuse_one as "iotrace_refuse_one" (slot, pointer: u64) {
        if let Some(iocb) = user_word(pointer) {
            forget(&AsyncKey { space: slot.process, id: iocb });
        }
    }
}

/// `io_getevents` returned `count` events.
#[inline(always)]
pub fn io_getevents(slot: &mut ThreadSlot, events: u64, count: i64) {
    for index in 0..BATCH {
        if count <= 0 || index >= count as u64 {
            return;
        }
        reap_one(slot, events + 32 * index);
    }
    if count > BATCH as i64 {
        tally!(lost_async, count as u64 - BATCH);
    }
}

checked_apart! {
    /// struct io_event: data, iocb, result, second result.
    fn reap_one as "iotrace_reap_one" (slot, event: u64) {
        let (Some(iocb), Some(result)) = (user_word(event + 8), user_word(event + 16)) else {
            tally!(lost_async);
            return;
        };
        complete_aio(slot.process, iocb, result as i64);
    }
}

#[inline(always)]
fn user_word(address: u64) -> Option<u64> {
    let mut word = 0u64;
    // SAFETY: 8 bytes; the helper checks the source.
    let error = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) };
    if error == 0 { Some(word) } else { None }
}
