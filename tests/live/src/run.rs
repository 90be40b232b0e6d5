//! One run of iotrace from start to end.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Live, Outcome};

/// A command line of iotrace in the making.
pub struct Run<'a> {
    live: &'a Live,
    args: Vec<OsString>,
    as_user: Option<u32>,
    envs: Vec<(&'static str, &'static str)>,
}

impl<'a> Run<'a> {
    pub(crate) fn new<S: AsRef<OsStr>>(live: &'a Live, args: impl IntoIterator<Item = S>) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        Self { live, args, as_user: None, envs: Vec::new() }
    }

    /// More arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// One more argument.
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    /// `-- iotrace-workload ARGS`.
    pub fn workload<S: AsRef<OsStr>>(self, args: impl IntoIterator<Item = S>) -> Self {
        let workload = self.live.workload.clone();
        self.args(["--"]).args([workload]).args(args)
    }

    /// Runs iotrace as this user and group, without capabilities.
    pub fn as_user(mut self, id: u32) -> Self {
        self.as_user = Some(id);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: &'static str, value: &'static str) -> Self {
        self.envs.push((key, value));
        self
    }

    /// The command, with nothing on stdin.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.live.iotrace);
        command.args(&self.args).stdin(Stdio::null()).envs(self.envs.iter().copied());
        if let Some(id) = self.as_user {
            command.uid(id).gid(id);
        }
        command
    }

    /// Starts it with both outputs piped.
    pub fn spawn(&self) -> Child {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.live.iotrace.display()))
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be started or takes longer than any test should.
    pub fn outcome(&self) -> Outcome {
        finish(self.spawn(), self.live.scaled(Duration::from_secs(120), Duration::from_secs(300)))
    }
}

/// Waits for a child whose outputs are piped.
///
/// # Panics
/// When it takes longer than `limit`; it is killed then.
pub(crate) fn finish(mut child: Child, limit: Duration) -> Outcome {
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let status = wait(&mut child, limit);
    let collect = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        reader.map(|reader| reader.join().expect("the reader does not panic")).unwrap_or_default()
    };
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let status = status.unwrap_or_else(|| panic!("still running after {limit:?}\nstderr: {stderr}"));
    Outcome { status, stdout, stderr }
}

/// Waits for a child to end; kills it and returns `None` when it takes longer than `limit`.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("wait for a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("kill a child");
    child.wait().expect("wait for a killed child");
    None
}

/// Reads a pipe to its end beside the test.
pub(crate) fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("read a pipe");
        bytes
    })
}

/// Sends a signal.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: no address is passed; the pid is that of a child not yet waited for.
    let ret = unsafe { libc::kill(pid as libc::pid_t, signal) };
    assert_eq!(ret, 0, "kill {pid} with {signal}: {}", std::io::Error::last_os_error());
}
