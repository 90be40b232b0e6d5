//! `iotrace run`: a command from its first instruction.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::Path,
    time::{Duration, Instant},
};

use tokio::runtime::Builder;

use super::{
    Exit,
    attach::explained,
    complain,
    held::{self, Held},
    log_as_asked,
    output::Output,
    signals::{self, Blocked, Signals},
    trace::{Ended, Until, follow},
};
use crate::{
    cli::RunArgs,
    collect::{
        file_filter,
        selection::Selection,
        session::{Session, kernel_and_host},
    },
    kernel::devices,
    model::{Meta, Targets},
};

/// After Ctrl-C the command has this long to end by itself before it is left running.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(args: &RunArgs) -> Exit {
    log_as_asked(args.common.verbose);
    let path = match held::find(&args.command[0]) {
        Ok(path) => path,
        Err(error) => {
            complain(&error);
            return Exit::Command(error.exit_code());
        }
    };
    let fail = |error: &dyn std::fmt::Display| {
        complain(error);
        Exit::RunFailure
    };
    let common = &args.common;
    let selection = Selection {
        without: common.without.clone(),
        block_only: common.block_only,
        ring_bytes: common.ring_bytes,
        ledgers: common.ledgers,
        ..Selection::default()
    }
    .filtered(&common.devices, &common.comms, &common.ops, &devices::disks());
    let selection = match selection {
        Ok(selection) => selection.with_files(&common.fs_types, &common.paths),
        Err(error) => return fail(&error),
    };
    if !common.quiet {
        // The command begins in iotrace's own mount namespace.
        file_filter::remarks(&selection.files, &[]).iter().for_each(|remark| complain(remark));
    }
    let output = match Output::open(common) {
        Ok(output) => output,
        Err(error) => return fail(&error),
    };
    let blocked = signals::block();
    let held = match held::hold(&path, &args.command, blocked) {
        Ok(held) => held,
        Err(error) => return fail(&error),
    };
    match trace(args, &path, selection, output, held, blocked) {
        Ok(code) => Exit::Command(code),
        Err(error) => fail(&format!("{error:#}")),
    }
}

fn trace(
    args: &RunArgs,
    path: &Path,
    mut selection: Selection,
    output: Output,
    held: Held,
    blocked: Blocked,
) -> anyhow::Result<u8> {
    let pid = held.pid;
    let common = &args.common;
    selection.targets = Targets { pids: vec![pid], follow: !common.no_follow, ..Targets::default() };
    let (kernel, hostname) = kernel_and_host();
    let meta = Meta {
        kernel,
        hostname,
        command: args.command.iter().map(|a| a.as_bytes().to_vec()).collect(),
        targets: selection.targets.clone(),
        filters: selection.filters.clone(),
        roles: common.roles.clone(),
        ..Meta::default()
    };
    let mut session = match Session::start(selection, &[pid], common.self_stats) {
        Ok(session) => session,
        Err(error) => {
            held.abandon();
            return Err(explained(error));
        }
    };
    session.begin();
    if let Err(error) = held.release() {
        complain(&held::explained(&args.command[0], path, error));
        return Ok(held::wait(pid));
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (ended, asked) = runtime.block_on(async {
        let signals = Signals::open(blocked)?;
        let mut asked = None;
        let until = |duration, on_signal| -> std::io::Result<Until<'_>> {
            Ok(Until { duration, child: Some(held::pidfd(pid)?), targets_gone: false, on_signal })
        };
        // The first request to stop goes to the command (the terminal has sent it already, a process has not).
        let mut first = |signal: signals::Signal| {
            if signal.from_process {
                held::signal(pid, signal.number);
            }
            if signal.ends_trace() {
                asked = Some(signal.number);
            }
            signal.ends_trace()
        };
        // No progress line: the terminal is the command's.
        let mut ended = follow(&mut session, &signals, until(None, &mut first)?, false).await?;
        if ended == Ended::Signal {
            let asked_at = Instant::now();
            let mut second = |signal: signals::Signal| {
                if signal.from_process {
                    held::signal(pid, signal.number);
                }
                signal.insists(asked_at)
            };
            ended = follow(&mut session, &signals, until(Some(PATIENCE), &mut second)?, false).await?;
        }
        Ok::<_, std::io::Error>((ended, asked))
    })?;
    let code = if ended == Ended::Command {
        let code = held::wait(pid);
        if !common.quiet && !session.all_exited() {
            complain(&"descendants of the command still run; they are no longer traced");
        }
        code
    } else {
        held::try_wait(pid).unwrap_or_else(|| {
            complain(&format!("the command did not end; it runs on as pid {pid}, no longer traced"));
            128 + asked.unwrap_or(libc::SIGINT) as u8
        })
    };
    blocked.quit_at_next()?;
    if let Err(error) = output.write(session.finish(meta)) {
        complain(&error);
    }
    Ok(code)
}
