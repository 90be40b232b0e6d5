//! The command line: one subcommand a kind of truth.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::sys::Form;

/// Does a known amount of I/O and prints, as one JSON line, what it did.
#[derive(Parser)]
#[command(name = "iotrace-workload", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// One kind of planted truth each.
#[derive(Subcommand)]
pub enum Command {
    /// N calls of each form of read and write on a regular file.
    Forms {
        /// Folder for the files.
        #[arg(long)]
        dir: PathBuf,
        /// Calls of each form.
        #[arg(long, default_value_t = 200)]
        calls: u64,
        /// Only this form (repeatable).
        #[arg(long)]
        form: Vec<Form>,
        /// Bytes a call.
        #[arg(long, default_value_t = 4096)]
        size: usize,
    },
    /// The same forms on what is not storage: pipe, socket, character device, procfs.
    Apart {
        /// Calls of each form on each kind.
        #[arg(long, default_value_t = 200)]
        calls: u64,
        /// Also splice from pipe to pipe (not in the tally).
        #[arg(long)]
        splice: bool,
    },
    /// Calls that fail with a known errno, move less than asked for, or meet the end of the file.
    Errors {
        /// Folder for the file.
        #[arg(long)]
        dir: PathBuf,
        /// Calls of each kind.
        #[arg(long, default_value_t = 20)]
        calls: u64,
    },
    /// Sequential O_DIRECT transfers.
    Dio {
        /// File or block device; it must hold count x size bytes.
        #[arg(long)]
        file: PathBuf,
        /// Direction.
        #[arg(long)]
        rw: Direction,
        /// Transfers, over all threads.
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// Bytes a transfer.
        #[arg(long, default_value_t = 65536)]
        size: usize,
        /// Threads that share the transfers, each with one in flight.
        #[arg(long, default_value_t = 1)]
        threads: u64,
    },
    /// Concurrent buffered writers, each to a file of its own.
    Writers {
        /// Folder for the files.
        #[arg(long)]
        dir: PathBuf,
        /// Writers.
        #[arg(long, default_value_t = 32)]
        procs: u64,
        /// MiB a writer.
        #[arg(long, default_value_t = 8)]
        mib: u64,
        /// Bytes a write.
        #[arg(long, default_value_t = 65536)]
        size: usize,
        /// Open with O_DSYNC, so that each write waits for the device, in place of one fsync at the end.
        #[arg(long)]
        dsync: bool,
    },
    /// Cached reads at full rate.
    Readers {
        /// Folder for the files.
        #[arg(long)]
        dir: PathBuf,
        /// Processes, each with a file of its own.
        #[arg(long, default_value_t = 8)]
        procs: u64,
        /// Threads a process.
        #[arg(long, default_value_t = 8)]
        threads: u64,
        /// Seconds.
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
        /// Bytes a read.
        #[arg(long, default_value_t = 4096)]
        size: usize,
    },
    /// Cached reads by one thread that times itself; told by stdin how long.
    Steady {
        /// Folder for the file.
        #[arg(long)]
        dir: PathBuf,
        /// CPU to stay on.
        #[arg(long)]
        cpu: Option<usize>,
        /// Bytes a read.
        #[arg(long, default_value_t = 4096)]
        size: usize,
        /// Reads a second; without it, as many as it can.
        #[arg(long)]
        rate: Option<u64>,
        /// Open the file for each read, and close it.
        #[arg(long)]
        open: bool,
    },
    /// Many cached files that workers open, read whole and close; told by stdin when.
    Cached(crate::cached::Args),
    /// Short-lived children that each read a known number of bytes; every tenth execs a `cat`.
    Spawn {
        /// Children.
        #[arg(long, default_value_t = 5000)]
        count: u64,
        /// Seconds to spread them over.
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
        /// File to read, whole.
        #[arg(long)]
        file: PathBuf,
    },
    /// Forked workers that read whole files as an image loader does, cold.
    SmallFiles {
        /// Folder for the files; created if absent.
        #[arg(long)]
        dir: PathBuf,
        /// Files.
        #[arg(long, default_value_t = 1000)]
        files: u64,
        /// Workers.
        #[arg(long, default_value_t = 4)]
        workers: u64,
        /// Seed of the sizes and of the order.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only create the files.
        #[arg(long)]
        prepare: bool,
    },
    /// A process named `checkpoint` that writes one as a framework does.
    Checkpoint(crate::checkpoint::Args),
    /// A small training job: workers read thousands of small files cold while a checkpoint is written.
    Demo {
        /// Folder for the files; created if absent, kept for the next run.
        dir: PathBuf,
        /// Small files.
        #[arg(long, default_value_t = 4000)]
        files: u64,
        /// Workers.
        #[arg(long, default_value_t = 4)]
        workers: u64,
        /// MiB of the checkpoint.
        #[arg(long, default_value_t = 256)]
        checkpoint_mib: u64,
    },
    /// Waits for a line on stdin (or SIGUSR1), then reads with every thread and child; ends when stdin ends.
    Hold {
        /// Folder for the file.
        #[arg(long)]
        dir: PathBuf,
        /// Reads of each thread and child.
        #[arg(long, default_value_t = 200)]
        calls: u64,
        /// Threads running from the start, besides the main one.
        #[arg(long, default_value_t = 0)]
        threads: u64,
        /// Children forked before the wait.
        #[arg(long, default_value_t = 0)]
        before: u64,
        /// Children forked after the wait; each forks one of its own.
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// A child whose name and file name hold a newline, escapes and invalid UTF-8, and which reads.
    Names {
        /// Folder for the files.
        #[arg(long)]
        dir: PathBuf,
        /// Reads of each child.
        #[arg(long, default_value_t = 10)]
        calls: u64,
    },
    /// Many idle processes; each reads once when stdin ends.
    Crowd {
        /// Folder for the file.
        #[arg(long)]
        dir: PathBuf,
        /// Processes.
        #[arg(long, default_value_t = 10_000)]
        count: u64,
    },
    /// Reads one file to its end, in the process itself.
    Cat {
        /// The file.
        file: PathBuf,
        /// Bytes a read.
        #[arg(long, default_value_t = 65536)]
        size: usize,
        /// Name to take.
        #[arg(long)]
        name: Option<String>,
        /// Print nothing.
        #[arg(long)]
        quiet: bool,
    },
    /// Ends with an exit code, or by a signal.
    Exit {
        /// Exit code.
        #[arg(long, default_value_t = 0)]
        code: i32,
        /// Signal to die of.
        #[arg(long)]
        signal: Option<i32>,
    },
    /// N calls of each form of each call that moves no data, and planted failures.
    Metadata(crate::metadata::Args),
    /// Forked workers that read whole files from class folders as ImageFolder does.
    Loader(crate::loader::Args),
    /// Descriptors duplicated, inherited, passed on, shared by threads, kept or closed by an exec, left open.
    Fds(crate::fds::Args),
    /// Reads from an inherited descriptor and closes it; part of `fds`.
    #[command(hide = true)]
    ReadFd {
        /// The descriptor.
        fd: i32,
        /// Reads.
        #[arg(long)]
        reads: u64,
    },
    /// Sequential, strided, random, repeated and tiny reads, storms of opens and stats, a scan of a large folder.
    Patterns(crate::patterns::Args),
    /// A mapped file, cold, read a byte a page.
    Mapped(crate::mapped::Args),
    /// Mounts a FUSE file system whose reads take a known time, until stdin ends.
    Fuse(crate::fuse::ServeArgs),
    /// Mounts the same in a mount namespace of its own and reads it.
    FuseRead(crate::fuse::ReadArgs),
    /// Reads and writes through an overlay file system.
    Overlay(crate::overlay::Args),
    /// Transfers by io_uring.
    Uring(crate::queued::Args),
    /// Transfers by the kernel's AIO (io_submit).
    Aio(crate::queued::Args),
    /// Children that each wait for one thing only, or use the CPU.
    Waits(crate::waits::Args),
    /// Runs another subcommand in a cgroup and in pid and mount namespaces of its own.
    Contained(crate::contained::Args),
    /// Runs a command as pid 1 of a new pid namespace with a procfs of its own.
    Container {
        /// Command.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Runs a command in the pid and mount namespaces of a process.
    Enter {
        /// A process inside.
        #[arg(long)]
        pid: i32,
        /// Command.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}
