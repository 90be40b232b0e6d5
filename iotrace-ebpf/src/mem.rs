//! Reading kernel memory and adding to shared counters.
//!
//! Two ways to read a field: a direct load, for pointers the verifier knows the type of (4 ns measured), and
//! `bpf_probe_read_kernel` for plain addresses (about 50 ns). Offsets come from [`OFFSETS`], frozen before load, so the
//! verifier sees constants.

use core::{arch::asm, ffi::c_void};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use iotrace_common::{
    config::{Config, Offsets},
    hist::{BUCKETS, bucket_of},
};

/// Set by the loader from the running kernel's BTF.
#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets::ABSENT;

/// Set by the loader from the command line.
#[unsafe(no_mangle)]
pub static CONFIG: Config = Config::OFF;

/// Reads a frozen global. Volatile, because the loader replaces what the compiler sees.
#[inline(always)]
pub fn constant<T: Copy>(global: *const T) -> T {
    // SAFETY: callers pass fields of this file's statics.
    unsafe { core::ptr::read_volatile(global) }
}

/// An offset of [`OFFSETS`].
macro_rules! offset {
    ($field:ident) => {
        $crate::mem::constant(&raw const $crate::mem::OFFSETS.$field)
    };
}

/// A choice of [`CONFIG`].
macro_rules! config {
    ($field:ident) => {
        $crate::mem::constant(&raw const $crate::mem::CONFIG.$field)
    };
}

pub(crate) use {config, offset};

/// Loads a field through a pointer the verifier has typed. `T` is an integer of the field's size.
#[inline(always)]
pub fn load<T: Copy>(base: u64, offset: u32) -> T {
    // SAFETY: the verifier checks the access against the type's BTF; a fault reads as 0.
    unsafe { core::ptr::read_volatile((base as *const u8).add(offset as usize).cast::<T>()) }
}

/// Reads from a plain kernel address.
#[inline(always)]
pub fn probe<T: Copy + Default>(base: u64, offset: u32) -> Option<T> {
    let mut value = T::default();
    // SAFETY: the helper checks the source; the destination is ours and of the given size.
    let error = unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast::<c_void>(),
            size_of::<T>() as u32,
            (base + offset as u64) as *const c_void,
        )
    };
    if error == 0 { Some(value) } else { None }
}

/// Reads a field either way: directly when `typed`, else by helper; 0 when unreadable.
#[inline(always)]
pub fn field<const TYPED: bool, T: Copy + Default>(base: u64, offset: u32) -> T {
    if TYPED { load(base, offset) } else { probe(base, offset).unwrap_or_default() }
}

/// Sets a value of whole words to zero. Volatile, or the compiler makes it a memset, which BPF does byte by byte.
#[inline(always)]
pub fn zero<T>(value: *mut T) {
    for word in 0..size_of::<T>() / 8 {
        // SAFETY: callers own the value; within it.
        unsafe { core::ptr::write_volatile(value.cast::<u64>().add(word), 0) };
    }
}

/// Adds to a counter that other CPUs add to as well. (`AtomicU64::fetch_add` does not compile for BPF.)
#[inline(always)]
pub fn atomic_add(counter: *mut u64, value: u64) {
    // SAFETY: `counter` points into a map value; the verifier checks it.
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) counter, in(reg) value) }
}

/// `index`, which is below `LIMIT`, in a way every verifier can follow. The compiler proves some bounds by itself and drops the
/// check, or compares a 32-bit copy, which 5.10 does not carry over to the register used; and where 5.10 knows a range that
/// a comparison contradicts, it goes on with nonsense instead of seeing that the branch is dead. So bits are cut off first,
/// where the compiler cannot see it.
#[inline(always)]
pub fn bounded<const LIMIT: u64>(mut index: u64) -> usize {
    // SAFETY: changes a register.
    unsafe { asm!("{0} &= {1}", inout(reg) index, const LIMIT.next_power_of_two() - 1) };
    if LIMIT.is_power_of_two() || index < LIMIT { index as usize } else { 0 }
}

/// The bucket of a value, as an index the verifier accepts.
#[inline(always)]
pub fn bounded_bucket(value: u64) -> usize {
    bounded::<{ BUCKETS as u64 }>(bucket_of(value) as u64)
}

/// Raises a shared maximum. Without compare-and-swap (5.12) a racing store can put a smaller value back, so look again.
#[inline(always)]
pub fn shared_max(place: *mut u64, value: u64) {
    for _ in 0..3 {
        // SAFETY: `place` points into a map value.
        unsafe {
            if core::ptr::read_volatile(place) >= value {
                return;
            }
            core::ptr::write_volatile(place, value);
        }
    }
}

/// Defines a function that the verifier checks once, by itself, whoever calls it and however often: it may know nothing of
/// its arguments, so it is given plain numbers alone, and finds the slot anew. Static functions are checked again at each
/// call, with all that is known there, which of these programs would make millions of instructions.
macro_rules! checked_apart {
    ($(#[$meta:meta])* $vis:vis fn $name:ident as $symbol:literal ($slot:ident $(, $arg:ident: $kind:ty)*) $body:block) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name(slot: &mut iotrace_common::thread::ThreadSlot $(, $arg: $kind)*) {
            #[unsafe(export_name = $symbol)]
            #[inline(never)]
            extern "C" fn apart(index: u32 $(, $arg: $kind)*) -> u32 {
                if let Some(slot) = $crate::target::slot_at(index) {
                    work(slot $(, $arg)*);
                }
                0
            }

            #[inline(always)]
            fn work($slot: &mut iotrace_common::thread::ThreadSlot $(, $arg: $kind)*) $body

            apart(slot.index $(, $arg)*);
        }
    };
}
pub(crate) use checked_apart;
