//! `iotrace attach`: running processes.

use std::path::{Path, PathBuf};

use tokio::runtime::Builder;

use super::{
    Exit, complain, log_as_asked,
    output::Output,
    signals::{self, Signals},
    trace::{Ended, Until, follow},
};
use crate::{
    cli::AttachArgs,
    collect::{
        containers::inventory::{Chosen, Inventory},
        error::{PRIVILEGE_HELP, StartError, chain},
        file_filter, procfs,
        selection::{self, Selection},
        session::{Session, kernel_and_host},
    },
    kernel::devices,
    model::{Meta, Targets},
};

/// Of a user without privileges.
pub const NOT_PERMITTED: &str = "the kernel does not let this user load BPF programs";

/// Runs the command.
pub fn run(args: &AttachArgs) -> Exit {
    log_as_asked(args.common.verbose);
    if args.pids.is_empty() && args.cgroups.is_empty() && args.containers.is_empty() && !args.all {
        complain(
            &"nothing to trace: give one of\n  \
              -p PID           a running process, its threads and descendants\n  \
              --container ID   every process of a container\n  \
              --cgroup PATH    every process of a cgroup\n  \
              -a               every process of the system",
        );
        return Exit::Usage;
    }
    match attach(args) {
        Ok(()) => Exit::Success,
        Err(error) => {
            complain(&format!("{error:#}"));
            Exit::Failure
        }
    }
}

fn attach(args: &AttachArgs) -> anyhow::Result<()> {
    let blocked = signals::block();
    let common = &args.common;
    selection::check_pids(&args.pids)?;
    let mut cgroups = selection::check_cgroups(&args.cgroups)?;
    let shown_cgroups = cgroups.iter().map(|path| path.display().to_string()).collect();
    let containers = chosen_containers(&args.containers)?;
    for folder in containers.iter().flat_map(|container| &container.folders) {
        if !cgroups.contains(folder) {
            cgroups.push(folder.clone());
        }
    }
    let targets = Targets {
        all: args.all,
        pids: args.pids.clone(),
        cgroups: shown_cgroups,
        containers: args.containers.clone(),
        follow: !common.no_follow,
    };
    let selection = Selection {
        targets: targets.clone(),
        cgroups: cgroups.clone(),
        block_only: common.block_only,
        without: common.without.clone(),
        ring_bytes: common.ring_bytes,
        ledgers: common.ledgers,
        ..Selection::default()
    }
    .filtered(&common.devices, &common.comms, &common.ops, &devices::disks())?
    .with_files(&common.fs_types, &common.paths);
    let output = Output::open(common)?;
    let (kernel, hostname) = kernel_and_host();
    let meta = Meta {
        kernel,
        hostname,
        targets,
        filters: selection.filters.clone(),
        roles: common.roles.clone(),
        ..Meta::default()
    };

    let find = || pids(args, &cgroups, &containers);
    if !common.quiet && !selection.files.is_empty() {
        let seen = if args.all { procfs::pids() } else { find() };
        file_filter::remarks(&selection.files, &seen).iter().for_each(|remark| complain(remark));
    }
    let mut session = Session::start(selection, &find(), common.self_stats).map_err(explained)?;
    // What was forked while the probes were being attached.
    session.add_targets(&find());
    session.begin();
    if !common.quiet {
        let end = if args.duration.is_some() { "" } else { "; Ctrl-C ends the trace and prints the report" };
        warn_of_hidden_cgroups(&containers);
        complain(&format!("tracing {}{end}", described(args, &containers)));
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let signals = Signals::open(blocked)?;
        let until = Until {
            duration: args.duration,
            child: None,
            targets_gone: !args.all && cgroups.is_empty(),
            on_signal: &mut |signal| signal.ends_trace(),
        };
        follow(&mut session, &signals, until, !common.quiet).await
    })?;
    if ended == Ended::TargetsGone && !common.quiet {
        complain(&"every target has exited: the trace ends");
    }
    blocked.quit_at_next()?;
    output.write(session.finish(meta))?;
    Ok(())
}

/// What each `--container` stands for.
fn chosen_containers(given: &[String]) -> Result<Vec<Chosen>, StartError> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let inventory = Inventory::read(Path::new("/"));
    given.iter().map(|given| inventory.choose(given)).collect()
}

fn warn_of_hidden_cgroups(containers: &[Chosen]) {
    for container in containers.iter().filter(|container| container.folders.is_empty()) {
        complain(&format!(
            "the cgroup of {} is not in sight: its processes are traced with all they fork, but none that enters it \
             later (as `docker exec` does); mount the host's /sys/fs/cgroup to change that",
            container.described
        ));
    }
}

/// Targets now: the pids given, and of containers, with what descends from them, and members of the cgroups.
fn pids(args: &AttachArgs, cgroups: &[PathBuf], containers: &[Chosen]) -> Vec<u32> {
    let mut pids = args.pids.clone();
    // Of one with a folder, the folder tells who is in it.
    pids.extend(containers.iter().filter(|c| c.folders.is_empty()).flat_map(|container| &container.pids));
    if !args.common.no_follow {
        pids = procfs::descendants(&pids);
    }
    for folder in cgroups {
        pids.extend(procfs::cgroup_members(folder).unwrap_or_default());
    }
    pids.retain(|&pid| pid != std::process::id());
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// What is traced, for the line that says that tracing has begun.
fn described(args: &AttachArgs, containers: &[Chosen]) -> String {
    if args.all {
        return "every process".into();
    }
    let pids = args.pids.iter().map(|pid| format!("pid {pid}"));
    let cgroups = args.cgroups.iter().map(|path| format!("cgroup {}", path.display()));
    let containers = containers.iter().map(|container| container.described.clone());
    pids.chain(cgroups).chain(containers).collect::<Vec<_>>().join(", ")
}

/// The error with its causes. That the user lacks a privilege is all there is to say: which call found out is not.
pub fn explained(error: StartError) -> anyhow::Error {
    match error {
        StartError::NotPermitted { cause } => {
            tracing::debug!("{cause}");
            anyhow::anyhow!("{NOT_PERMITTED}\n{PRIVILEGE_HELP}")
        }
        other => anyhow::anyhow!("{}", chain(&other)),
    }
}
