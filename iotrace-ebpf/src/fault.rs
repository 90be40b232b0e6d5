//! Page faults on mapped files, and what calls and faults bring into the page cache.
//!
//! Hooks: filemap_fault by fentry/fexit or kprobe/kretprobe; else the tracepoint mm_filemap_fault (6.12), which has no end: a
//! fault then lasts until its thread's next fault or call, and its latency is the time it was off the CPU.
//! mm_filemap_add_to_page_cache. Times are ns, sizes bytes.

use aya_ebpf::{
    macros::{btf_tracepoint, fentry, fexit, kprobe, kretprobe},
    programs::{BtfTracePointContext, FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use iotrace_common::{
    config::ABSENT,
    op::{Form, OP_MMAP_FAULT},
    thread::{Kind, NO_WAY, Seen, ThreadSlot},
};

use crate::{
    calls::now,
    maps::{DEVICE_FILTER, tally},
    mem::{checked_apart, config, load, offset, probe},
    meta::count,
    session::{place, way_of},
    target::{counting, current_slot, slot_of_call},
};

const PAGE_BYTES: u64 = 4096;

#[fentry]
fn fault_enter(ctx: FEntryContext) -> i32 {
    enter(ctx.arg::<u64>(0));
    0
}

#[fexit]
fn fault_exit(_ctx: FExitContext) -> i32 {
    exit();
    0
}

#[kprobe]
fn fault_enter_kprobe(ctx: ProbeContext) -> u32 {
    enter(ctx.arg::<u64>(0).unwrap_or(0));
    0
}

#[kretprobe]
fn fault_exit_kprobe(_ctx: RetProbeContext) -> u32 {
    exit();
    0
}

/// (mapping, index): no open file, so the session is that of the inode.
#[btf_tracepoint(function = "mm_filemap_fault")]
fn mm_filemap_fault(ctx: BtfTracePointContext) -> i32 {
    let inode: u64 = probe(ctx.arg::<u64>(0), offset!(mapping_host)).unwrap_or(0);
    // The inode stands for the open file: no two are at one address.
    begin(inode, inode);
    0
}

/// `filemap_fault(struct vm_fault *)`.
#[inline(always)]
fn enter(vmf: u64) {
    let vma: u64 = probe(vmf, offset!(fault_vma)).unwrap_or(0);
    let file: u64 = probe(vma, offset!(vma_file)).unwrap_or(0);
    let inode: u64 = probe(file, offset!(file_inode)).unwrap_or(0);
    begin(file, inode);
}

#[inline(always)]
fn begin(file: u64, inode: u64) {
    let Some(slot) = current_slot() else { return };
    finish(slot);
    // Within a call the fault is the call's: a write from mapped memory, say.
    if slot.form != 0 || !counting() || config!(op_mask) & (1 << OP_MMAP_FAULT) == 0 {
        return;
    }
    let Some(ino) = probe(inode, offset!(inode_ino)) else {
        tally!(lost_reads);
        return;
    };
    slot.seen = Seen { file, inode, ino, position: 0 };
    let way = way_of(slot, NO_WAY);
    let known = place(slot, way);
    if known.kind != Kind::Regular as u32 {
        return;
    }
    if config!(device_filter) == 1
        // SAFETY: preallocated map; only its presence matters.
        && unsafe { DEVICE_FILTER.get(known.dev) }.is_none()
    {
        return;
    }
    slot.ways[0] = way;
    slot.wait_ns = 0;
    slot.off_ns = 0;
    slot.cached_bytes = 0;
    slot.form = Form::Fault as u32;
    slot.enter_ns = now();
}

#[inline(always)]
fn exit() {
    if let Some(slot) = slot_of_call()
        && slot.form == Form::Fault as u32
    {
        end(slot, 0);
    }
}

/// Ends the fault whose end no hook tells.
#[inline(always)]
pub fn finish(slot: &mut ThreadSlot) {
    if slot.form == Form::Fault as u32 {
        end(slot, 1);
    }
}

checked_apart! {
    /// Ends a fault; `unseen` when no hook told that it ended.
    fn end as "iotrace_end" (slot, unseen: u32) {
        let wait_ns = slot.wait_ns;
        let latency_ns = if unseen != 0 { wait_ns } else { now() - slot.enter_ns };
        slot.form = 0;
        count(slot, OP_MMAP_FAULT, 0, latency_ns, wait_ns, false);
        let (way, end_ns, cached_bytes) = (slot.ways[0], slot.enter_ns + latency_ns, slot.cached_bytes);
        if way != NO_WAY {
            let file = place(slot, way);
            file.dirty = 1;
            file.last_ns = end_ns;
            file.totals.faults += 1;
            file.totals.fault_wait_ns += wait_ns;
            file.totals.cached_bytes += cached_bytes;
        }
    }
}

/// A page, or since 5.16 a folio, enters the page cache on behalf of whoever runs.
#[btf_tracepoint(function = "mm_filemap_add_to_page_cache")]
fn mm_filemap_add_to_page_cache(ctx: BtfTracePointContext) -> i32 {
    if let Some(slot) = slot_of_call()
        && slot.form != 0
    {
        slot.cached_bytes += folio_bytes(ctx.arg::<u64>(0));
    }
    0
}

#[inline(always)]
fn folio_bytes(folio: u64) -> u64 {
    let order = offset!(folio_order);
    if order == ABSENT {
        return PAGE_BYTES;
    }
    let flags: u64 = load(folio, offset!(page_flags));
    if flags & (1 << config!(page_head_bit)) == 0 {
        return PAGE_BYTES;
    }
    let order: u8 = load(folio, order);
    PAGE_BYTES << (order & 31)
}
