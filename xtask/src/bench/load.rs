//! A workload that is told by lines on stdin what to do, and tells by JSON lines on stdout what it did.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The workload. Dropped, it ends by the end of its stdin.
pub struct Load {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Load {
    /// Starts it.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().context("no stdout")?);
        Ok(Self { process, stdin, stdout })
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Tells it a line.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the load was ended")?;
        writeln!(stdin, "{line}").context("the load is gone")
    }

    /// Waits for what it tells next.
    pub fn told(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the load said {line:?}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.process.wait());
    }
}
