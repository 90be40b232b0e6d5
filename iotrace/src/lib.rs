//! The rooms of the program; `main.rs` only parses, runs and turns the outcome into an exit code.

pub mod analysis;
pub mod cli;
pub mod collect;
pub mod commands;
pub mod kernel;
pub mod model;
pub mod preflight;
pub mod probes;
pub mod redact;
pub mod report;
