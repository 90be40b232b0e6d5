//! Why a trace cannot begin.

use aya::{EbpfError, maps::MapError};

use crate::kernel::btf::BtfError;

/// What to do when the kernel says no.
pub const PRIVILEGE_HELP: &str = "needs CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE to see other users' processes): \
    run as root, or `docker run --privileged --pid=host`, or `kubectl debug node/NODE --profile=sysadmin`";

/// Why a trace cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Not allowed.
    #[error("the kernel does not let this user load BPF programs: {cause}\n{PRIVILEGE_HELP}")]
    NotPermitted {
        /// The call and its error.
        cause: String,
    },
    /// No usable type information.
    #[error(
        "this kernel does not show its types ({0})\n\
         iotrace finds struct fields by BTF: use a kernel built with CONFIG_DEBUG_INFO_BTF (every distribution's since 2021), \
         and in a container mount the host's /sys"
    )]
    NoBtf(#[from] BtfError),
    /// aya cannot use the kernel's BTF.
    #[error("this kernel's BTF cannot be used: {0}")]
    AyaBtf(#[from] aya::BtfError),
    /// The object cannot be loaded.
    #[error("loading the kernel object failed: {0}")]
    Load(#[source] EbpfError),
    /// A map is missing or refuses.
    #[error("map {name}: {error}")]
    Map {
        /// Name.
        name: &'static str,
        /// Why.
        error: MapError,
    },
    /// A metric without which there is no trace.
    #[error("cannot trace {metric}: {reason}\n`iotrace check` lists what this kernel allows")]
    Metric {
        /// Metric.
        metric: String,
        /// Why.
        reason: String,
    },
    /// Nobody may read the kernel's memory.
    #[error(
        "this kernel is locked down (lockdown=confidentiality): it refuses every program the helper bpf_probe_read_kernel, \
         by which iotrace reads what calls and processes are about\n\
         No privilege changes that, nor can it be lowered while the kernel runs: boot it with `lockdown=integrity`, under \
         which iotrace works, or without `lockdown=` on its command line, or trace on another machine"
    )]
    LockedDown,
    /// No such process.
    #[error("no process {0} here (pids are those of the pid namespace iotrace runs in; see `ps -e`)")]
    NoSuchPid(u32),
    /// A kernel thread or iotrace itself.
    #[error("process {pid} cannot be traced: {reason}")]
    BadPid {
        /// Pid.
        pid: u32,
        /// Why.
        reason: &'static str,
    },
    /// Pids cannot be translated.
    #[error(
        "iotrace runs in a pid namespace of its own and this kernel does not let it find pid {pid} outside ({reason}): \
         run it in the host's pid namespace (`docker run --pid=host`, `hostPID: true`)"
    )]
    NoTranslation {
        /// Pid as given.
        pid: u32,
        /// Why.
        reason: String,
    },
    /// No such device.
    #[error("no block device `{name}` here; there are: {known}")]
    NoSuchDevice {
        /// As given.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// A cgroup that cannot be used.
    #[error("cgroup {path}: {reason}")]
    BadCgroup {
        /// As given.
        path: String,
        /// Why.
        reason: String,
    },
    /// No container of that id or name.
    #[error("--container {given}: there is none of this id or name. Containers here:\n{known}")]
    NoSuchContainer {
        /// As given.
        given: String,
        /// A line for each that is there, and an example.
        known: String,
    },
    /// Several containers of that beginning.
    #[error(
        "--container {given}: this is the beginning, or the name, of several; give more of the id:\n{matches}"
    )]
    AmbiguousContainer {
        /// As given.
        given: String,
        /// A line for each, and an example.
        matches: String,
    },
    /// A command name that cannot match.
    #[error("--comm {name}: {reason}")]
    BadComm {
        /// As given.
        name: String,
        /// Why.
        reason: String,
    },
}

impl StartError {
    /// Wraps a failed load; EPERM becomes a statement about privileges.
    pub fn from_load(error: EbpfError) -> Self {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(link) = cause {
            let errno = link.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            if matches!(errno, Some(libc::EPERM | libc::EACCES)) {
                return Self::NotPermitted { cause: chain(&error) };
            }
            cause = link.source();
        }
        Self::Load(error)
    }
}

/// An error and its causes in one line, repeated text left out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
