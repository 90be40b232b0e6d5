//! A command held before its first instruction: forked, waiting for a word, then executed under the same pid.

use std::{
    env,
    ffi::{CString, OsStr, OsString},
    io::{self, Read as _, Write as _},
    os::unix::{ffi::OsStrExt as _, net::UnixStream},
    path::{Path, PathBuf},
};

use super::signals::Blocked;

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
            Self::NotFound(_) | Self::NoSuchFile(_) => 127,
            Self::NotExecutable(..) | Self::Nul => 126,
            Self::Fork(_) => 125,
        }
    }
}

/// Finds the command as execvp(3) would, before anything is traced.
pub fn find(command: &OsStr) -> Result<PathBuf, CommandError> {
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
    let mut pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // Close-on-exec, so the parent learns of success by end of file.
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error().into()),
        0 => {
            drop(ours);
            child(theirs, &path, &pointers, blocked)
        }
        pid => Ok(Held { pid: pid as u32, gate: ours }),
    }
}

fn child(mut gate: UnixStream, path: &CString, arguments: &[*const libc::c_char], blocked: Blocked) -> ! {
    let mut word = [0];
    // End of file: iotrace died or gave up.
    if gate.read_exact(&mut word).is_err() {
        // SAFETY: leaves at once.
        unsafe { libc::_exit(125) };
    }
    blocked.undo();
    // SAFETY: NUL-ended strings and a null-ended array. Rust ignores SIGPIPE; the command must not inherit that.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execv(path.as_ptr(), arguments.as_ptr());
    }
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let _ = gate.write_all(&errno.to_ne_bytes());
    // SAFETY: leaves at once.
    unsafe { libc::_exit(if errno == libc::ENOENT { 127 } else { 126 }) }
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
        for (command, code) in
            [("no-such-command-here", 127), ("/no/such/file", 127), ("/etc", 126), ("/etc/passwd", 126)]
        {
            assert_eq!(find(OsStr::new(command)).unwrap_err().exit_code(), code, "{command}");
        }
    }
}
