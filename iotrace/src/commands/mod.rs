//! One file a subcommand, and what they share: exit codes, output, signals, the loop of a trace.

pub mod attach;
pub mod check;
pub mod held;
pub mod output;
pub mod run;
pub mod signals;
pub mod trace;

use std::process::ExitCode;

/// How iotrace ends. Documented in README.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Success,
    /// iotrace could not do what was asked.
    Failure,
    /// The command line makes no sense.
    Usage,
    /// Under `run`, iotrace itself failed (as env, nohup and timeout have it).
    RunFailure,
    /// Under `run`, the command's own code, 126 or 127, or 128 + signal.
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::RunFailure => 125,
            Exit::Command(code) => code,
        })
    }
}

/// Says on standard error what failed, why, and what to do.
pub fn complain(message: &dyn std::fmt::Display) {
    // A closed standard error leaves nobody to tell.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("iotrace: {message}\n"));
}

/// Debug lines on standard error, as many as -v asks for.
pub fn log_as_asked(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_timer(tracing_subscriber::fmt::time::uptime())
        .finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
}
