//! The command line: clap definitions and nothing else (also read by xtask for man pages and completions).

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

use crate::report::Format;

/// Says why a job waits for storage: reads, writes and block requests per process, exact and cheap, by eBPF.
#[derive(Debug, Parser)]
#[command(name = "iotrace", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Drops what a list names again.
    #[must_use]
    pub fn without_repeats(mut self) -> Self {
        let common = match &mut self.command {
            Command::Check(_) => return self,
            Command::Run(args) => &mut args.common,
            Command::Attach(args) => {
                drop_repeats(&mut args.pids);
                drop_repeats(&mut args.cgroups);
                drop_repeats(&mut args.containers);
                &mut args.common
            }
        };
        drop_repeats(&mut common.devices);
        drop_repeats(&mut common.comms);
        drop_repeats(&mut common.ops);
        drop_repeats(&mut common.fs_types);
        drop_repeats(&mut common.paths);
        self
    }
}

fn drop_repeats<T: PartialEq>(list: &mut Vec<T>) {
    let mut kept = Vec::with_capacity(list.len());
    for item in list.drain(..) {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    *list = kept;
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
    /// Show more (-v: each program's refusal, -vv: the verifier's words too)
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
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `iotrace attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Process to trace, as numbered where iotrace runs; may be repeated
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// Trace every process of a cgroup (a folder below /sys/fs/cgroup); may be repeated
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<PathBuf>,
    /// Trace every process of a container, also those that enter it later: its id or name, or the beginning of one, or a
    /// Kubernetes pod's uid or name; may be repeated
    #[arg(long = "container", value_name = "ID|NAME")]
    pub containers: Vec<String>,
    /// Trace every process of the system
    #[arg(short, long, conflicts_with_all = ["pids", "cgroups", "containers"])]
    pub all: bool,
    /// Stop after this long (e.g. 30s, 500ms, 1h30m); without it, Ctrl-C ends the trace
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
    /// Write the report to a file instead of standard output (`-`: standard output)
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
    /// Count only I/O on files of file systems of this type (e.g. nfs4, ext4, fuse.s3fs; `fuse` is every FUSE file system);
    /// may be repeated
    #[arg(long = "fstype", value_delimiter = ',', value_name = "TYPE", value_parser = NonEmptyStringValueParser::new())]
    pub fs_types: Vec<String>,
    /// Count only I/O on this file, or on files below this folder, as the traced process names them; may be repeated
    #[arg(long = "path", value_name = "PREFIX")]
    pub paths: Vec<PathBuf>,
    /// Give processes whose command name or an argument is PATTERN (`*`: anything) this role in the ledger of waits: main,
    /// loader, checkpoint, other, or a name of your own; may be repeated, the first that matches counts
    #[arg(long = "role", value_name = "NAME=PATTERN", value_parser = parse_role)]
    pub roles: Vec<(String, String)>,
    /// Trace block requests alone: nothing is attached to system calls, and reads and writes are not counted
    #[arg(long)]
    pub block_only: bool,
    /// Replace the names of files and folders in the report by keyed hashes; extensions are kept. Of command lines,
    /// arguments that contain a slash are redacted; others, command names and host names are not
    #[arg(long)]
    pub redact: bool,
    /// Key of the hashes: reports with the same key have the same hashes; without it, each report has its own
    #[arg(long, value_name = "KEY", requires = "redact", value_parser = NonEmptyStringValueParser::new())]
    pub redact_key: Option<String>,
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
    /// Bytes of the ring buffer: a power of two, of whole pages
    #[arg(
        long,
        value_name = "BYTES",
        hide = true,
        env = "IOTRACE_RING_BYTES",
        hide_env = true,
        value_parser = ring_bytes
    )]
    pub ring_bytes: Option<u32>,
    /// Threads that can have a ledger at a time
    #[arg(long, hide = true, env = "IOTRACE_LEDGERS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub ledgers: Option<u32>,
    /// No progress line and no remarks on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// Show more (-v: each program's refusal, -vv: the verifier's words and what the kernel programs have to say, too)
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
    /// Tracepoints as perf events
    Tracepoint,
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

fn parse_role(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, pattern)) if !name.is_empty() && !pattern.is_empty() => {
            Ok((name.to_owned(), pattern.to_owned()))
        }
        _ => Err("expected NAME=PATTERN, such as loader=pt_data_worker*".to_owned()),
    }
}

fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes: u32 = text.parse().map_err(|_| "expected a number of bytes".to_owned())?;
    // The kernel's own words for anything else are "Invalid argument".
    if bytes.is_power_of_two() && bytes >= 4096 {
        Ok(bytes)
    } else {
        Err("expected a power of two from 4096 on".into())
    }
}

/// A positive duration: numbers with units (ns, us, ms, s, m, h) that add up, or plain seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a positive duration such as 30s, 500ms or 1h30m";
    let mut seconds = 0.0;
    let mut rest = text.trim();
    loop {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let value: f64 = number.parse().map_err(|_| expected.to_owned())?;
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        seconds += value
            * match unit {
                "ns" => 1e-9,
                "us" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "" if number == text.trim() => 1.0,
                "" => return Err(expected.to_owned()),
                _ => return Err(format!("unknown unit `{unit}`: {expected}")),
            };
        rest = after.trim_start();
        if rest.is_empty() {
            break;
        }
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| expected.to_owned())?;
    if duration.is_zero() { Err(expected.to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("30s", 30_000),
            ("500ms", 500),
            ("1.5m", 90_000),
            ("2", 2000),
            ("0.5", 500),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1m 30s", 90_000),
            ("1 m 500 ms", 60_500),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["0", "0s", "-1", "-5s", "1x", "", "s", "nan", "inf", "1e30h", "1m30", "1 2", "1m-5s", "."]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    fn parsed(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line).map(Cli::without_repeats)
    }

    #[test]
    fn what_is_named_twice_counts_once() {
        let cli = parsed(&["iotrace", "attach", "-p", "1,2", "-p", "2", "--op", "read,read"]).unwrap();
        let Command::Attach(args) = cli.command else { unreachable!() };
        assert_eq!((args.pids, args.common.ops), (vec![1, 2], vec![Op::Read]));
    }

    #[test]
    fn options_of_the_command_begin_after_its_name() {
        for line in [&["-d", "5", "--", "sleep", "1"][..], &["--fromat", "json", "--", "ls"], &["-l"]] {
            assert!(parsed(&[&["iotrace", "run"], line].concat()).is_err(), "{line:?}");
        }
        for (line, command) in [
            (&["ls", "-l", "--format", "x"][..], &["ls", "-l", "--format", "x"][..]),
            (&["--", "-weird", "--", "-q"], &["-weird", "--", "-q"]),
            (&["-q", "--", "ls", "-d"], &["ls", "-d"]),
        ] {
            let Command::Run(args) = parsed(&[&["iotrace", "run"], line].concat()).unwrap().command else {
                unreachable!()
            };
            assert_eq!(args.command, command, "{line:?}");
        }
    }

    #[test]
    fn files_are_chosen_by_type_and_path() {
        let line = [
            "iotrace",
            "run",
            "--fstype",
            "nfs4,ext4",
            "--fstype",
            "ext4",
            "--path",
            "/a,b",
            "--path",
            "c",
            "x",
        ];
        let Command::Run(args) = parsed(&line).unwrap().command else { unreachable!() };
        assert_eq!(args.common.fs_types, ["nfs4", "ext4"]);
        assert_eq!(args.common.paths, [PathBuf::from("/a,b"), PathBuf::from("c")]);
        for empty in [["--fstype", ""], ["--path", ""]] {
            assert!(parsed(&["iotrace", "run", empty[0], empty[1], "x"]).is_err(), "{empty:?}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
