//! Operations that move no data: open, stat, getdents, rename, unlink, fsync, close, truncate and their kin. Each is counted
//! for its process, by system call, with latency, wait and errno.
//!
//! Maps: OP_SETS, OP_STATS, FREE_OP_SETS, EVENTS. Times are ns.

use aya_ebpf::helpers::generated::bpf_probe_read_user_str;
use iotrace_common::{
    event::{FAILED, RENAMED},
    file::{PATH_BYTES, PathRecord},
    op::{
        FORM_OPS, Form, META_FORMS, OP_CLOSE, OP_FSYNC, OP_GETDENTS, OP_MMAP_FAULT, OP_OPEN, OP_RENAME,
        OP_STAT, OP_TRUNCATE, OP_UNLINK, SETS, first_form,
    },
    thread::{Kind, NO_WAY, OpKey, OpSet, ThreadSlot},
};

use crate::{
    block::add_shared,
    file::look,
    maps::{DEVICE_FILTER, EVENTS, FREE_OP_SETS, NO_WAKEUP, OP_SETS, OP_STATS, tally},
    mem::{atomic_add, bounded, checked_apart, config},
    rw::{count_errno, count_op},
    session::{closing, holders, opened, place, way_of},
};

/// Operation of a form that moves no data, and the first form of it.
#[inline(always)]
pub fn op_of(form: u32) -> (u32, u32) {
    macro_rules! ranges {
        ($($op:ident)+) => { $(
            if form >= first_form($op) as u32 && form < first_form($op) as u32 + forms_of($op) {
                return ($op, first_form($op) as u32);
            }
        )+ };
    }
    ranges!(OP_OPEN OP_STAT OP_CLOSE OP_GETDENTS OP_RENAME OP_UNLINK OP_FSYNC OP_TRUNCATE);
    (OP_MMAP_FAULT, first_form(OP_MMAP_FAULT) as u32)
}

const fn forms_of(op: u32) -> u32 {
    let (mut count, mut form) = (0, first_form(op));
    while form < FORM_OPS.len() && FORM_OPS[form] == op {
        count += 1;
        form += 1;
    }
    count
}

/// Are there filters by file? Then a call counts when it is on an open file that they choose; a path alone does not tell.
#[inline(always)]
fn files_are_filtered() -> bool {
    config!(file_filter) | config!(device_filter) != 0
}

/// Is the call counted? Notes what its end needs.
#[inline(always)]
pub fn enter(slot: &mut ThreadSlot, form: u8, argument: impl Fn(usize) -> u64) -> bool {
    let (op, _) = op_of(form.into());
    if config!(op_mask) & (1 << op) == 0 {
        return false;
    }
    slot.ways[0] = NO_WAY;
    slot.argument = 0;
    slot.chosen = 0;
    match op {
        OP_FSYNC
            if form != Form::Sync as u8
                && form != Form::Msync as u8
                && look(slot, argument(0) as u32, false) =>
        {
            slot.ways[0] = choose(slot);
        }
        OP_CLOSE if form == Form::Close as u8 && look(slot, argument(0) as u32, false) => {
            if files_are_filtered() {
                choose(slot);
            }
            let last = holders(slot) == 1;
            closing(slot, last.into());
        }
        OP_RENAME => {
            let plain = form == Form::Rename as u8;
            slot.position = argument(if plain { 0 } else { 1 });
            slot.argument = argument(if plain { 1 } else { 3 });
        }
        OP_OPEN | OP_STAT | OP_UNLINK | OP_TRUNCATE => {
            let plain = matches!(
                form,
                f if f == Form::Open as u8
                    || f == Form::Creat as u8
                    || f == Form::Stat as u8
                    || f == Form::Lstat as u8
                    || f == Form::Access as u8
                    || f == Form::Unlink as u8
                    || f == Form::Rmdir as u8
                    || f == Form::Truncate as u8
            );
            slot.position = argument(if plain { 0 } else { 1 });
            let by_path =
                form != Form::Fstat as u8 && form != Form::Ftruncate as u8 && form != Form::Fallocate as u8;
            slot.argument = by_path.into();
        }
        _ => {}
    }
    true
}

/// Way of the file in `slot.seen`; notes whether the call is on one that is chosen.
#[inline(always)]
fn choose(slot: &mut ThreadSlot) -> u32 {
    let way = way_of(slot, NO_WAY);
    let place = place(slot, way);
    let chosen = place.kind == Kind::Regular as u32
        // SAFETY: preallocated map; only its presence matters.
        && (config!(device_filter) == 0 || unsafe { DEVICE_FILTER.get(place.dev) }.is_some());
    slot.chosen = chosen.into();
    way
}

