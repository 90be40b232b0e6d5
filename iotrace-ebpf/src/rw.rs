//! Reads and writes: what a call asked for, and what came of it. Times are ns, sizes bytes.

use iotrace_common::{
    file::{FileSlot, UNKNOWN_POSITION},
    hist::BUCKETS,
    op::{DATA_FORMS, Form, OP_READ, OP_WRITE},
    thread::{ErrnoKey, KINDS, Kind, NO_WAY, OpSlot, ThreadSlot, UNKNOWN_SIZE},
};

use crate::{
    file::{iovec_bytes, look},
    maps::{DEVICE_FILTER, ERRNOS, TALLY, tally},
    mem::{atomic_add, bounded, bounded_bucket, config},
    session::{place, way_of},
};

const READ: usize = OP_READ as usize;
const WRITE: usize = OP_WRITE as usize;

/// "No such side": a number no table of descriptors reaches. (An `Option` leaves the descriptor undefined where there is none,
/// and 5.10 does not see that such a path does not read it.)
const NO_FD: u32 = u32::MAX;

/// Transfers below this are tiny: a page.
const TINY_BYTES: u64 = 4096;

#[inline(always)]
pub fn enter(slot: &mut ThreadSlot, form: u8, argument: impl Fn(usize) -> u64) {
    let first = argument(0) as u32;
    let third = argument(2);
    let (read_fd, write_fd) = match form {
        f if f <= Form::Preadv2 as u8 => (first, NO_FD),
        f if f <= Form::Pwritev2 as u8 => (NO_FD, first),
        f if f == Form::Sendfile as u8 => (argument(1) as u32, first),
        _ => (first, third as u32),
    };
    let positional = matches!(form, f if f == Form::Pread64 as u8
        || f == Form::Preadv as u8
        || f == Form::Preadv2 as u8
        || f == Form::Pwrite64 as u8
        || f == Form::Pwritev as u8
        || f == Form::Pwritev2 as u8);
    // Of other calls the open file's own position; of those with two files it is not followed.
    let own = !positional && form < Form::Sendfile as u8;
    let (read_kind, read_way, read_position) = side(slot, read_fd, OP_READ, NO_WAY, own);
    let (write_kind, write_way, write_position) = side(slot, write_fd, OP_WRITE, read_way, own);
    slot.kinds = [read_kind, write_kind];
    slot.ways = [read_way, write_way];
    slot.position = match form {
        _ if positional => argument(3),
        _ if !own => UNKNOWN_POSITION,
        f if f <= Form::Preadv2 as u8 => read_position,
        _ => write_position,
    };
    slot.requested = match form {
        f if f == Form::Read as u8 || f == Form::Pread64 as u8 => third,
        f if f == Form::Write as u8 || f == Form::Pwrite64 as u8 => third,
        f if f == Form::Sendfile as u8 => argument(3),
        f if f >= Form::Splice as u8 => argument(4),
        _ => iovec_bytes(argument(1), third),
    };
}

/// Kind, place in the slot, and position of what a descriptor stands for.
#[inline(always)]
fn side(slot: &mut ThreadSlot, fd: u32, op: u32, taken: u32, with_position: bool) -> (u32, u32, u64) {
    let absent = (Kind::Absent as u32, NO_WAY, UNKNOWN_POSITION);
    if fd == NO_FD {
        return absent;
    }
    if config!(op_mask) & (1 << op) == 0 {
        return absent;
    }
    if !look(slot, fd, with_position) {
        return (Kind::Other as u32, NO_WAY, UNKNOWN_POSITION);
    }
    let way = way_of(slot, taken);
    let place = place(slot, way);
    let kind = place.kind;
    if kind > Kind::BlockDevice as u32 {
        return (kind, way, UNKNOWN_POSITION);
    }
    if config!(device_filter) == 1
        // SAFETY: preallocated map; only its presence matters.
        && unsafe { DEVICE_FILTER.get(place.dev) }.is_none()
    {
        return absent;
    }
    (kind, way, slot.seen.position)
}

