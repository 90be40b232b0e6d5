//! Block requests: owner at start, phases, sizes, and a ledger that balances.
//!
//! Hooks: block_io_start (or the accounting function it follows), block_rq_issue, _complete, _requeue, _merge,
//! block_bio_backmerge, _frontmerge. Maps: QUEUES, DEVICES, IN_FLIGHT, BLOCK_SETS, BLOCK_STATS. Times are ns.
//!
//! Every request is followed whoever began it: without that, a completion could not be told from a lost start.

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, fentry, kprobe},
    programs::{BtfTracePointContext, FEntryContext, ProbeContext},
};
use iotrace_common::{
    block::{
        BlockKey, BlockSlot, DEVICE, DeviceLayout, FLAG_META, FLAG_READAHEAD, FLAG_SYNC, InFlight,
        OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, QUEUE, QueueEntry, SIZE, SharedHist, TOTAL,
    },
    hist::BUCKETS,
};

use crate::{
    log::debug_line,
    maps::{
        BLOCK_SETS, BLOCK_STATS, DEVICES, FREE_SETS, IN_FLIGHT, IN_FLIGHT_OVERFLOW, LAST_SET, QUEUES, tally,
    },
    mem::{atomic_add, bounded_bucket, config, field, offset, shared_max},
    target::{counting, current_owner},
};

// Bits of request.cmd_flags: an operation in the low 8, then flags (enum req_flag_bits, unchanged 4.10..6.18).
const REQ_OP_MASK: u32 = 0xff;
const REQ_SYNC: u32 = 1 << 11;
const REQ_META: u32 = 1 << 12;
const REQ_PREFLUSH: u32 = 1 << 18;
const REQ_RAHEAD: u32 = 1 << 19;
/// Pass-through commands begin here; they are no I/O of a file system.
const REQ_OP_DRV_IN: u32 = 32;
const REQ_OP_FLUSH: u32 = 2;
/// Every operation of a mask.
const ALL_OPS: u32 = 0xf;

#[btf_tracepoint(function = "block_io_start")]
fn block_io_start(ctx: BtfTracePointContext) -> i32 {
    start::<true>(ctx.arg::<u64>(0));
    0
}

/// `blk_account_io_start` to 5.16, `__blk_account_io_start` from 5.17.
#[fentry]
fn account_start_fentry(ctx: FEntryContext) -> i32 {
    start::<true>(ctx.arg::<u64>(0));
    0
}

/// The same where fentry is not to be had.
#[kprobe]
fn account_start_kprobe(ctx: ProbeContext) -> u32 {
    if let Some(rq) = ctx.arg::<u64>(0) {
        start::<false>(rq);
    }
    0
}

/// The request among the arguments: it came second until 5.11 (and 5.10.137).
macro_rules! request {
    ($ctx:ident, $arg:ident) => {
        if config!($arg) == 0 { $ctx.arg::<u64>(0) } else { $ctx.arg::<u64>(1) }
    };
}

/// These two are attached, and before `block_rq_issue`, only when no hook runs at start.
#[btf_tracepoint(function = "block_rq_insert")]
fn start_at_insert(ctx: BtfTracePointContext) -> i32 {
    start_if_new(request!(ctx, insert_arg));
    0
}

#[btf_tracepoint(function = "block_rq_issue")]
fn start_at_issue(ctx: BtfTracePointContext) -> i32 {
    start_if_new(request!(ctx, issue_arg));
    0
}

#[btf_tracepoint(function = "block_rq_issue")]
fn block_rq_issue(ctx: BtfTracePointContext) -> i32 {
    issue(request!(ctx, issue_arg));
    0
}

#[btf_tracepoint(function = "block_rq_complete")]
fn block_rq_complete(ctx: BtfTracePointContext) -> i32 {
    complete(ctx.arg::<u64>(0), ctx.arg::<u64>(1) as u32, ctx.arg::<u64>(2) as u32);
    0
}

