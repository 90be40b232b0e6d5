//! Where the report goes: found out, and opened, before the trace begins.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Write},
    path::PathBuf,
};

use crate::{
    cli::CommonArgs,
    model::Trace,
    report::{self, Format, Style},
};

/// Columns of a report that goes to no terminal.
const PIPE_COLUMNS: usize = 80;

/// An opened destination.
pub struct Output {
    file: Option<(PathBuf, File)>,
    format: Format,
    style: Style,
}

/// The destination cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--output {path}: {error}")]
pub struct OutputError {
    path: String,
    error: io::Error,
}

impl Output {
    /// Opens the destination.
    pub fn open(args: &CommonArgs) -> Result<Self, OutputError> {
        let file = match &args.output {
            Some(path) => {
                let file = File::create(path)
                    .map_err(|error| OutputError { path: path.display().to_string(), error })?;
                Some((path.clone(), file))
            }
            None => None,
        };
        let terminal = file.is_none() && io::stdout().is_terminal();
        let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let style = Style {
            width_columns: if terminal {
                terminal_columns().or(columns).unwrap_or(PIPE_COLUMNS)
            } else {
                columns.unwrap_or(PIPE_COLUMNS)
            },
            colour: terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            top: args.top,
            verbose: args.verbose > 0,
        };
        Ok(Self { file, format: args.format, style })
    }

    /// Writes the report. A reader that went away is no error; a full disk is, and the report then goes to standard
    /// output, so that the trace is not lost.
    pub fn write(self, trace: &Trace) -> io::Result<()> {
        if let Some((path, mut file)) = self.file {
            match report::write(trace, self.format, &self.style, &mut file) {
                Ok(()) => return Ok(()),
                Err(error) => super::complain(&format!(
                    "{}: {error}; the report goes to standard output instead",
                    path.display()
                )),
            }
        }
        let result = report::write(trace, self.format, &self.style, &mut io::stdout().lock())
            .and_then(|()| io::stdout().flush());
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Width of the terminal on standard output.
fn terminal_columns() -> Option<usize> {
    // SAFETY: plain old data that the call fills.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        if libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) != 0 {
            return None;
        }
        size
    };
    (size.ws_col > 0).then_some(size.ws_col.into())
}
