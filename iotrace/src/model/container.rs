//! The container a process runs in.

/// What made a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runtime {
    /// Docker.
    Docker,
    /// containerd, by Kubernetes or by itself.
    Containerd,
    /// CRI-O.
    CriO,
    /// Podman.
    Podman,
    /// LXC, LXD, Incus: ids are names.
    Lxc,
}

impl Runtime {
    /// The word of reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Podman => "podman",
            Self::Lxc => "lxc",
        }
    }
}

/// A container, as far as it is known: an id, a pod, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Container {
    /// `None` where nothing tells (the cgroups of Kubernetes under the driver `cgroupfs`).
    pub runtime: Option<Runtime>,
    /// 64 hex digits; 12 where only the host name tells; a name under LXC.
    pub id: Option<String>,
    /// Kubernetes pod: a UUID, or 32 hex digits for a static pod.
    pub pod_uid: Option<String>,
}

impl Container {
    /// As much as tells it from others: the first 12 digits of the id, or the first 8 of the pod's.
    pub fn short(&self) -> String {
        let cut = |text: &str, length: usize| text.chars().take(length).collect::<String>();
        match (&self.id, &self.pod_uid) {
            (Some(id), _) => cut(id, 12),
            (None, Some(uid)) => format!("pod {}", cut(uid, 8)),
            (None, None) => String::new(),
        }
    }
}
