//! From /proc/PID/cgroup to a container: runtimes name the cgroups they make after the container's id, and the kubelet
//! names those above after the pod.

use crate::model::{Container, Runtime};

/// The container that the lines of /proc/PID/cgroup name: `0::PATH` in version 2, one line for each hierarchy in
/// version 1, both in hybrid systems. Where containers are nested it is the innermost.
pub fn container(text: &[u8]) -> Option<Container> {
    let found = paths(text).filter_map(|(_, path)| innermost(path));
    // Not every hierarchy follows into a nested container: the deepest knows best, the first of equals.
    found.reduce(|best, next| if next.depth > best.depth { next } else { best }).map(|found| found.container)
}

/// Controllers (`cpu,cpuacct`, `name=systemd`; empty in version 2) and path of each line.
pub fn paths(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&b| b == b'\n').filter_map(|line| {
        // Names may hold a colon: kubepods-besteffort-podUID.slice:cri-containerd:ID.
        let mut fields = line.splitn(3, |&b| b == b':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        // Of a process in a cgroup that was removed.
        Some((controllers, path.strip_suffix(b" (deleted)").unwrap_or(path)))
    })
}

/// The part of a cgroup's path that ends with the container `id`, or with the pod of that uid.
pub fn path_down_to<'a>(path: &'a [u8], id: &str) -> Option<&'a [u8]> {
    let mut end = 0;
    let mut found = None;
    for component in path.split(|&b| b == b'/') {
        end += component.len();
        let name = std::str::from_utf8(component).unwrap_or("");
        let named = id_in(name, None).is_some_and(|(_, known)| known == id)
            || lxc_name(name, None).is_some_and(|known| known == id)
            || pod_uid(name).is_some_and(|uid| uid == id);
        if named {
            found = Some(&path[..end]);
        }
        end += 1;
    }
    found
}

/// Is the process one that watches over a container from beside it (conmon, LXC's monitor)?
pub fn is_monitor(text: &[u8]) -> bool {
    const MARKS: [&[u8]; 3] = [b"crio-conmon-", b"libpod-conmon-", b"lxc.monitor."];
    paths(text).any(|(_, path)| {
        path.rsplit(|&b| b == b'/').next().is_some_and(|name| MARKS.iter().any(|mark| name.starts_with(mark)))
    })
}

struct Found {
    /// Number of the component of the path.
    depth: usize,
    container: Container,
}

fn innermost(path: &[u8]) -> Option<Found> {
    let names: Vec<_> = path.split(|&b| b == b'/').map(String::from_utf8_lossy).collect();
    let mut pod = None;
    let mut found = None;
    for (depth, name) in names.iter().enumerate() {
        let above = |levels: usize| depth.checked_sub(levels).map(|place| &*names[place]);
        if let Some(uid) = pod_uid(name) {
            pod = Some(uid);
            found =
                Some(Found { depth, container: Container { pod_uid: pod.clone(), ..Container::default() } });
        }
        let container = if let Some((runtime, id)) = id_in(name, above(1)) {
            let runtime = runtime.or_else(|| (above(2) == Some("ecs")).then_some(Runtime::Docker));
            Container { runtime, id: Some(id.to_owned()), pod_uid: pod.clone() }
        } else if let Some(id) = lxc_name(name, above(1)) {
            Container { runtime: Some(Runtime::Lxc), id: Some(id.to_owned()), pod_uid: pod.clone() }
        } else {
            continue;
        };
        found = Some(Found { depth, container });
    }
    found
}

/// The id in one component, and the runtime that names its cgroups so: `docker-ID.scope`, `ID` below `docker`.
fn id_in<'a>(name: &'a str, above: Option<&str>) -> Option<(Option<Runtime>, &'a str)> {
    // Under a runtime that was told the other driver: SLICE:cri-containerd:ID, system.slice:docker:ID.
    let (before, name) = name.rsplit_once(':').map_or((None, name), |(before, last)| (Some(before), last));
    let maker = before.map(|before| before.rsplit(':').next().unwrap_or(before));
    let name = name.strip_suffix(".scope").or_else(|| name.strip_suffix(".service")).unwrap_or(name);
    if is_id(name) {
        return Some((maker.or(above).and_then(runtime), name));
    }
    let (prefix, id) = name.rsplit_once('-')?;
    is_id(id).then(|| (runtime(prefix), id))
}