#[inline(always)]
pub fn exit(slot: &mut ThreadSlot, form: usize, latency_ns: u64, returned: i64) {
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
    let wait_ns = slot.wait_ns;
    record(&mut slot.ops[side], form, latency_ns, wait_ns, returned, slot.requested, side);
    slot.ops[side].cached_bytes += slot.cached_bytes;
    if returned < 0 {
        count_errno(slot.process, side as u32, returned);
        return;
    }
    let (position, requested, end_ns) = (slot.position, slot.requested, slot.enter_ns + latency_ns);
    let cached_bytes = slot.cached_bytes;
    let way = slot.ways[side];
    if way == NO_WAY {
        return;
    }
    let file = place(slot, way);
    file.dirty = 1;
    file.last_ns = end_ns;
    file.totals.cached_bytes += cached_bytes;
    let bytes = returned as u64;
    if side == READ {
        note_read(file, position, requested, bytes, latency_ns, wait_ns);
    } else {
        let totals = &mut file.totals;
        totals.writes += 1;
        totals.written_bytes += bytes;
        totals.write_ns += latency_ns;
        totals.write_wait_ns += wait_ns;
        totals.tiny_writes += (bytes < TINY_BYTES) as u64;
        if position != UNKNOWN_POSITION && position + bytes > file.size {
            file.size = position + bytes;
        }
    }
}

#[inline(always)]
fn note_read(file: &mut FileSlot, position: u64, requested: u64, bytes: u64, latency_ns: u64, wait_ns: u64) {
    let totals = &mut file.totals;
    totals.reads += 1;
    totals.read_bytes += bytes;
    totals.read_ns += latency_ns;
    if wait_ns != 0 {
        totals.read_wait_ns += wait_ns;
        totals.waited_reads += 1;
        totals.waited_bytes += bytes;
    }
    if bytes < TINY_BYTES && bytes != 0 && requested == bytes {
        totals.tiny_reads += 1;
    }
    if position == UNKNOWN_POSITION {
        return;
    }
    if position == file.next_start {
        totals.sequential_reads += 1;
    } else {
        let stride = position.wrapping_sub(file.last_start);
        if stride == file.stride {
            totals.strided_reads += 1;
        } else {
            totals.random_reads += 1;
        }
        file.stride = stride;
    }
    if position <= file.covered && position + bytes > file.covered {
        file.covered = position + bytes;
    }
    file.last_start = position;
    file.next_start = position + bytes;
}

/// For the progress line alone, so a plain addition will do.
#[inline(always)]
pub fn count_op() {
    if let Some(tally) = TALLY.get_ptr_mut(0) {
        // SAFETY: a map value.
        unsafe { (*tally).ops += 1 };
    }
}

#[inline(always)]
fn record(
    op: &mut OpSlot,
    form: usize,
    latency_ns: u64,
    wait_ns: u64,
    returned: i64,
    requested: u64,
    side: usize,
) {
    if op.count == 0 || latency_ns < op.latency_min_ns {
        op.latency_min_ns = latency_ns;
    }
    if latency_ns > op.latency_max_ns {
        op.latency_max_ns = latency_ns;
    }
    op.latency_sum_ns += latency_ns;
    add_one(&mut op.latency, latency_ns);
    // SAFETY: in bounds.
    unsafe { *op.forms.get_unchecked_mut(bounded::<{ DATA_FORMS as u64 }>(form as u64)) += 1 };
    if wait_ns != 0 {
        op.waited += 1;
        op.wait_ns += wait_ns;
        if returned > 0 {
            op.waited_bytes += returned as u64;
        }
    }
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

/// Counts a failed call; is it the first of its kind?
#[unsafe(export_name = "iotrace_count_errno")]
#[inline(never)]
pub extern "C" fn count_errno(process: u64, op: u32, returned: i64) -> u64 {
    let mut errno = (-returned) as u32;
    if (512..=516).contains(&errno) {
        errno = 4; // ERESTARTSYS and kin: user space sees EINTR or a restarted call
    }
    let key = ErrnoKey { process, op, errno };
    let mut first = 0;
    if ERRNOS.get_ptr_mut(key).is_none() {
        // BPF_NOEXIST (1): another CPU may have been first.
        let _ = ERRNOS.insert(key, 0, 1);
        first = 1;
    }
    match ERRNOS.get_ptr_mut(key) {
        Some(count) => atomic_add(count, 1),
        None => tally!(lost_errnos),
    }
    first
}
