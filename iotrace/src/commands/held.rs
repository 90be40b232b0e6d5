//! A command held before its first instruction: forked, waiting for a word, then executed under the same pid.

use std::{
    env,
    ffi::{CStr, CString, OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::unix::{ffi::OsStrExt as _, net::UnixStream},
    path::{Path, PathBuf},
    ptr,
};

use super::signals::Blocked;

/// Runs files that are no programs and name no interpreter.
const SHELL: &CStr = c"/bin/sh";

/// A forked child that has not executed the command yet.
pub struct Held {
    /// Its pid.
    pub pid: u32,
    gate: UnixStream,
}

/// Why a command cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Not found.
    #[error("{0}: command not found (looked in PATH)")]
    NotFound(String),
    /// Not a file.
    #[error("{0}: no such file")]
    NoSuchFile(String),
    /// Not executable.
    #[error("{0}: {1}")]
    NotExecutable(String, &'static str),
    /// The file is there, but not what its first line asks for.
    #[error("{command}: its interpreter {interpreter} is not there")]
    NoInterpreter {
        /// As given.
        command: String,
        /// Named after `#!`, or the dynamic loader.
        interpreter: String,
    },
    /// execve failed.
    #[error("{0}: {1}")]
    Exec(String, io::Error),
    /// A NUL byte in an argument.
    #[error("an argument holds a NUL byte")]
    Nul,
    /// fork or socketpair failed.
    #[error("starting the command failed: {0}")]
    Fork(#[from] io::Error),
}

impl CommandError {
    /// As a shell has it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) | Self::NoSuchFile(_) | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable(..) | Self::Exec(..) | Self::Nul => 126,
            Self::Fork(_) => 125,
        }
    }
}

/// Finds the command as execvp(3) would, before anything is traced.
pub fn find(command: &OsStr) -> Result<PathBuf, CommandError> {
    if command.is_empty() {
        return Err(CommandError::NotFound("\"\"".into()));
    }
    let shown = || command.to_string_lossy().into_owned();
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match refusal(&path) {
            None => Ok(path),
            Some(None) => Err(CommandError::NoSuchFile(shown())),
            Some(Some(reason)) => Err(CommandError::NotExecutable(shown(), reason)),
        };
    }
    let mut not_executable = None;
    for folder in env::split_paths(&env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into())) {
        let path = folder.join(command);
        match refusal(&path) {
            None => return Ok(path),
            Some(None) => {}
            Some(Some(reason)) => {
                not_executable = Some(CommandError::NotExecutable(path.display().to_string(), reason))
            }
        }
    }
    Err(not_executable.unwrap_or_else(|| CommandError::NotFound(shown())))
}

/// `None`: can be executed; `Some(None)`: does not exist.
fn refusal(path: &Path) -> Option<Option<&'static str>> {
    let Ok(meta) = path.metadata() else { return Some(None) };
    if meta.is_dir() {
        return Some(Some("is a folder"));
    }
    let Ok(c_path) = CString::new(path.as_os_str().as_bytes()) else { return Some(None) };
    // SAFETY: a NUL-ended path.
    let allowed = unsafe { libc::access(c_path.as_ptr(), libc::X_OK) } == 0;
    (!allowed).then_some(Some("permission denied: not executable"))
}

/// Forks the child. To be called while there is one thread only.
pub fn hold(path: &Path, command: &[OsString], blocked: Blocked) -> Result<Held, CommandError> {
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|_| CommandError::Nul);
    let path = c_string(path.as_os_str().as_bytes())?;
    let arguments = command.iter().map(|a| c_string(a.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr()).chain([ptr::null()]).collect();
    // As execvp does it with a file that names no interpreter.
    let by_shell: Vec<_> =
        [SHELL.as_ptr(), path.as_ptr()].into_iter().chain(pointers[1..].iter().copied()).collect();
    // Close-on-exec, so the parent learns of success by end of file.
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error().into()),
        0 => {
            drop(ours);
            child(theirs, &path, &pointers, &by_shell, blocked)
        }
        pid => Ok(Held { pid: pid as u32, gate: ours }),
    }
}

