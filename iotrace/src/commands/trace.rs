//! The loop both tracing commands share: drain, show progress, stop when asked.

use std::{
    io::{self, IsTerminal as _, Write as _},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use tokio::io::{Interest, unix::AsyncFd};

use super::signals::{Signal, Signals};
use crate::collect::session::{DRAIN_INTERVAL, HURRY, Pressure, Session};

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The duration is over.
    Duration,
    /// The traced command ended.
    Command,
    /// Every target is gone.
    TargetsGone,
    /// A signal asked for it.
    Signal,
}

/// What a trace waits for.
pub struct Until<'a> {
    /// At most this long.
    pub duration: Option<Duration>,
    /// The traced command.
    pub child: Option<OwnedFd>,
    /// End when no target is left.
    pub targets_gone: bool,
    /// Told of every signal; true: end the trace now.
    pub on_signal: &'a mut dyn FnMut(Signal) -> bool,
}

/// Runs until one of them.
pub async fn follow(
    session: &mut Session,
    signals: &Signals,
    until: Until<'_>,
    progress: bool,
) -> io::Result<Ended> {
    let Until { duration, child, targets_gone, on_signal } = until;
    // SAFETY: the descriptor is owned by the AsyncFd and closed after it is deregistered.
    let child =
        child.map(|fd| unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }).transpose()?;
    let deadline = duration.map(|d| tokio::time::Instant::now() + d);
    let mut clock = tokio::time::interval(DRAIN_INTERVAL);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut line = ProgressLine::new(progress);
    let ended = loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                if on_signal(signal?) {
                    break Ended::Signal;
                }
            }
            () = at(deadline) => break Ended::Duration,
            () = ended(child.as_ref()) => break Ended::Command,
            _ = clock.tick() => {
                if session.tick() == Pressure::High {
                    clock.reset_after(HURRY);
                }
                line.show(session);
                if targets_gone && line.time_to_look() && session.all_exited() {
                    break Ended::TargetsGone;
                }
            }
        }
    };
    line.clear();
    session.tick();
    Ok(ended)
}

async fn at(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn ended(child: Option<&AsyncFd<OwnedFd>>) {
    match child {
        // Readable means ended; an error here would come back at once and for ever.
        Some(child) if child.readable().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

/// One line on a terminal, rewritten twice a second.
struct ProgressLine {
    on: bool,
    shown: Option<Instant>,
    looked: Instant,
}

impl ProgressLine {
    fn new(on: bool) -> Self {
        Self { on: on && io::stderr().is_terminal(), shown: None, looked: Instant::now() }
    }

    fn show(&mut self, session: &Session) {
        if !self.on || self.shown.is_some_and(|at| at.elapsed() < Duration::from_millis(500)) {
            return;
        }
        self.shown = Some(Instant::now());
        let p = session.progress();
        let ops = p.ops.map_or(String::new(), |ops| format!(" · {ops} reads and writes"));
        let _ = write!(
            io::stderr(),
            "\r\x1b[Ktracing {:.0} s{ops} · {} block requests · {} lost · Ctrl-C ends",
            p.elapsed.as_secs_f64(),
            p.requests,
            p.lost
        );
        let _ = io::stderr().flush();
    }

    fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Ten times a second: the question it guards reads /proc.
    fn time_to_look(&mut self) -> bool {
        let passed = self.looked.elapsed() >= Duration::from_millis(100);
        if passed {
            self.looked = Instant::now();
        }
        passed
    }
}
