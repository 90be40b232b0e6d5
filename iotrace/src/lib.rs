//! The rooms of the program; `main.rs` only parses, runs and turns the outcome into an exit code.

pub mod kernel;
pub mod model;