checked_apart! {
    /// Counts the call.
    pub fn exit as "iotrace_exit" (slot, form: u32, latency_ns: u64, returned: i64) {
        let (op, first) = op_of(form);
        let wait_ns = slot.wait_ns;
        if op == OP_OPEN && returned >= 0 && look(slot, returned as u32, false) {
            opened(slot, latency_ns, wait_ns);
            if files_are_filtered() {
                choose(slot);
            }
        }
        if files_are_filtered() && slot.chosen == 0 {
            return;
        }
        count_op();
        count(slot, op, form - first, latency_ns, wait_ns, returned < 0);
        if returned < 0 {
            let by_path = slot.argument == 1 || op == OP_RENAME;
            if count_errno(slot.process, op, returned) != 0 && by_path {
                tell_path(slot, op, (-returned) as u32);
            }
            return;
        }
        match op {
            OP_FSYNC => {
                let way = slot.ways[0];
                if way != NO_WAY {
                    let end_ns = slot.enter_ns + latency_ns;
                    let file = place(slot, way);
                    if file.kind == Kind::Regular as u32 {
                        file.dirty = 1;
                        file.last_ns = end_ns;
                        file.totals.syncs += 1;
                        file.totals.sync_ns += latency_ns;
                    }
                }
            }
            OP_RENAME => tell_path(slot, op, 0),
            _ => {}
        }
    }
}

/// Adds one call to the process's set of an operation.
#[inline(always)]
pub fn count(slot: &mut ThreadSlot, op: u32, form: u32, latency_ns: u64, wait_ns: u64, failed: bool) {
    let index = bounded::<{ SETS as u64 }>(op.into());
    let known = slot.sets[index];
    let place = if known != 0 {
        known
    } else {
        let found = find_set(slot.process, op);
        slot.sets[index] = found;
        found
    };
    add_to_set(place, form, latency_ns, wait_ns, slot.cached_bytes, failed);
}

/// Adds a value, a latency or a size, to the set at `place` (as of [`find_set`]).
#[inline(always)]
pub fn add_to_set(place: u32, form: u32, value: u64, wait_ns: u64, cached_bytes: u64, failed: bool) {
    let Some(set) = (place != 0).then(|| OP_STATS.get_ptr_mut(place - 1)).flatten() else {
        tally!(lost_op_sets);
        return;
    };
    // SAFETY: a map value, shared: counters are added to atomically.
    unsafe {
        let forms = (&raw mut (*set).forms).cast::<u64>();
        atomic_add(forms.add(bounded::<{ META_FORMS as u64 }>(form.into())), 1);
        if failed {
            atomic_add(&raw mut (*set).errors, 1);
        }
        if wait_ns != 0 {
            atomic_add(&raw mut (*set).waited, 1);
            atomic_add(&raw mut (*set).wait_ns, wait_ns);
        }
        if cached_bytes != 0 {
            atomic_add(&raw mut (*set).cached_bytes, cached_bytes);
        }
        add_shared(&raw mut (*set).latency, value);
    }
}

/// Place of a set plus one, made when it is new; 0 when there is no room.
#[unsafe(export_name = "iotrace_find_set")]
#[inline(never)]
pub extern "C" fn find_set(process: u64, op: u32) -> u32 {
    let key = OpKey { process, op, used: 1 };
    // SAFETY: preallocated map; copied at once.
    if let Some(&index) = unsafe { OP_SETS.get(key) } {
        return index + 1;
    }
    let Ok(Some(index)) = FREE_OP_SETS.pop() else { return 0 };
    let Some(set) = OP_STATS.get_ptr_mut(index) else { return 0 };
    // SAFETY: a set from the free list is nobody else's, and all zero.
    unsafe { (*set).key = key };
    // BPF_NOEXIST (1): another CPU may have been first; then its set is the one.
    if OP_SETS.insert(key, index, 1).is_ok() {
        return index + 1;
    }
    // SAFETY: as above.
    unsafe { (*set).key.used = 0 };
    let _ = FREE_OP_SETS.push(index, 0);
    // SAFETY: preallocated map; copied at once.
    unsafe { OP_SETS.get(key) }.map_or(0, |index| *index + 1)
}

/// Tells of a rename, or of the first failure of a kind, with the paths as the program gave them.
#[inline(always)]
fn tell_path(slot: &mut ThreadSlot, op: u32, errno: u32) {
    let Some(mut entry) = EVENTS.reserve::<PathRecord>(0) else {
        tally!(lost_ring);
        return;
    };
    let out = entry.as_mut_ptr();
    // SAFETY: the record is ours until submitted; the helper checks the sources.
    unsafe {
        (*out).kind = if errno == 0 { RENAMED } else { FAILED };
        (*out).op = op;
        (*out).process = slot.process;
        (*out).ns = crate::calls::now();
        (*out).errno = errno;
        (*out)._pad = 0;
        read_path(&raw mut (*out).path, slot.position);
        if errno == 0 {
            read_path(&raw mut (*out).to, slot.argument);
        } else {
            (*out).to[0] = 0;
        }
    }
    entry.submit(NO_WAKEUP);
}

#[inline(always)]
unsafe fn read_path(to: *mut [u8; PATH_BYTES], from: u64) {
    // SAFETY: the size of the field.
    unsafe {
        if bpf_probe_read_user_str(to.cast(), PATH_BYTES as u32, from as *const _) < 0 {
            (*to)[0] = 0;
        }
    }
}

const _: () = assert!(size_of::<OpSet>().is_multiple_of(8));