/// The names runtimes give to what they make.
fn runtime(name: &str) -> Option<Runtime> {
    Some(match name {
        // `moby` is Docker's namespace in containerd, `actions_job` that of GitHub's runners.
        "docker" | "moby" | "actions_job" => Runtime::Docker,
        // `k8s.io` and `default` are containerd's namespaces, under the driver cgroupfs.
        "cri-containerd" | "containerd" | "nerdctl" | "k8s.io" | "default" => Runtime::Containerd,
        // conmon watches over the container from a cgroup beside it.
        "crio" | "crio-conmon" | "cri-o" => Runtime::CriO,
        "libpod" | "libpod-conmon" | "libpod-payload" | "libpod_parent" => Runtime::Podman,
        _ => return None,
    })
}

fn lxc_name<'a>(name: &'a str, above: Option<&str>) -> Option<&'a str> {
    let named = ["lxc.payload.", "lxc.monitor."].iter().find_map(|prefix| name.strip_prefix(prefix));
    named.or_else(|| matches!(above, Some("lxc" | "lxc.payload")).then_some(name)).filter(|id| !id.is_empty())
}

/// Ids of containers are 64 lower-case hex digits.
pub fn is_id(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A pod's uid: `podUID` below `kubepods`, or `kubepods-burstable-podUID.slice` with underscores, for systemd takes a dash
/// in the name of a slice for a level.
fn pod_uid(name: &str) -> Option<String> {
    let name = name.split(':').next().unwrap_or(name);
    let uid = match name.strip_suffix(".slice") {
        Some(slice) if slice.contains("kubepods-") => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        Some(_) => return None,
        None => name.strip_prefix("pod")?.to_owned(),
    };
    is_pod_uid(&uid).then_some(uid)
}

/// A UUID, or the hash that the kubelet gives to a static pod.
pub fn is_pod_uid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = groups.iter().map(|group| group.len()).collect();
    groups.iter().all(|group| is_hex(group)) && matches!(lengths[..], [8, 4, 4, 4, 12] | [32])
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4f66b8a7d2c0e5913b7f0a9c8d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e";
    const B: &str = "b1946ac92492d2347c6235b4d2611184f9c8a6f1d0e5b4c3a291807060504030";
    const UID: &str = "8dc1a1c5-3d3d-4f0f-9a52-0f6c2a0e9b11";
    const SLICE_UID: &str = "8dc1a1c5_3d3d_4f0f_9a52_0f6c2a0e9b11";
    const STATIC_UID: &str = "d3f1c7e5a9b80246813579acebdf0f1e";

    fn found(text: &str) -> Option<(Option<&'static str>, Option<String>, Option<String>)> {
        container(text.as_bytes()).map(|c| (c.runtime.map(Runtime::name), c.id, c.pod_uid))
    }

    /// Text of /proc/PID/cgroup; runtime, id and pod that it tells.
    type Row<'a> = (String, Option<&'a str>, Option<&'a str>, Option<&'a str>);

    #[test]
    fn every_runtimes_paths() {
        let b = B;
        let pod = Some(UID);
        let table: &[Row] = &[
            // Version 2.
            (format!("0::/system.slice/docker-{A}.scope\n"), Some("docker"), Some(A), None),
            (format!("0::/docker/{A}\n"), Some("docker"), Some(A), None),
            (format!("0::/docker/{A}/init.scope"), Some("docker"), Some(A), None),
            (
                format!(
                    "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope/container"
                ),
                Some("podman"),
                Some(A),
                None,
            ),
            (format!("0::/machine.slice/libpod-{A}.scope"), Some("podman"), Some(A), None),
            (format!("0::/machine.slice/libpod-conmon-{A}.scope"), Some("podman"), Some(A), None),
            (format!("0::/system.slice/web.service/libpod-payload-{A}"), Some("podman"), Some(A), None),
            (format!("0::/libpod_parent/libpod-{A}"), Some("podman"), Some(A), None),
            (format!("0::/libpod_parent/{A}"), Some("podman"), Some(A), None),
            (format!("0::/system.slice/nerdctl-{A}.scope"), Some("containerd"), Some(A), None),
            (format!("0::/default/{A}"), Some("containerd"), Some(A), None),
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice/cri-containerd-{A}.scope"
                ),
                Some("containerd"),
                Some(A),
                pod,
            ),
            // A guaranteed pod has no slice of its class.
            (
                format!("0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/cri-containerd-{A}.scope"),
                Some("containerd"),
                Some(A),
                pod,
            ),
            (
                format!(
                    "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice/crio-{A}.scope/container"
                ),
                Some("cri-o"),
                Some(A),
                pod,
            ),
            (
                format!("0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-conmon-{A}.scope"),
                Some("cri-o"),
                Some(A),
                pod,
            ),
            (format!("0::/kubepods/burstable/pod{UID}/{A}"), None, Some(A), pod),
            (format!("0::/kubepods/pod{UID}/crio-{A}"), Some("cri-o"), Some(A), pod),
            (format!("0::/kubepods/burstable/pod{STATIC_UID}/{A}"), None, Some(A), Some(STATIC_UID)),
            (
                format!(
                    "0::/system.slice/containerd.service/kubepods-burstable-pod{SLICE_UID}.slice:cri-containerd:{A}"
                ),
                Some("containerd"),
                Some(A),
                pod,
            ),
            (format!("0::/kubepods/burstable/pod{UID}"), None, None, pod),
            ("0::/lxc.payload.web/init.scope".into(), Some("lxc"), Some("web"), None),
            ("0::/lxc/101/ns/system.slice/ssh.service".into(), Some("lxc"), Some("101"), None),
            // iotrace in a cgroup namespace of its own: a neighbour's path leads out of it.
            (format!("0::/../docker-{A}.scope"), Some("docker"), Some(A), None),
            (format!("0::/../../pod{UID}/{A}"), None, Some(A), pod),
            (format!("0::/../cri-containerd-{A}.scope"), Some("containerd"), Some(A), None),
            // A process whose cgroup is gone.
            (format!("0::/system.slice/docker-{A}.scope (deleted)"), Some("docker"), Some(A), None),
            // Nested: Docker in Docker, kind, Docker in a pod, Docker in LXC.
            (format!("0::/docker/{b}/docker/{A}"), Some("docker"), Some(A), None),
            (
                format!("0::/system.slice/docker-{b}.scope/system.slice/docker-{A}.scope"),
                Some("docker"),
                Some(A),
                None,
            ),
            (format!("0::/docker/{b}/kubelet/kubepods/besteffort/pod{UID}/{A}"), None, Some(A), pod),
            (
                format!(
                    "0::/system.slice/docker-{b}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{SLICE_UID}.slice/cri-containerd-{A}.scope"
                ),
                Some("containerd"),
                Some(A),
                pod,
            ),
            (format!("0::/kubepods/pod{UID}/{b}/docker/{A}"), Some("docker"), Some(A), pod),
            (format!("0::/lxc/101/docker/{A}"), Some("docker"), Some(A), None),
            // Version 1, and hybrid.
            (
                format!(
                    "12:memory:/docker/{A}\n11:cpu,cpuacct:/docker/{A}\n1:name=systemd:/docker/{A}\n0::/system.slice/containerd.service\n"
                ),
                Some("docker"),
                Some(A),
                None,
            ),
            (
                format!(
                    "5:pids:/kubepods.slice/kubepods-pod{SLICE_UID}.slice/docker-{A}.scope\n1:name=systemd:/kubepods.slice/kubepods-pod{SLICE_UID}.slice/docker-{A}.scope\n"
                ),
                Some("docker"),
                Some(A),
                pod,
            ),
            (format!("4:memory:/ecs/0123456789abcdef0123456789abcdef/{A}\n"), Some("docker"), Some(A), None),
            (
                // Not every hierarchy was handed into the inner container.
                format!(
                    "3:cpuset:/docker/{b}\n2:devices:/docker/{b}/docker/{A}\n1:name=systemd:/docker/{b}\n0::/\n"
                ),
                Some("docker"),
                Some(A),
                None,
            ),
            (format!("9:perf_event:/system.slice:docker:{A}\n"), Some("docker"), Some(A), None),
        ];
        for (text, runtime, id, pod_uid) in table {
            let want = (*runtime, id.map(str::to_owned), pod_uid.map(str::to_owned));
            assert_eq!(found(text), Some(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_container() {
        for text in [
            "",
            "0::/",
            "0::/../..",
            "0::/init.scope",
            "0::/user.slice/user-1000.slice/session-3.scope",
            "0::/system.slice/docker.service",
            "0::/system.slice/containerd.service",
            "0::/kubepods.slice/kubepods-burstable.slice",
            "0::/podman/podcast",
            "4:memory:/process_api/4c6c620fbe644188db939859c5211399\n0::/",
            // Too short, too long, upper case.
            &format!("0::/docker/{}", &A[..63]),
            &format!("0::/docker/{A}0"),
            &format!("0::/docker/{}", A.to_uppercase()),
            "garbage without colons",
            "0:",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(container(b"0::/\xff\xfe"), None);
    }

    #[test]
    fn the_cgroup_of_a_container_or_pod_is_found_in_a_longer_path() {
        let slice = format!("/kubepods.slice/kubepods-pod{SLICE_UID}.slice");
        let path = format!("{slice}/crio-{A}.scope/container");
        let down_to =
            |id: &str| path_down_to(path.as_bytes(), id).map(|p| String::from_utf8_lossy(p).into_owned());
        assert_eq!(down_to(A), Some(format!("{slice}/crio-{A}.scope")));
        assert_eq!(down_to(UID), Some(slice.clone()));
        assert_eq!(down_to(B), None);
    }
}
