//! Attach plans as data: for each metric its variants, best first. The first whose programs all load and attach wins;
//! why the others did not is kept for the report.

pub mod attach;
pub mod kernel;
pub mod plan;
pub mod tracefs;
