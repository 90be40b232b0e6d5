//! From a process's mounts to its container, where cgroups do not tell: runtimes put files of the host over /etc/hostname,
//! /etc/hosts and /etc/resolv.conf, and the folders these come from are named after the container or pod.

use super::cgroup::{is_id, is_pod_uid};
use crate::{
    kernel::mountinfo::Mount,
    model::{Container, Runtime},
};

/// The container that the mounts of a process give away.
pub fn container(mounts: &[Mount]) -> Option<Container> {
    // In a pod these files are those of its sandbox, whose id is not the container's.
    if let Some(uid) = mounts.iter().find_map(pod_uid) {
        return Some(Container { pod_uid: Some(uid), ..Container::default() });
    }
    let (runtime, id) = mounts.iter().find_map(id)?;
    Some(Container { runtime: Some(runtime), id: Some(id), pod_uid: None })
}

/// `/var/lib/kubelet/pods/UID/volumes/...`, `.../UID/etc-hosts`. On the node itself such folders are mounted too (a volume's
/// part), but below `pods/UID` again.
fn pod_uid(mount: &Mount) -> Option<String> {
    let root = String::from_utf8_lossy(&mount.root);
    let names: Vec<_> = root.split('/').collect();
    let uid = names.windows(3).rev().find_map(|at| match at {
        ["pods", uid, "volumes" | "volume-subpaths" | "etc-hosts" | "containers"] if is_pod_uid(uid) => {
            Some(*uid)
        }
        _ => None,
    })?;
    let on_the_node = String::from_utf8_lossy(&mount.mount_point).contains(uid);
    (!on_the_node).then(|| uid.to_owned())
}

/// The name of a container within its pod: its termination log is `/var/lib/kubelet/pods/UID/containers/NAME/HASH`.
pub fn name_in_pod(mounts: &[Mount]) -> Option<String> {
    mounts.iter().filter(|mount| pod_uid(mount).is_some()).find_map(|mount| {
        let root = String::from_utf8_lossy(&mount.root);
        let names: Vec<_> = root.split('/').collect();
        names.windows(4).rev().find_map(|at| match at {
            ["pods", _, "containers", name] => Some((*name).to_owned()),
            _ => None,
        })
    })
}

/// `/var/lib/docker/containers/ID/hostname`, `/run/containers/storage/overlay-containers/ID/userdata/hostname`. What comes
/// before depends on where the runtime keeps its data, and on which file system that is.
fn id(mount: &Mount) -> Option<(Runtime, String)> {
    if !matches!(&*mount.mount_point, b"/etc/hostname" | b"/etc/hosts" | b"/etc/resolv.conf") {
        return None;
    }
    let root = String::from_utf8_lossy(&mount.root);
    let names: Vec<_> = root.split('/').collect();
    names.windows(3).rev().find_map(|at| match at {
        ["containers", id, "hostname" | "hosts" | "resolv.conf"] if is_id(id) => {
            Some((Runtime::Docker, (*id).to_owned()))
        }
        ["overlay-containers" | "vfs-containers" | "btrfs-containers", id, "userdata"] if is_id(id) => {
            Some((Runtime::Podman, (*id).to_owned()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mountinfo::{Strings, parse};

    const ID: &str = "4f66b8a7d2c0e5913b7f0a9c8d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e";
    const UID: &str = "8dc1a1c5-3d3d-4f0f-9a52-0f6c2a0e9b11";

    fn found(binds: &[(String, &str)]) -> Option<Container> {
        let lines: String =
            binds.iter().map(|(root, at)| format!("1 0 8:1 {root} {at} rw - ext4 /dev/sda1 rw\n")).collect();
        container(&parse(lines.as_bytes(), &mut Strings::default()))
    }

    #[test]
    fn the_files_a_runtime_mounts_name_the_container() {
        let docker = Container { runtime: Some(Runtime::Docker), id: Some(ID.into()), pod_uid: None };
        let podman = Container { runtime: Some(Runtime::Podman), ..docker.clone() };
        for (root, at, want) in [
            (format!("/var/lib/docker/containers/{ID}/hostname"), "/etc/hostname", &docker),
            // Another data folder, a file system of its own, Docker in Docker.
            (format!("/containers/{ID}/resolv.conf"), "/etc/resolv.conf", &docker),
            (
                format!("/docker/volumes/{}/_data/containers/{ID}/hosts", "0".repeat(64)),
                "/etc/hosts",
                &docker,
            ),
            (
                format!("/var/lib/containers/storage/overlay-containers/{ID}/userdata/hosts"),
                "/etc/hosts",
                &podman,
            ),
            (format!("/storage/overlay-containers/{ID}/userdata/hostname"), "/etc/hostname", &podman),
        ] {
            assert_eq!(found(&[(root.clone(), at)]).as_ref(), Some(want), "{root}");
        }
    }

    #[test]
    fn in_a_pod_the_pod_is_known_and_the_container_is_not() {
        let pod = Container { pod_uid: Some(UID.into()), ..Container::default() };
        let sandbox = format!("/run/containers/storage/overlay-containers/{ID}/userdata/hostname");
        for root in [
            format!("/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~csi/data/mount"),
            format!("/lib/kubelet/pods/{UID}/etc-hosts"),
            format!("/var/lib/kubelet/pods/{UID}/containers/trainer/0a1b2c3d"),
        ] {
            let binds = [(sandbox.clone(), "/etc/hostname"), (root.clone(), "/data")];
            assert_eq!(found(&binds), Some(pod.clone()), "{root}");
        }
        let log = format!(
            "1 0 8:1 /var/lib/kubelet/pods/{UID}/containers/trainer/0a /dev/termination-log rw - ext4 a rw"
        );
        let mounts = parse(log.as_bytes(), &mut Strings::default());
        assert_eq!(name_in_pod(&mounts).as_deref(), Some("trainer"));
    }

    #[test]
    fn a_node_is_in_none_of_its_containers() {
        let volume = format!("/var/lib/kubelet/pods/{UID}/volumes/data");
        let on_node = format!("/var/lib/kubelet/pods/{UID}/volume-subpaths/data/trainer/0");
        let in_debugger = format!("/host{on_node}");
        assert_eq!(found(&[(volume.clone(), &on_node), (volume, &in_debugger)]), None);
        let docker = format!("/var/lib/docker/containers/{ID}/hostname");
        assert_eq!(found(&[(docker, "/mnt/hostname"), ("/etc/hosts".into(), "/etc/hosts")]), None);
    }
}
