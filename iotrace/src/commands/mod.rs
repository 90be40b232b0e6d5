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
    let text = wrapped(&format!("iotrace: {message}"), "");
    // A closed standard error leaves nobody to tell.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{text}\n"));
}

/// Lines of at most 80 columns, as far as words and what stands between backquotes allow: what is longer goes on in a line
/// that begins with `indent`.
pub fn wrapped(text: &str, indent: &str) -> String {
    /// Stands for a space where a line must not end; of the private use area.
    const FIRM_SPACE: &str = "\u{e000}";
    let options = textwrap::Options::new(80)
        .subsequent_indent(indent)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    let firm = |line: &str| {
        let parts = line.split('`').enumerate();
        let parts =
            parts.map(|(i, part)| if i % 2 == 1 { part.replace(' ', FIRM_SPACE) } else { part.into() });
        parts.collect::<Vec<_>>().join("`")
    };
    let lines: Vec<_> = text.lines().map(|line| textwrap::fill(&firm(line), &options)).collect();
    lines.join("\n").replace(FIRM_SPACE, " ")
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
        // Else a line that cannot be written is told of by one that cannot either, with a panic.
        .log_internal_errors(false)
        .with_timer(tracing_subscriber::fmt::time::uptime())
        .finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn long_lines_go_on_indented_and_commands_stay_whole() {
        let long = format!("a    {} `docker run --pid=host` end", "x".repeat(60));
        let want = format!("a    {}\n  `docker run --pid=host` end", "x".repeat(60));
        assert_eq!(wrapped(&long, "  "), want);
        assert_eq!(wrapped("short\n  -p PID   indented\n", "  "), "short\n  -p PID   indented");
        assert_eq!(wrapped(&"y".repeat(100), ""), "y".repeat(100));
    }
}
