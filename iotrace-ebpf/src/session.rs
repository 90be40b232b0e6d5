//! What a process does with a file from open to close. Name and folder are sent when a thread first uses the file, the numbers
//! when it is closed. Meanwhile a thread counts in the places of its own slot; when it turns to more files than it has places
//! for, or ends before its process does, it puts down what it counted in `SESSIONS`, where the one who closes the file finds it.
//! The last thread of a process tells what is left. At the end of the trace user space takes the rest out of slots and map.
//!
//! Maps: SESSIONS, LOST_CLASSES, EVENTS.

use iotrace_common::{
    async_io::AsyncOp,
    config::ABSENT,
    event::SESSION,
    file::{
        CLASSES, CLOSED, DELETED, FileSlot, FileTotals, OPENED, SESSION_BYTES, Session, SessionKey, TOTALS,
        WAYS, class_of,
    },
    op::{OP_READ, OP_WRITE},
    thread::{Kind, NO_WAY, Seen, ThreadSlot},
};

use crate::{
    file::{describe, size_now},
    maps::{EVENTS, LOST_CLASSES, NO_WAKEUP, SESSIONS, tally},
    mem::{atomic_add, bounded, checked_apart, offset, probe, zero},
    names::tell_name,
};

/// The place of a slot at `way`.
#[inline(always)]
pub fn place(slot: &mut ThreadSlot, way: u32) -> &mut FileSlot {
    // SAFETY: in bounds.
    unsafe { slot.files.get_unchecked_mut(bounded::<{ WAYS as u64 }>(way.into())) }
}

/// The way an open file has by its address.
#[inline(always)]
fn home(file: u64) -> u32 {
    (file >> 8) as u32 & (WAYS as u32 - 1)
}

/// Is `way` the place of this file? Open files and inodes are reused, so all three must agree.
#[inline(always)]
fn is_at(slot: &mut ThreadSlot, way: u32, seen: &Seen) -> bool {
    let known = place(slot, way);
    known.file == seen.file && known.inode == seen.inode && known.ino == seen.ino
}

/// The place of the file in `slot.seen`, which may be new; not `taken`, unless by the same file.
#[inline(always)]
pub fn way_of(slot: &mut ThreadSlot, taken: u32) -> u32 {
    let seen = seen(slot);
    let mut way = home(seen.file);
    if way == taken && place(slot, way).file != seen.file {
        way ^= 1;
    }
    if !is_at(slot, way, &seen) {
        turn_to(slot, way);
    }
    way
}

checked_apart! {
    /// Makes `way` the place of the file in `slot.seen`.
    fn turn_to as "iotrace_turn_to" (slot, way: u32) {
        put_down(slot, way);
        let seen = seen(slot);
        let process = slot.process;
        let now = crate::calls::now();
        let place = place(slot, way);
        zero(&raw mut *place);
        describe(place, seen);
        place.first_ns = now;
        if place.kind > Kind::BlockDevice as u32 {
            return;
        }
        let key = SessionKey { process, file: seen.file };
        if let Some(session) = SESSIONS.get_ptr_mut(key)
            // SAFETY: a map value.
            && unsafe { (*session).ino == place.ino && (*session).dev == place.dev }
        {
            // SAFETY: as above.
            unsafe {
                place.next_start = (*session).next_start;
                place.covered = (*session).covered;
            }
        }
        if place.kind == Kind::Regular as u32 {
            tell_name(slot, way);
        }
    }
}

/// The file of `slot.seen`, as plain numbers.
#[inline(always)]
pub fn seen(slot: &ThreadSlot) -> Seen {
    // SAFETY: a field. Volatile, or the compiler takes the values it knows, which may be pointers to the verifier.
    unsafe { core::ptr::read_volatile(&raw const slot.seen) }
}

