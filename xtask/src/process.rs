//! Runs other programs. An error names the command line, how it ended, and what it said.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::paths;

/// Lines of a failed program's output that an error repeats.
const TAIL_LINES: usize = 40;

/// A command in the workspace's root.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(paths::root());
    command
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Finds a program on `PATH` and in the system's administration folders, which users often lack in their `PATH`.
pub fn which(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(Into::into))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Runs a command with its output on the terminal.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command in silence and returns its stdout. On failure the end of its stderr is in the error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}):\n{}", shown(command), output.status, tail(&stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a command printed, both streams together, and whether it succeeded.
#[derive(Debug)]
pub struct Transcript {
    /// stdout and stderr in the order they were written.
    pub text: String,
    /// Whether the exit status was 0.
    pub success: bool,
}

/// Runs a command and keeps all it prints.
pub fn transcript(command: &mut Command) -> Result<Transcript> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // The command holds the pipe's write ends; while it does, reading never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    BufReader::new(reader).read_to_end(&mut bytes)?;
    let status = child.wait()?;
    Ok(Transcript { text: String::from_utf8_lossy(&bytes).into_owned(), success: status.success() })
}

/// Runs a cargo build with `--message-format=json` and returns the executables it made, as (target name, path).
pub fn built_executables(command: &mut Command) -> Result<Vec<(String, std::path::PathBuf)>> {
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    let mut executables = Vec::new();
    for line in BufReader::new(child.stdout.take().context("no stdout")?).lines() {
        let message: serde_json::Value = serde_json::from_str(&line?).context("cargo printed no JSON")?;
        if let (Some(name), Some(path)) = (message["target"]["name"].as_str(), message["executable"].as_str())
        {
            executables.push((name.to_owned(), Path::new(path).to_owned()));
        }
    }
    if !child.wait()?.success() {
        bail!("{} failed", shown(command));
    }
    Ok(executables)
}

/// The command line as one would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// Whether this process may do what only root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
