//! A running process to attach to, and an iotrace that is attached.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use crate::run::wait;
use crate::{Live, Outcome, kill};

/// How long a program may take to get ready or to end; an emulated CPU attaches for a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// A workload that waits to be told: `hold` or `crowd`.
pub struct Hold {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    patience: Duration,
    /// The first line it printed.
    pub ready: Value,
}

impl Hold {
    pub(crate) fn start(live: &Live, args: &[&str]) -> Self {
        let mut command = Command::new(&live.workload);
        command.args(["hold", "--dir", live.dir_arg()]).args(args);
        Self::of(command)
    }

    /// Starts a command that prints a first line when it is ready.
    pub fn of(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the workload");
        let stdin = child.stdin.take();
        let stdout = lines(child.stdout.take().expect("stdout is piped"));
        let mut hold = Self { child, stdin, stdout, patience: PATIENCE, ready: Value::Null };
        hold.ready = hold.line();
        hold
    }

    /// Lets it take so long for what it is told to do.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its pid as an argument.
    pub fn pid_arg(&self) -> String {
        self.pid().to_string()
    }

    /// Tells it to read, and returns the truth of what it read. It stays alive.
    pub fn go(&mut self) -> Value {
        use std::io::Write;
        self.stdin.as_mut().expect("not yet ended").write_all(b"go\n").expect("tell the workload");
        self.line()
    }

    /// Closes its stdin and waits for its end. Returns what it printed last, if anything.
    pub fn end(mut self) -> Option<Value> {
        drop(self.stdin.take());
        let rest = self.rest();
        let status = wait(&mut self.child, PATIENCE).expect("the workload ends");
        assert!(status.success(), "the workload: {status}");
        rest.lines().last().map(|line| serde_json::from_str(line).expect("a JSON line"))
    }

    /// Waits for the end of an iotrace that runs the workload, whose stdin stays open until then.
    pub fn outcome(mut self) -> Outcome {
        let status = wait(&mut self.child, PATIENCE);
        // A workload that iotrace left behind ends now, and with it the pipe.
        drop(self.stdin.take());
        let stdout = self.rest().into_bytes();
        Outcome { status: status.expect("the command ends"), stdout, stderr: String::new() }
    }

    fn line(&mut self) -> Value {
        let line = self.stdout.recv_timeout(self.patience).expect("a line of the workload");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("the workload said {line:?}: {error}"))
    }

    /// What it prints until it closes its stdout.
    fn rest(&self) -> String {
        let mut rest = String::new();
        loop {
            match self.stdout.recv_timeout(PATIENCE) {
                Ok(line) => rest.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the workload keeps its stdout open; it said {rest:?}")
                }
            }
        }
    }
}

/// An iotrace that traces.
pub struct Attach {
    child: Child,
    stdout: Option<std::thread::JoinHandle<Vec<u8>>>,
    said: Receiver<String>,
    stderr: String,
}

impl Attach {
    pub(crate) fn start<S: AsRef<OsStr>>(live: &Live, args: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(&live.iotrace);
        command.args(["attach", "--format", "json"]).args(args);
        Self::of(command)
    }

    /// [`Attach::of`] a command with further arguments.
    pub fn of_args<S: AsRef<OsStr>>(mut command: Command, args: impl IntoIterator<Item = S>) -> Self {
        command.args(args);
        Self::of(command)
    }

    /// Starts a command that runs iotrace, and waits until iotrace says on stderr that it traces.
    ///
    /// # Panics
    /// When it ends before.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: a Ctrl-C meant for iotrace alone.
        let mut child = command.process_group(0).spawn().expect("start iotrace");
        let stdout = child.stdout.take().map(crate::run::drain);
        let said = lines(child.stderr.take().expect("stderr is piped"));
        let mut attach = Self { child, stdout, said, stderr: String::new() };
        while !attach.stderr.to_lowercase().contains("tracing") {
            match attach.said.recv_timeout(PATIENCE) {
                Ok(line) => attach.stderr.push_str(&line),
                Err(error) => {
                    panic!("iotrace never said that it traces ({error}); it said {:?}", attach.stderr)
                }
            }
        }
        attach
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the trace as Ctrl-C does, and waits for the report.
    pub fn stop(self) -> Outcome {
        kill(self.child.id(), libc::SIGINT);
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Outcome {
        let status = wait(&mut self.child, PATIENCE);
        self.stderr.extend(self.said.iter());
        let status = status.unwrap_or_else(|| panic!("iotrace does not end; it said {:?}", self.stderr));
        let stdout = self.stdout.take().expect("taken once").join().expect("the reader does not panic");
        Outcome { status, stdout, stderr: std::mem::take(&mut self.stderr) }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

impl Drop for Attach {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a child that a failed test left running; no effect on one that was waited for.
fn end(child: &mut Child) {
    if matches!(child.try_wait(), Ok(None)) && child.kill().is_ok() {
        drop(child.wait());
    }
}

/// Lines of a pipe as they come.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}