#[btf_tracepoint(function = "block_rq_requeue")]
fn block_rq_requeue(ctx: BtfTracePointContext) -> i32 {
    let rq = request!(ctx, requeue_arg);
    if find(rq).is_some() {
        tally!(block_requeued);
    }
    0
}

#[btf_tracepoint(function = "block_rq_merge")]
fn block_rq_merge(ctx: BtfTracePointContext) -> i32 {
    let rq = request!(ctx, merge_arg);
    if let Some(in_flight) = find(rq) {
        leave(in_flight);
        tally!(block_merged_requests);
    }
    0
}

#[btf_tracepoint(function = "block_bio_backmerge")]
fn block_bio_backmerge(_ctx: BtfTracePointContext) -> i32 {
    tally!(block_merged_bios);
    0
}

#[btf_tracepoint(function = "block_bio_frontmerge")]
fn block_bio_frontmerge(_ctx: BtfTracePointContext) -> i32 {
    tally!(block_merged_bios);
    0
}

/// What the device is and where its requests lie, found once a queue. `None` when the kernel has more queues than places.
#[inline(always)]
fn queue_of<const TYPED: bool>(rq: u64) -> Option<&'static QueueEntry> {
    let q: u64 = field::<TYPED, _>(rq, offset!(rq_q));
    let id: u32 = field::<TYPED, _>(q, offset!(q_id));
    let place = QUEUES.get_ptr_mut(id)?;
    // SAFETY: a map value. `q` is written last, and all writers of one queue write the same.
    unsafe {
        if core::ptr::read_volatile(&raw const (*place).q) != q {
            let disk: u64 = if offset!(q_disk) != iotrace_common::config::ABSENT {
                field::<TYPED, _>(q, offset!(q_disk))
            } else {
                field::<TYPED, _>(rq, offset!(rq_disk))
            };
            let major: u32 = field::<TYPED, _>(disk, offset!(disk_major));
            let minor: u32 = field::<TYPED, _>(disk, offset!(disk_first_minor));
            let dev = (major << 20) | (minor & 0xf_ffff);
            (*place).dev = dev;
            (*place).layout = DEVICES.get(dev).copied().unwrap_or(DeviceLayout::default());
            core::ptr::write_volatile(&raw mut (*place).q, q);
        }
        Some(&*place)
    }
}

/// The request's place in `IN_FLIGHT`, `None` when it has none there.
#[inline(always)]
fn place_of<const TYPED: bool>(rq: u64, layout: &DeviceLayout) -> Option<*mut InFlight> {
    let tag: u32 = field::<TYPED, _>(rq, offset!(rq_tag));
    let sched_tag: u32 = field::<TYPED, _>(rq, offset!(rq_internal_tag));
    let hctx: u64 = field::<TYPED, _>(rq, offset!(rq_mq_hctx));
    let queue: u32 = field::<TYPED, _>(hctx, offset!(hctx_queue_num));
    // With a scheduler the internal tag is the request's own for life, and the driver's tag comes and goes.
    let offset = if sched_tag != u32::MAX {
        if sched_tag >= layout.sched_tags {
            return None;
        }
        layout.tags + sched_tag
    } else {
        if tag >= layout.tags {
            return None;
        }
        tag
    };
    if queue >= layout.queues {
        return None;
    }
    let index = layout.base + queue * (layout.tags + layout.sched_tags) + offset;
    IN_FLIGHT.get_ptr_mut(index & config!(in_flight_mask))
}

#[inline(always)]
fn kind_of(cmd_flags: u32, data_len: u32) -> Option<(u32, u8)> {
    let op = cmd_flags & REQ_OP_MASK;
    if op >= REQ_OP_DRV_IN {
        return None;
    }
    let kind = match op {
        0 => OP_READ,
        REQ_OP_FLUSH => return None, // the flush machinery's own request: issued for several owners
        3 | 5 | 9 => OP_DISCARD,
        1 if data_len == 0 && cmd_flags & REQ_PREFLUSH != 0 => OP_FLUSH,
        _ => OP_WRITE,
    };
    let mut flags = 0;
    if cmd_flags & REQ_SYNC != 0 {
        flags |= FLAG_SYNC;
    }
    if cmd_flags & REQ_META != 0 {
        flags |= FLAG_META;
    }
    if cmd_flags & REQ_RAHEAD != 0 {
        flags |= FLAG_READAHEAD;
    }
    Some((kind, flags))
}

