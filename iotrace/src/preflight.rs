//! What this kernel and container allow: capabilities read, everything else tried.

use std::{fmt::Write as _, fs};

use serde::Serialize;

use crate::{
    cli::AttachKind,
    collect::{error::PRIVILEGE_HELP, loader, procfs, selection::Selection, session::kernel_and_host},
    commands::{attach::explained, wrapped},
    kernel::{btf, lockdown},
    model::{Probe, Targets},
};

/// What was found.
#[derive(Debug, Serialize)]
pub struct Preflight {
    /// Version of this object's layout.
    pub schema_version: u32,
    /// The main job can run.
    pub can_trace: bool,
    /// `uname -r`.
    pub kernel: String,
    /// Machine architecture.
    pub architecture: &'static str,
    /// Capabilities tracing uses.
    pub capabilities: Vec<Capability>,
    /// Kernel types: where, or why not.
    pub btf: Finding,
    /// Kernel lockdown mode; `not shown` when it is not to be had, as on a kernel without lockdown.
    pub lockdown: String,
    /// tracefs is mounted. (Where iotrace needs it and it is not, it mounts it for itself alone, for a moment.)
    pub tracefs_mounted: bool,
    /// iotrace is in the initial pid namespace.
    pub initial_pid_namespace: bool,
    /// Each metric: the variant that attached, or why none did.
    pub metrics: Vec<Metric>,
    /// Why no metric could be tried.
    pub error: Option<String>,
}

/// One capability.
#[derive(Debug, Serialize)]
pub struct Capability {
    /// Name.
    pub name: &'static str,
    /// In the effective set.
    pub held: bool,
    /// What for.
    pub why: &'static str,
}

/// Something that is there or not.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// There.
    pub ok: bool,
    /// Where, or why not.
    pub detail: String,
}

/// A metric of the attach plan.
#[derive(Debug, Serialize)]
pub struct Metric {
    /// Name.
    pub metric: String,
    /// Variant in use.
    pub variant: Option<String>,
    /// Why better ones, or all, were refused.
    pub reason: String,
}

impl From<Probe> for Metric {
    fn from(probe: Probe) -> Self {
        Self { metric: probe.metric, variant: probe.variant, reason: probe.reason }
    }
}

/// Numbers from include/uapi/linux/capability.h.
const CAPABILITIES: [(u32, &str, &str); 4] = [
    (39, "CAP_BPF", "load programs and maps"),
    (38, "CAP_PERFMON", "attach to tracepoints and read kernel memory"),
    (21, "CAP_SYS_ADMIN", "stands for both before 5.8; run statistics of programs"),
    (19, "CAP_SYS_PTRACE", "see other users' processes"),
];

/// Looks and tries. Everything attached is detached again before this returns.
pub fn look(without: &[AttachKind]) -> Preflight {
    let (kernel, _) = kernel_and_host();
    let held = effective_capabilities();
    let btf = match btf::Btf::of_kernel() {
        Ok(_) => Finding { ok: true, detail: btf::VMLINUX.into() },
        Err(error) => Finding { ok: false, detail: error.to_string() },
    };
    let everything = Selection {
        targets: Targets { all: true, follow: true, ..Targets::default() },
        without: without.to_vec(),
        ..Selection::default()
    };
    let (metrics, error) = match loader::load(&everything, &[]) {
        Ok(loaded) => {
            let refused = loader::refuse_without_required(&loaded.probes).err();
            (loaded.probes.into_iter().map(Metric::from).collect(), refused.map(|e| e.to_string()))
        }
        Err(error) => (Vec::new(), Some(explained(error).to_string())),
    };
    Preflight {
        schema_version: 1,
        can_trace: error.is_none(),
        kernel,
        architecture: std::env::consts::ARCH,
        capabilities: CAPABILITIES
            .into_iter()
            .map(|(bit, name, why)| Capability { name, held: held >> bit & 1 == 1, why })
            .collect(),
        btf,
        lockdown: lockdown::mode().unwrap_or_else(|| "not shown".into()),
        tracefs_mounted: crate::probes::tracefs::mounted(),
        initial_pid_namespace: procfs::in_initial_pid_namespace(),
        metrics,
        error,
    }
}

fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// Under the third column of the text.
const DETAIL_INDENT: &str = "                      ";

impl Preflight {
    /// For a person, within 80 columns.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        let mut line = |mark: &str, name: &str, detail: &str| {
            let _ = writeln!(text, "{}", wrapped(&format!("{mark:<4} {name:<16} {detail}"), DETAIL_INDENT));
        };
        line("", "kernel", &format!("{} {}", self.kernel, self.architecture));
        for capability in &self.capabilities {
            line(if capability.held { "ok" } else { "no" }, capability.name, capability.why);
        }
        line(if self.btf.ok { "ok" } else { "no" }, "kernel types", &self.btf.detail);
        line(if self.lockdown == lockdown::CONFIDENTIALITY { "no" } else { "" }, "lockdown", &self.lockdown);
        line("", "tracefs", if self.tracefs_mounted { "mounted" } else { "not mounted (not needed)" });
        let namespace =
            if self.initial_pid_namespace { "initial" } else { "nested: pids given are this namespace's" };
        line("", "pid namespace", namespace);
        for metric in &self.metrics {
            match &metric.variant {
                Some(variant) => line("ok", &metric.metric, variant),
                None => line("no", &metric.metric, "not measured"),
            }
            for reason in metric.reason.split("; ").filter(|r| !r.is_empty()) {
                line("", "", reason);
            }
        }
        match &self.error {
            None => text += "\niotrace can trace here.\n",
            Some(error) => {
                let _ = writeln!(text, "\n{}", wrapped(&format!("iotrace cannot trace here: {error}"), ""));
                if !error.contains(PRIVILEGE_HELP) && self.capabilities.iter().all(|c| !c.held) {
                    let _ = writeln!(text, "{}", wrapped(PRIVILEGE_HELP, ""));
                }
            }
        }
        text
    }
}
