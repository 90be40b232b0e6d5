//! Where the report goes: found out, and opened, before the trace begins.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    cli::CommonArgs,
    model::Trace,
    redact::{Redactor, redacted},
    report::{self, Format, Style},
};

/// Columns of a report that goes to no terminal.
const PIPE_COLUMNS: usize = 80;

/// An opened destination.
pub struct Output {
    file: Option<ReportFile>,
    format: Format,
    style: Style,
    redactor: Option<Redactor>,
}

/// The destination cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A file that cannot be opened.
    #[error("--output {path}: {error}")]
    File {
        /// As given.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel gave no random key.
    #[error("--redact: no random key: getrandom: {0}; give `--redact-key KEY`")]
    Key(io::Error),
    /// Standard output was closed before iotrace began.
    #[error("{CLOSED}: there is no place for the report; give `-o FILE`")]
    Closed,
    /// Standard output takes no more.
    #[error("the report could not be written: standard output: {0}; `-o FILE` writes it to a file")]
    Standard(io::Error),
}

impl Output {
    /// Opens the destination. What a file holds stays until the report is there to take its place.
    pub fn open(args: &CommonArgs) -> Result<Self, OutputError> {
        let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
        let file = path
            .map(ReportFile::open)
            .transpose()
            .map_err(|(path, error)| OutputError::File { path: path.display().to_string(), error })?;
        if file.is_none() && stdout_closed() {
            return Err(OutputError::Closed);
        }
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
        Ok(Self { file, format: args.format, style, redactor: redactor(args)? })
    }

    /// Writes the report. A reader that went away is no error; a full disk is, and the report then goes to standard
    /// output, so that the trace is not lost.
    pub fn write(self, trace: Trace) -> Result<(), OutputError> {
        let trace = &match &self.redactor {
            Some(redactor) => redacted(trace, redactor),
            None => trace,
        };
        if let Some(mut file) = self.file {
            match file.replace(|out| report::write(trace, self.format, &self.style, out)) {
                Ok(()) => return Ok(()),
                Err(error) => super::complain(&format!(
                    "{}: {error}; the report goes to standard output instead",
                    file.path.display()
                )),
            }
            if stdout_closed() {
                return Err(OutputError::Closed);
            }
        }
        to_stdout(|out| report::write(trace, self.format, &self.style, out)).map_err(OutputError::Standard)
    }
}

/// What redacts the report, if it is to be: by the key that was given, or by one for this report.
fn redactor(args: &CommonArgs) -> Result<Option<Redactor>, OutputError> {
    if !args.redact {
        return Ok(None);
    }
    if let Some(key) = &args.redact_key {
        return Ok(Some(Redactor::with_key(key)));
    }
    let mut bytes = [0u8; 32];
    // SAFETY: the call writes at most as many bytes as the array has.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(OutputError::Key(io::Error::last_os_error()));
    }
    Ok(Some(Redactor::random(bytes)))
}

/// A file that keeps what it holds until the report is written; one made for a report that never comes is removed.
struct ReportFile {
    path: PathBuf,
    file: File,
    /// Made by iotrace, and nothing written yet.
    new: bool,
}

impl ReportFile {
    fn open(path: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let mut options = OpenOptions::new();
        options.write(true);
        let (file, new) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // With O_CREAT for a symbolic link that leads nowhere yet.
                (options.create(true).open(path), false)
            }
            result => (result, true),
        };
        let file = file.map_err(|error| (path.to_owned(), error))?;
        Ok(Self { path: path.to_owned(), file, new })
    }

    fn replace(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.new = false;
        // A pipe or a device cannot be cut.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        write(&mut self.file)
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.new {
            // An empty file left behind is no reason for another error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes to standard output. A reader that went away is no error.
pub fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Standard output was closed when the program started. Rust's runtime opens /dev/null in its place before `main`.
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_at_stdout() {
    // SAFETY: a plain call that changes nothing.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    STDOUT_CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the C library calls the functions of this section before Rust's runtime starts; this one only makes a system
// call and stores to an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

/// What to say then.
pub const CLOSED: &str = "standard output is closed";

/// Standard output was closed from the beginning.
pub fn stdout_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
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
