//! Types and bucket math shared by the kernel programs and the program that reads them.
//!
//! Everything here is plain old data with a fixed layout: no `bool`, `usize` or `Option` crosses the boundary.
#![no_std]

pub mod async_io;
pub mod block;
pub mod config;
pub mod event;
pub mod file;
pub mod hist;
pub mod ledger;
pub mod op;
pub mod process;
pub mod tally;
pub mod thread;

/// Marks a type as readable from a map and writable into one, on the user side.
#[cfg(feature = "user")]
macro_rules! pod {
    ($($t:ty),+) => { $(
        // SAFETY: repr(C), explicit padding, every bit pattern valid.
        unsafe impl aya::Pod for $t {}
    )+ };
}
#[cfg(not(feature = "user"))]
macro_rules! pod {
    ($($t:ty),+) => {};
}
pub(crate) use pod;
