//! The command line: clap definitions and nothing else (also read by xtask for man pages and completions).

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report::Format;

/// Says why a job waits for storage: reads, writes and block requests per process, exact and cheap, by eBPF.
#[derive(Debug, Parser)]
#[command(name = "iotrace", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell what can be traced on this machine, how, and what is missing
    Check(CheckArgs),
    /// Trace a command from its first instruction; its exit code becomes iotrace's
    Run(RunArgs),
    /// Trace running processes, all their threads, and every descendant forked later
    Attach(AttachArgs),
}

/// `iotrace check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Do without these ways to attach, as if the kernel did not have them
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "KIND",
        env = "IOTRACE_WITHOUT",
        hide_env = true
    )]
    pub without: Vec<AttachKind>,
    /// Show more (-v: each program's refusal, -vv: kernel-side debug lines)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// `iotrace run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Common options.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `iotrace attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Process to trace, as numbered where iotrace runs; may be repeated
    #[arg(short, long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,
    /// Trace every process of a cgroup (a folder below /sys/fs/cgroup); may be repeated
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<PathBuf>,
    /// Trace every process of the system
    #[arg(short, long, conflicts_with_all = ["pids", "cgroups"])]
    pub all: bool,
    /// Stop after this long (e.g. 30s, 5m, 500ms); without it, Ctrl-C ends the trace
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Common options.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of every tracing command.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Write the report to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not trace processes that targets fork
    #[arg(long)]
    pub no_follow: bool,
    /// Count only I/O on this block device (e.g. nvme0n1, /dev/sda2, 8:16); may be repeated
    #[arg(long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Count only I/O of threads with this command name; may be repeated (8 at most)
    #[arg(long = "comm", value_name = "NAME")]
    pub comms: Vec<OsString>,
    /// Count only these operations
    #[arg(long = "op", value_enum, value_delimiter = ',', value_name = "OP")]
    pub ops: Vec<Op>,
    /// Processes shown in detail in the text report
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub top: usize,
    /// How the cost of the kernel programs is measured: the kernel's own run statistics, which cost time themselves
    #[arg(long, value_enum, default_value = "sampled", value_name = "MODE")]
    pub self_stats: SelfStats,
    /// Do without these ways to attach, as if the kernel did not have them
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "KIND",
        env = "IOTRACE_WITHOUT",
        hide_env = true
    )]
    pub without: Vec<AttachKind>,
    /// No progress line and no remarks on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// Show more (-v: each program's refusal, -vv: kernel-side debug lines)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Operations for `--op`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// Reads of files and block read requests
    Read,
    /// Writes of files and block write requests
    Write,
    /// Block flush requests
    Flush,
    /// Block discard requests
    Discard,
}

/// Ways to attach that `--without` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttachKind {
    /// Trampolines at functions (fentry, fexit)
    Fentry,
    /// Breakpoints at functions
    Kprobe,
}

/// When BPF run statistics are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SelfStats {
    /// 50 ms of every second
    Sampled,
    /// Throughout
    Full,
    /// Never
    Off,
}

/// A positive duration: a number with a unit (ns, us, ms, s, m, h), or plain seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a positive duration such as 30s, 5m or 500ms";
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let value: f64 = number.trim().parse().map_err(|_| expected.to_owned())?;
    let seconds = match unit.trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`: {expected}")),
    };
    let duration = Duration::try_from_secs_f64(value * seconds).map_err(|_| expected.to_owned())?;
    if duration.is_zero() { Err(expected.to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in
            [("30s", 30_000), ("500ms", 500), ("1.5m", 90_000), ("2", 2000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["0", "0s", "-1", "-5s", "1x", "", "s", "nan", "inf", "1e30h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
