//! From the command line to the work.

use anyhow::Result;

use crate::cli::Command;
use crate::queued::Interface;

/// Does what `command` says and prints its truth.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Forms { dir, calls, form, size } => crate::forms::run(&dir, calls, &form, size),
        Command::Apart { calls, splice } => crate::apart::run(calls, splice),
        Command::Errors { dir, calls } => crate::errors::run(&dir, calls),
        Command::Dio { file, rw, count, size, threads } => crate::dio::run(&file, rw, count, size, threads),
        Command::Writers { dir, procs, mib, size, dsync } => {
            crate::writers::run(&dir, procs, mib, size, dsync)
        }
        Command::Readers { dir, procs, threads, seconds, size } => {
            crate::readers::run(&dir, procs, threads, seconds, size)
        }
        Command::Steady { dir, cpu, size, rate, open } => crate::steady::run(&dir, cpu, size, rate, open),
        Command::Cached(args) => crate::cached::run(&args),
        Command::Spawn { count, seconds, file } => crate::spawn::run(count, seconds, &file),
        Command::SmallFiles { dir, files, workers, seed, prepare } => {
            crate::small_files::run(&dir, &crate::small_files::Plan { files, workers, seed }, prepare)
        }
        Command::Checkpoint(args) => crate::checkpoint::run(&args),
        Command::Demo { dir, files, workers, checkpoint_mib } => {
            crate::demo::run(&dir, files, workers, checkpoint_mib)
        }
        Command::Hold { dir, calls, threads, before, after } => {
            crate::hold::run(&crate::hold::Plan { dir, calls, threads, before, after })
        }
        Command::Names { dir, calls } => crate::names::run(&dir, calls),
        Command::Crowd { dir, count } => crate::crowd::run(&dir, count),
        Command::Cat { file, size, name, quiet } => crate::cat::run(&file, size, name.as_deref(), quiet),
        Command::Exit { code, signal } => crate::cat::exit(code, signal),
        Command::Metadata(args) => crate::metadata::run(&args),
        Command::Loader(args) => crate::loader::run(&args),
        Command::Fds(args) => crate::fds::run(&args),
        Command::ReadFd { fd, reads } => crate::fds::read_inherited(fd, reads),
        Command::Patterns(args) => crate::patterns::run(&args),
        Command::Mapped(args) => crate::mapped::run(&args),
        Command::Fuse(args) => crate::fuse::serve(&args),
        Command::FuseRead(args) => crate::fuse::read(&args),
        Command::Overlay(args) => crate::overlay::run(&args),
        Command::Uring(args) => crate::queued::run(Interface::Uring, &args),
        Command::Aio(args) => crate::queued::run(Interface::Aio, &args),
        Command::Waits(args) => crate::waits::run(&args),
        Command::Contained(args) => crate::contained::run(&args),
        Command::Container { command } => crate::namespace::container(&command),
        Command::Enter { pid, command } => crate::namespace::enter(pid, &command),
    }
}