#[inline(always)]
fn start<const TYPED: bool>(rq: u64) {
    let cmd_flags: u32 = field::<TYPED, _>(rq, offset!(rq_cmd_flags));
    let data_len: u32 = field::<TYPED, _>(rq, offset!(rq_data_len));
    let Some(queue) = queue_of::<TYPED>(rq) else {
        tally!(lost_in_flight);
        return;
    };
    let Some((op, flags)) = selected(queue, cmd_flags, data_len) else {
        forget::<TYPED>(rq, &queue.layout);
        return;
    };
    let key = BlockKey { process: current_owner(), dev: queue.dev, op: op as u8, flags, used: 1 };
    let Some(stats) = set_of(&key) else {
        tally!(lost_block_sets);
        return;
    };
    // Not `request.start_time_ns`: since 6.11 it is set after this hook, and from a clock read when the plug was made.
    let in_flight =
        InFlight { rq, start_ns: now(), issue_ns: 0, bytes: data_len, stats, overflown: 0, failed: 0 };
    tally!(block_started);
    let place = place_of::<TYPED>(rq, &queue.layout);
    if let Some(place) = place {
        // SAFETY: a map value; a request in flight is the business of one CPU at a time.
        unsafe {
            if (*place).rq == rq {
                end_unseen(place);
            }
            if (*place).rq == 0 {
                *place = in_flight;
                return;
            }
        }
    }
    let in_flight = InFlight { overflown: 1, ..in_flight };
    if IN_FLIGHT_OVERFLOW.insert(rq, in_flight, 0).is_err() {
        tally!(lost_in_flight);
        if let Some(slot) = BLOCK_STATS.get_ptr_mut(stats) {
            // SAFETY: a map value.
            atomic_add(unsafe { &raw mut (*slot).in_flight }, u64::MAX);
        }
    }
}

/// Operation and flags of a request the run asks for.
#[inline(always)]
fn selected(queue: &QueueEntry, cmd_flags: u32, data_len: u32) -> Option<(u32, u8)> {
    let (op, flags) = kind_of(cmd_flags, data_len)?;
    let wanted = counting()
        && config!(block_op_mask) & (1 << op) != 0
        && (config!(device_filter) == 0 || queue.layout.selected == 1)
        && (config!(comm_count) == 0 || crate::calls::comm_selected());
    wanted.then_some((op, flags))
}

/// A request that is not followed begins: if the one that had its place before was never seen to end, its entry must not
/// be taken for this one's.
#[inline(always)]
fn forget<const TYPED: bool>(rq: u64, layout: &DeviceLayout) {
    if let Some(place) = place_of::<TYPED>(rq, layout) {
        // SAFETY: a map value.
        if unsafe { (*place).rq } == rq {
            end_unseen(place);
        }
    }
}

/// A request that begins again has ended, seen or not: an interrupt that hits an idle CPU is not traced on some virtual
/// machines (perf misses it too). It is counted with its bytes; its latency is unknown.
#[inline(always)]
fn end_unseen(in_flight: *mut InFlight) {
    // SAFETY: a map value.
    unsafe {
        if let Some(slot) = BLOCK_STATS.get_ptr_mut((*in_flight).stats) {
            add(slot, SIZE, (*in_flight).bytes as u64);
            if (*in_flight).issue_ns != 0 {
                add(slot, QUEUE, (*in_flight).issue_ns.saturating_sub((*in_flight).start_ns));
            }
        }
    }
    tally!(block_ended_unseen);
    // SAFETY: as above.
    let bytes = unsafe { (*in_flight).bytes };
    debug_line!("a request of {} bytes ended unseen", bytes);
    leave(in_flight);
}

