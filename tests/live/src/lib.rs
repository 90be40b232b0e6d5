//! Helpers of the live tests: start iotrace beside a workload whose truth is known, read both, compare.
//!
//! A test begins with [`live!`], which gives a [`Live`] or prints `SKIP <test>: <reason>` and gives nothing. Programs
//! come by environment: `IOTRACE_BIN`, `IOTRACE_WORKLOAD`, a folder on a real file system by `IOTRACE_SCRATCH`;
//! `IOTRACE_VM=<kernel>` says that the tests run in a virtual machine of the matrix, slow and theirs alone.
//! Times are nanoseconds, sizes bytes.

mod attach;
pub mod bpf;
mod compare;
mod conserve;
pub mod device;
pub mod ledger;
pub mod module;
mod outcome;
mod report;
mod run;
mod session;

pub use attach::{Attach, Hold};
pub use compare::{assert_matches, assert_op_matches};
pub use conserve::{assert_conserved, assert_in_sessions};
pub use outcome::Outcome;
pub use report::{Process, Report, num, num_or_zero, text};
pub use run::{Run, kill};
pub use session::{Live, Need, skip};

/// Begins a live test: `let Some(live) = live!(needs...) else { return };`. Tracing is needed unless
/// [`Need::NoTracing`] is given.
#[macro_export]
macro_rules! live {
    ($($need:expr),* $(,)?) => {{
        fn here() {}
        $crate::Live::begin(std::any::type_name_of_val(&here), &[$($need),*])
    }};
}