fn child(
    mut gate: UnixStream,
    path: &CStr,
    arguments: &[*const libc::c_char],
    by_shell: &[*const libc::c_char],
    blocked: Blocked,
) -> ! {
    let mut word = [0];
    // End of file: iotrace died or gave up.
    if gate.read_exact(&mut word).is_err() {
        // SAFETY: leaves at once.
        unsafe { libc::_exit(125) };
    }
    blocked.undo();
    // SAFETY: NUL-ended strings and null-ended arrays. Rust ignores SIGPIPE; the command must not inherit that.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execv(path.as_ptr(), arguments.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC {
            libc::execv(SHELL.as_ptr(), by_shell.as_ptr());
        }
    }
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let _ = gate.write_all(&errno.to_ne_bytes());
    // SAFETY: leaves at once.
    unsafe { libc::_exit(if errno == libc::ENOENT { 127 } else { 126 }) }
}

/// What execve's error means for a command that [`find`] found at `path`.
pub fn explained(command: &OsStr, path: &Path, error: io::Error) -> CommandError {
    let command = command.to_string_lossy().into_owned();
    if error.kind() != io::ErrorKind::NotFound || !path.exists() {
        return CommandError::Exec(command, error);
    }
    CommandError::NoInterpreter { command, interpreter: interpreter(path) }
}

/// The word after `#!`; without one the file is a program whose dynamic loader is missing.
fn interpreter(path: &Path) -> String {
    // The kernel reads as much of the line (BINPRM_BUF_SIZE).
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    let line = read.ok().and_then(|_| head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next());
    let words = line.map(|line| String::from_utf8_lossy(line).into_owned()).unwrap_or_default();
    words
        .split([' ', '\t'])
        .find(|word| !word.is_empty())
        .map_or_else(|| "(the dynamic loader)".into(), |word| word.escape_debug().to_string())
}

impl Held {
    /// Lets it execute the command; the error is that of execve.
    pub fn release(mut self) -> io::Result<()> {
        self.gate.write_all(&[1])?;
        let mut errno = [0; 4];
        match self.gate.read_exact(&mut errno) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            Err(_) => Ok(()),
        }
    }

    /// Ends the child that never ran anything.
    pub fn abandon(self) {
        let pid = self.pid;
        drop(self.gate);
        wait(pid);
    }
}

/// Waits for a child and gives the exit code as a shell has it.
pub fn wait(pid: u32) -> u8 {
    let mut status = 0;
    // SAFETY: our own child.
    while unsafe { libc::waitpid(pid as i32, &raw mut status, 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 125;
        }
    }
    exit_code(status)
}

/// The child's exit code if it has ended.
pub fn try_wait(pid: u32) -> Option<u8> {
    let mut status = 0;
    // SAFETY: our own child.
    let ended = unsafe { libc::waitpid(pid as i32, &raw mut status, libc::WNOHANG) };
    (ended == pid as i32).then(|| exit_code(status))
}

fn exit_code(status: i32) -> u8 {
    if libc::WIFSIGNALED(status) {
        (128 + libc::WTERMSIG(status)) as u8
    } else {
        libc::WEXITSTATUS(status) as u8
    }
}

/// Sends a signal to a child.
pub fn signal(pid: u32, number: i32) {
    // SAFETY: a plain call; the child is ours and not yet waited for.
    unsafe { libc::kill(pid as i32, number) };
}

/// A descriptor that becomes readable when the child ends (5.3).
pub fn pidfd(pid: u32) -> io::Result<std::os::fd::OwnedFd> {
    // SAFETY: a plain call; the new descriptor is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(std::os::fd::FromRawFd::from_raw_fd(fd as i32))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_as_a_shell_would() {
        assert_eq!(find(OsStr::new("sh")).unwrap().file_name(), Some(OsStr::new("sh")));
        for (command, code) in [
            ("no-such-command-here", 127),
            ("", 127),
            ("/no/such/file", 127),
            ("/etc", 126),
            ("/etc/passwd", 126),
        ] {
            assert_eq!(find(OsStr::new(command)).unwrap_err().exit_code(), code, "{command}");
        }
    }
}
