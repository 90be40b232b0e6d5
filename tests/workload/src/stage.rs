//! How planned work is started: at once, or held back until an observer is attached. Held, the children are forked
//! and wait at a gate, a first line says so, a line on stdin (or SIGUSR1, or the end of stdin) lets them go, and after
//! the truth is told the process stays until stdin ends, so that the observer decides when it sees it go.

use std::io::BufRead;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::child::Child;
use crate::gate::Gate;
use crate::tally::Tally;
use crate::{child, sys, truth};

/// When to start; shared by the subcommands that can be held.
#[derive(clap::Args)]
pub struct Start {
    /// Fork, print a line with "ready", and wait for a line on stdin (or SIGUSR1) before doing anything.
    #[arg(long)]
    pub hold: bool,
}

/// The children of one subcommand.
pub struct Stage {
    workload: &'static str,
    hold: bool,
    gate: Gate,
    children: Vec<Child>,
}

impl Stage {
    /// A stage of `workload` without children.
    pub fn new(workload: &'static str, start: &Start) -> Result<Self> {
        Ok(Self { workload, hold: start.hold, gate: Gate::new(!start.hold)?, children: Vec::new() })
    }

    /// Adds a child named `name` that does `work` once it may. It dies with this process.
    pub fn add(&mut self, name: &[u8], work: impl FnOnce() -> Result<Tally>) -> Result<()> {
        self.add_early(name, |gate| {
            gate.pass();
            work()
        })
    }

    /// Adds a child that does something before it passes the gate, which it must do once.
    pub fn add_early(&mut self, name: &[u8], work: impl FnOnce(&Gate) -> Result<Tally>) -> Result<()> {
        let gate = &self.gate;
        let child = child::fork(name, || {
            // SAFETY: no address is passed.
            sys::check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
            work(gate)
        })?;
        self.children.push(child);
        Ok(())
    }

    /// Lets the children go, having waited for the word if held; they run on beside what the caller does next.
    pub fn go(&self) -> Result<()> {
        if self.hold {
            self.gate.wait_for_arrival(self.children.len() as u32)?;
            let pids: Vec<_> = self.children.iter().map(|child| child.pid).collect();
            wait_for_word(|| truth::print(self.workload, &[], json!({"ready": true, "children": pids})))?;
        }
        self.gate.open();
        Ok(())
    }

    /// Waits for the children and returns what they told, in the order of their adding.
    pub fn join(&mut self) -> Result<Vec<Value>> {
        self.children.drain(..).map(Child::join).collect()
    }

    /// Lets the children go and waits for them.
    pub fn run(&mut self) -> Result<Vec<Value>> {
        self.go()?;
        self.join()
    }

    /// Prints the truth and, if held, stays until stdin ends.
    pub fn tell(&self, processes: &[Value], extra: Value) -> Result<()> {
        truth::print(self.workload, processes, extra)?;
        if self.hold {
            while std::io::stdin().lock().read_line(&mut String::new())? > 0 {}
        }
        Ok(())
    }
}

extern "C" fn interrupt(_signal: libc::c_int) {}

/// Calls `ready`, then waits for a line on stdin, its end, or SIGUSR1. The signal is blocked but for the wait itself:
/// it cannot be missed, however early it comes.
fn wait_for_word(ready: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: live structs, initialised by sigemptyset and by zeroes; the handler does nothing.
    let mut unblocked = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupt as *const () as usize;
        sys::check(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()))?;
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut blocked);
        libc::sigaddset(&raw mut blocked, libc::SIGUSR1);
        sys::check(libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before))?;
        before
    };
    // SAFETY: a live set.
    unsafe { libc::sigdelset(&raw mut unblocked, libc::SIGUSR1) };
    ready()?;
    let mut byte = [0];
    loop {
        let mut stdin = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd, no timeout, a live signal set.
        match sys::check(unsafe { libc::ppoll(&raw mut stdin, 1, std::ptr::null(), &raw const unblocked) }) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            result => result.context("ppoll")?,
        };
        if sys::read(&std::io::stdin(), &mut byte) <= 0 || byte[0] == b'\n' {
            return Ok(());
        }
    }
}