/// Where no hook runs at start: the first sight of a request is its start.
#[inline(always)]
fn start_if_new(rq: u64) {
    if find(rq).is_none() {
        start::<true>(rq);
    }
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_ns() }
}

/// The entry of a started request.
#[inline(always)]
fn find(rq: u64) -> Option<*mut InFlight> {
    let queue = queue_of::<true>(rq)?;
    if let Some(place) = place_of::<true>(rq, &queue.layout) {
        // SAFETY: a map value.
        let entry = unsafe { &*place };
        if entry.rq == rq {
            return Some(place);
        }
        if entry.rq == 0 {
            // Free places are filled before the overflow map is used.
            return None;
        }
    }
    IN_FLIGHT_OVERFLOW.get_ptr_mut(rq)
}

#[inline(always)]
fn issue(rq: u64) {
    let cmd_flags: u32 = field::<true, _>(rq, offset!(rq_cmd_flags));
    let op = cmd_flags & REQ_OP_MASK;
    if op == REQ_OP_FLUSH {
        tally!(block_flush_issued);
        return;
    }
    let mut found = find(rq);
    if found.is_none() && config!(recover_starts) == 1 && counting() {
        // The program at its start was skipped, or it began before the trace: this is its first sight.
        start::<true>(rq);
        found = find(rq);
        if found.is_some() {
            tally!(block_started_at_issue);
        }
    }
    if let Some(in_flight) = found {
        tally!(block_issued);
        // SAFETY: a map value.
        unsafe {
            // Merges are over: this is the size the device sees.
            (*in_flight).bytes = field::<true, u32>(rq, offset!(rq_data_len));
            (*in_flight).issue_ns = now();
        }
    }
}

#[inline(always)]
fn complete(rq: u64, error: u32, bytes: u32) {
    let Some(in_flight) = find(rq) else {
        unmatched(rq);
        return;
    };
    if error != 0 {
        // SAFETY: a map value.
        unsafe { (*in_flight).failed = 1 };
    }
    // A request may complete in parts; `__data_len` is what was left before this part.
    let left: u32 = field::<true, _>(rq, offset!(rq_data_len));
    if bytes >= left {
        end(in_flight, rq);
    }
}

#[inline(always)]
fn unmatched(rq: u64) {
    let op = field::<true, u32>(rq, offset!(rq_cmd_flags)) & REQ_OP_MASK;
    // With a filter, most of them are requests it left out.
    let filtered = config!(device_filter) | config!(comm_count) != 0 || config!(block_op_mask) != ALL_OPS;
    if counting() && !filtered && op < REQ_OP_DRV_IN && op != REQ_OP_FLUSH {
        tally!(block_completed_without_start);
    }
}

#[inline(always)]
fn end(in_flight: *mut InFlight, rq: u64) {
    // SAFETY: a map value.
    let entry = unsafe { &mut *in_flight };
    let end_ns = now();
    let slot = BLOCK_STATS.get_ptr_mut(entry.stats);
    if let Some(slot) = slot
        && entry.issue_ns != 0
    {
        // SAFETY: a map value, shared: counters are added to atomically.
        unsafe {
            add(slot, QUEUE, entry.issue_ns.saturating_sub(entry.start_ns));
            add(slot, DEVICE, end_ns.saturating_sub(entry.issue_ns));
        }
    }
    // A write with flushes around it ends twice: its data, marked so, and the whole.
    let flags: u32 = field::<true, _>(rq, offset!(rq_flags));
    if flags & config!(flush_sequence_flag) != 0 {
        entry.issue_ns = 0;
        return;
    }
    tally!(block_completed);
    if entry.failed != 0 {
        tally!(block_errors);
    }
    if let Some(slot) = slot {
        // SAFETY: as above.
        unsafe {
            if entry.failed != 0 {
                atomic_add(&raw mut (*slot).errors, 1);
            }
            add(slot, SIZE, entry.bytes as u64);
            add(slot, TOTAL, end_ns.saturating_sub(entry.start_ns));
        }
    }
    leave(in_flight);
}

