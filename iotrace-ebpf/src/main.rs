//! Kernel programs of iotrace. One file a subsystem; handlers are written once, with a thin twin per attach type.
//!
//! Rules: leave first when it is not a target; aggregate here; every failure path adds to a loss counter.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unstable_features, reason = "BPF inline assembly")]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "map values are handed over where they lie: a copy would go over the stack, byte by byte"
)]

mod account;
mod async_io;
mod block;
mod calls;
mod fault;
mod file;
mod iter;
mod ledger;
mod log;
mod maps;
mod mem;
mod meta;
mod names;
mod process;
mod rw;
mod session;
mod target;

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// `bpf_probe_read_kernel` and friends are for GPL-compatible programs.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 4] = *b"GPL\0";
