//! From the running kernel to a [`crate::model::Trace`]: load, drain, add up.

pub mod backlog;
pub mod clock;
pub mod containers;
pub mod cost;
pub mod descriptors;
pub mod error;
pub mod events;
pub mod file_filter;
pub mod file_places;
pub mod files;
pub mod kernel_log;
pub mod ledger;
pub mod leftovers;
pub mod loader;
pub mod maps;
pub mod mounts;
pub mod pids;
pub mod processes;
pub mod procfs;
pub mod selection;
pub mod session;
pub mod totals;