checked_apart! {
    /// The place of a file just opened, new.
    pub fn opened as "iotrace_opened" (slot, open_ns: u64, open_wait_ns: u64) {
        let seen = seen(slot);
        let way = home(seen.file);
        // Whatever was counted at this address is of a file that was closed unseen: by an exec, dup2 or close_range, or with
        // its last mapping.
        if place(slot, way).file == seen.file {
            conclude(slot, way, 0);
        } else {
            put_down(slot, way);
        }
        let key = SessionKey { process: slot.process, file: seen.file };
        if SESSIONS.get_ptr_mut(key).is_some() {
            tell_stale(slot, seen.file);
            let _ = SESSIONS.remove(key);
        }
        let now = crate::calls::now();
        let place = place(slot, way);
        zero(&raw mut *place);
        describe(place, seen);
        place.first_ns = now;
        place.last_ns = now;
        place.flags = OPENED;
        place.dirty = 1;
        place.totals.open_ns = open_ns;
        place.totals.open_wait_ns = open_wait_ns;
        if place.kind == Kind::Regular as u32 {
            tell_name(slot, way);
        }
    }
}

checked_apart! {
    /// Puts down what was counted at `way`, for the one who closes the file, and frees the place.
    pub fn put_down as "iotrace_put_down" (slot, way: u32) {
        let process = slot.process;
        let from = place(slot, way);
        let file = from.file;
        from.file = 0;
        if file == 0 || from.dirty == 0 || from.kind != Kind::Regular as u32 {
            return;
        }
        let key = SessionKey { process, file };
        let mut session = SESSIONS.get_ptr_mut(key);
        if let Some(known) = session
            // SAFETY: a map value.
            && unsafe { (*known).ino != from.ino || (*known).dev != from.dev }
        {
            // A later file at the same address: the earlier one was closed unseen.
            tell_stale(slot, file);
            let _ = SESSIONS.remove(key);
            session = None;
        }
        if session.is_none() {
            insert_fresh(slot, way, &key);
            session = SESSIONS.get_ptr_mut(key);
        }
        let from = place(slot, way);
        match session {
            // SAFETY: a map value, shared: counters are added to atomically.
            Some(session) => unsafe {
                (*session).flags |= from.flags;
                (*session).next_start = from.next_start;
                if from.covered > (*session).covered {
                    (*session).covered = from.covered;
                }
                (*session).last_ns = from.last_ns;
                (*session).size = size_now(from.inode, from.size);
                add_totals(&raw mut (*session).totals, &raw const from.totals);
            },
            None => {
                from.file = file;
                record(slot, way, 0);
                place(slot, way).file = 0;
            }
        }
    }
}

/// Makes an empty entry, in the memory of the slot's record: the stack has no room for it.
#[inline(always)]
fn insert_fresh(slot: &mut ThreadSlot, way: u32, key: &SessionKey) {
    // SAFETY: a record is larger, and plain numbers; a copy of the pointer, since both lie in the slot.
    let session = unsafe { &mut *(&raw mut slot.record).cast::<Session>() };
    zero(&raw mut *session);
    let from = place(slot, way);
    session.ino = from.ino;
    session.dev = from.dev;
    session.first_ns = from.first_ns;
    // BPF_NOEXIST (1): another thread of the process may have been first.
    let _ = SESSIONS.insert(key, &*session, 1);
}

#[inline(always)]
unsafe fn add_totals(to: *mut FileTotals, from: *const FileTotals) {
    let (to, from) = (to.cast::<u64>(), from.cast::<u64>());
    for field in 0..TOTALS {
        // SAFETY: within the values.
        unsafe {
            // Zeros too: a branch for each would double the verifier's work 22 times.
            atomic_add(to.add(field), core::ptr::read_volatile(from.add(field)));
        }
    }
}

