//! What a trace found, as plain data: no I/O, no clock, no kernel. Every report is a function of a [`Trace`].
//!
//! Times are nanoseconds of CLOCK_MONOTONIC unless a name says otherwise; sizes are bytes.

pub mod container;
pub mod files;
pub mod histogram;
pub mod ledger;
mod process;
pub mod trace;

pub use container::{Container, Runtime};
pub use files::*;
pub use histogram::Histogram;
pub use ledger::*;
pub use trace::*;
