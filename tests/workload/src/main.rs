//! A workload whose truth is known: each subcommand does a planned amount of I/O and prints one JSON line that says
//! what it did, by process, in the words of iotrace's own report. Live tests compare the two.
//!
//! The counts are those of the system calls as they returned; sizes are bytes, times nanoseconds. Work that must be
//! counted exactly is done in forked children, which hand their tally to the parent through shared memory: they make
//! no read or write but those they tell of. Link it statically (`-C target-feature=+crt-static`), so that an exec
//! reads no shared library either.

mod apart;
mod cached;
mod cat;
mod checkpoint;
mod child;
mod cli;
mod contained;
mod counted;
mod crowd;
mod demo;
mod dio;
mod dispatch;
mod errors;
mod fds;
mod forms;
mod fuse;
mod gate;
mod hold;
mod loader;
mod mapped;
mod metadata;
mod mounts;
mod names;
mod namespace;
mod overlay;
mod patterns;
mod queued;
mod readers;
mod rng;
mod scratch;
mod shared;
mod small_files;
mod spawn;
mod stage;
mod steady;
mod sys;
mod tally;
mod truth;
mod waits;
mod writers;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match dispatch::run(cli::Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iotrace-workload: {error:#}");
            ExitCode::FAILURE
        }
    }
}