/// Adds an asynchronous transfer to the session of its file.
#[inline(always)]
pub fn add_transfer(transfer: &AsyncOp, latency_ns: u64, bytes: u64) {
    let key = SessionKey { process: transfer.process, file: transfer.file };
    if SESSIONS.get_ptr_mut(key).is_none() {
        insert_transfer(&key, transfer);
    }
    let Some(session) = SESSIONS.get_ptr_mut(key) else {
        tally!(lost_async);
        return;
    };
    // SAFETY: a map value, shared: counters are added to atomically.
    unsafe {
        if (*session).ino != transfer.ino || (*session).dev != transfer.dev {
            // The file was closed with the transfer in flight, and another has its address.
            tally!(lost_async);
            return;
        }
        let totals = &raw mut (*session).totals;
        (*session).last_ns = transfer.start_ns + latency_ns;
        if transfer.op == OP_READ {
            atomic_add(&raw mut (*totals).reads, 1);
            atomic_add(&raw mut (*totals).read_bytes, bytes);
            atomic_add(&raw mut (*totals).read_ns, latency_ns);
        } else if transfer.op == OP_WRITE {
            atomic_add(&raw mut (*totals).writes, 1);
            atomic_add(&raw mut (*totals).written_bytes, bytes);
            atomic_add(&raw mut (*totals).write_ns, latency_ns);
        } else {
            atomic_add(&raw mut (*totals).syncs, 1);
            atomic_add(&raw mut (*totals).sync_ns, latency_ns);
        }
    }
}

/// An entry for a file that asynchronous transfers alone have used. Out of line for the sake of the stack.
#[inline(never)]
fn insert_transfer(key: &SessionKey, transfer: &AsyncOp) -> u32 {
    let mut session = core::mem::MaybeUninit::<Session>::uninit();
    zero(session.as_mut_ptr());
    // SAFETY: every word was written.
    let session = unsafe { session.assume_init_mut() };
    session.ino = transfer.ino;
    session.dev = transfer.dev;
    session.first_ns = transfer.start_ns;
    let _ = SESSIONS.insert(key, &*session, 1);
    0
}

checked_apart! {
    /// The file of `slot.seen` is about to be closed; `last` when this was the only reference.
    pub fn closing as "iotrace_closing" (slot, last: u32) {
        if last == 0 {
            // Others still hold it: the process's session may go on.
            return;
        }
        let seen = seen(slot);
        let way = home(seen.file);
        let mut found = NO_WAY;
        if is_at(slot, way, &seen) {
            found = way;
        }
        if is_at(slot, way ^ 1, &seen) {
            if found == NO_WAY {
                found = way ^ 1;
            } else {
                put_down(slot, way ^ 1);
            }
        }
        if found == NO_WAY {
            if SESSIONS.get_ptr_mut(SessionKey { process: slot.process, file: seen.file }).is_none() {
                return;
            }
            turn_to(slot, way);
            found = way;
        }
        conclude(slot, found, CLOSED);
    }
}

checked_apart! {
    /// What a thread that ends has counted: told of when it is the `last` of its process, else put down for the others.
    pub fn leave as "iotrace_leave" (slot, last: u32) {
        for way in 0..WAYS as u32 {
            if last != 0 {
                conclude(slot, way, 0);
            } else {
                put_down(slot, way);
            }
        }
    }
}

checked_apart! {
    /// Sends what this thread counted at `way`, and others have put down of the same open file, and frees the place.
    fn conclude as "iotrace_conclude" (slot, way: u32, flags: u32) {
        let process = slot.process;
        let mine = place(slot, way);
        let file = mine.file;
        if file == 0 || mine.kind != Kind::Regular as u32 {
            mine.file = 0;
            return;
        }
        let key = SessionKey { process, file };
        if let Some(session) = SESSIONS.get_ptr_mut(key) {
            // SAFETY: a map value.
            let same = unsafe { (*session).ino == mine.ino && (*session).dev == mine.dev };
            if same {
                // SAFETY: as above.
                unsafe {
                    mine.flags |= (*session).flags;
                    if (*session).covered > mine.covered {
                        mine.covered = (*session).covered;
                    }
                    if (*session).first_ns < mine.first_ns {
                        mine.first_ns = (*session).first_ns;
                    }
                    add_totals(&raw mut mine.totals, &raw const (*session).totals);
                    mine.dirty = 1;
                }
            } else {
                tell_stale(slot, file);
            }
            let _ = SESSIONS.remove(key);
        }
        if place(slot, way).dirty != 0 {
            record(slot, way, flags);
        }
        place(slot, way).file = 0;
    }
}