/// Ends a request's stay.
#[inline(always)]
fn leave(in_flight: *mut InFlight) {
    // SAFETY: a map value.
    unsafe {
        let rq = (*in_flight).rq;
        if let Some(slot) = BLOCK_STATS.get_ptr_mut((*in_flight).stats) {
            atomic_add(&raw mut (*slot).in_flight, u64::MAX);
        }
        let overflown = (*in_flight).overflown == 1;
        (*in_flight).rq = 0;
        if overflown {
            let _ = IN_FLIGHT_OVERFLOW.remove(rq);
        }
    }
}

/// Adds a value to a distribution of a set.
#[inline(always)]
unsafe fn add(slot: *mut BlockSlot, distribution: usize, value: u64) {
    // SAFETY: parts of a map value.
    unsafe {
        add_value(
            &raw mut (*slot).sums[distribution],
            &raw mut (*slot).max[distribution],
            &raw mut (*slot).inverse_min[distribution],
            &raw mut (*slot).counts[distribution],
            value,
        );
    }
}

/// Adds a value to a shared distribution.
#[inline(always)]
pub unsafe fn add_shared(hist: *mut SharedHist, value: u64) {
    // SAFETY: parts of a map value.
    unsafe {
        add_value(
            &raw mut (*hist).sum,
            &raw mut (*hist).max,
            &raw mut (*hist).inverse_min,
            &raw mut (*hist).counts,
            value,
        );
    }
}

#[inline(always)]
unsafe fn add_value(
    sum: *mut u64,
    max: *mut u64,
    inverse_min: *mut u64,
    counts: *mut [u64; BUCKETS],
    value: u64,
) {
    atomic_add(sum, value);
    shared_max(max, value);
    shared_max(inverse_min, u64::MAX - value);
    // SAFETY: the bucket is in bounds.
    atomic_add(unsafe { counts.cast::<u64>().add(bounded_bucket(value)) }, 1);
}

/// The set a key's requests are counted in, and one more in flight there.
#[inline(always)]
fn set_of(key: &BlockKey) -> Option<u32> {
    let hint = LAST_SET.get_ptr_mut(0)?;
    // SAFETY: a map value.
    let mut index = unsafe { core::ptr::read_volatile(hint) };
    let mut slot = BLOCK_STATS.get_ptr_mut(index)?;
    // SAFETY: a map value; a set's key is written before its index is published.
    if unsafe { (*slot).key } != *key {
        index = find_set(key);
        if index == u32::MAX {
            return None;
        }
        slot = BLOCK_STATS.get_ptr_mut(index)?;
        // SAFETY: a map value.
        unsafe { core::ptr::write_volatile(hint, index) };
    }
    // SAFETY: a map value.
    atomic_add(unsafe { &raw mut (*slot).in_flight }, 1);
    Some(index)
}

#[inline(always)]
fn find_set(key: &BlockKey) -> u32 {
    // SAFETY: preallocated map; copied at once.
    if let Some(&index) = unsafe { BLOCK_SETS.get(key) } {
        return index;
    }
    let Ok(Some(index)) = FREE_SETS.pop() else { return u32::MAX };
    let Some(slot) = BLOCK_STATS.get_ptr_mut(index) else { return u32::MAX };
    // SAFETY: a set from the free list is nobody else's, and all zero.
    unsafe { (*slot).key = *key };
    // BPF_NOEXIST (1): another CPU may have been first; then its set is the one.
    if BLOCK_SETS.insert(key, index, 1).is_ok() {
        return index;
    }
    // SAFETY: as above.
    unsafe { (*slot).key.used = 0 };
    let _ = FREE_SETS.push(index, 0);
    // SAFETY: preallocated map; copied at once.
    unsafe { BLOCK_SETS.get(key) }.copied().unwrap_or(u32::MAX)
}