checked_apart! {
    /// A record of what an earlier file at the same address left behind; nothing of it but numbers can be trusted.
    fn tell_stale as "iotrace_tell_stale" (slot, file: u64) {
        let process = slot.process;
        let Some(session) = SESSIONS.get_ptr_mut(SessionKey { process, file }) else { return };
        let out = &mut slot.record;
        // SAFETY: a map value.
        unsafe {
            out.kind = SESSION;
            out.flags = (*session).flags;
            out.process = process;
            out.file = 0;
            out.ino = (*session).ino;
            out.size = (*session).size;
            out.dev = (*session).dev;
            out._pad = 0;
            out.covered = (*session).covered;
            out.first_ns = (*session).first_ns;
            out.last_ns = (*session).last_ns;
            copy_totals(&raw mut out.totals, &raw const (*session).totals);
        }
        send(slot);
    }
}

#[inline(always)]
unsafe fn copy_totals(to: *mut FileTotals, from: *const FileTotals) {
    let (to, from) = (to.cast::<u64>(), from.cast::<u64>());
    for field in 0..TOTALS {
        // SAFETY: within the values. Volatile, or the compiler makes it a memcpy.
        unsafe { core::ptr::write_volatile(to.add(field), core::ptr::read_volatile(from.add(field))) };
    }
}

checked_apart! {
    /// Sends the numbers of the file at `way`.
    fn record as "iotrace_record" (slot, way: u32, flags: u32) {
        let process = slot.process;
        let from: *const FileSlot = place(slot, way);
        // SAFETY: in bounds; a copy of the pointer, since the record lies in the same slot.
        let from = unsafe { &*from };
        let out = &mut slot.record;
        out.kind = SESSION;
        out.process = process;
        out.file = from.file;
        out.ino = from.ino;
        out.dev = from.dev;
        out._pad = 0;
        out.covered = from.covered;
        out.first_ns = from.first_ns;
        out.last_ns = from.last_ns;
        out.size = size_now(from.inode, from.size);
        let links: u32 = probe(from.inode, offset!(inode_nlink)).unwrap_or(1);
        let deleted = if links == 0 { DELETED } else { 0 };
        out.flags = from.flags | flags | deleted;
        // SAFETY: both within the slot, and apart.
        unsafe { copy_totals(&raw mut out.totals, &raw const from.totals) };
        send(slot);
    }
}

/// Sends `slot.record`.
#[inline(always)]
fn send(slot: &mut ThreadSlot) {
    // SAFETY: no more than the record.
    let bytes = unsafe { core::slice::from_raw_parts((&raw const slot.record).cast::<u8>(), SESSION_BYTES) };
    if EVENTS.output::<[u8]>(bytes, NO_WAKEUP).is_err() {
        lost(slot);
    }
}

checked_apart! {
    /// The ring is full: the numbers are kept by size class.
    fn lost as "iotrace_lost" (slot) {
        tally!(lost_ring);
        let class = bounded::<{ CLASSES as u64 }>(class_of(slot.record.size) as u64) as u32;
        if let Some(kept) = LOST_CLASSES.get_ptr_mut(class) {
            // SAFETY: a map value, shared.
            unsafe {
                atomic_add(&raw mut (*kept).records, 1);
                if slot.record.flags & OPENED != 0 {
                    atomic_add(&raw mut (*kept).opens, 1);
                }
                add_totals(&raw mut (*kept).totals, &raw const slot.record.totals);
            }
        }
    }
}

/// How many hold the open file of `slot.seen`; 1 when it cannot be told.
#[inline(always)]
pub fn holders(slot: &ThreadSlot) -> u64 {
    if offset!(file_count) != ABSENT {
        return probe(slot.seen.file, offset!(file_count)).unwrap_or(1);
    }
    // Since 6.13 a count that begins at 0.
    probe::<u64>(slot.seen.file, offset!(file_ref)).unwrap_or(0).wrapping_add(1)
}
