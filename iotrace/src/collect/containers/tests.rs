//! Processes of a root directory made for the test.

use std::{os::unix::fs::symlink, sync::atomic::AtomicU32};

use super::*;
use crate::model::Runtime;

/// Ids of containers.
pub const A: &str = "4f66b8a7d2c0e5913b7f0a9c8d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e";

/// A root directory of the test's own.
pub struct Root(pub PathBuf);

impl Root {
    /// An empty one, but for iotrace's own cgroup namespace.
    pub fn new(cgroup_namespace: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root =
            Self(std::env::temp_dir().join(format!("iotrace-containers-{}-{number}", std::process::id())));
        root.link("proc/self/ns/cgroup", cgroup_namespace);
        root
    }

    /// A file with its folders.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A symbolic link with its folders.
    pub fn link(&self, path: &str, to: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::remove_file(&path).ok();
        symlink(to, path).unwrap();
    }

    /// A process.
    pub fn process(&self, pid: u32, cgroup: &str, mount_namespace: u32, mounts: &str) {
        self.file(&format!("proc/{pid}/cgroup"), cgroup);
        self.file(&format!("proc/{pid}/mountinfo"), mounts);
        self.link(&format!("proc/{pid}/ns/mnt"), &format!("mnt:[{mount_namespace}]"));
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn docker_mount(id: &str) -> String {
    format!("9 1 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n")
}

fn in_docker() -> Option<Whereabouts> {
    let docker = Container { runtime: Some(Runtime::Docker), id: Some(A.into()), pod_uid: None };
    Some(Whereabouts::In(Arc::new(docker)))
}

#[test]
fn on_the_host_cgroups_tell() {
    let root = Root::new(INITIAL_CGROUP_NAMESPACE);
    root.process(1, "0::/init.scope\n", 1, "");
    root.process(7, &format!("0::/system.slice/docker-{A}.scope\n"), 2, "");
    root.process(8, "0::/user.slice\n", 1, &docker_mount(A));
    let mut containers = Containers::under(&root.0);
    assert_eq!(containers.of(7), in_docker());
    assert_eq!(containers.of(8), Some(Whereabouts::Outside), "its mounts are the host's");
    assert_eq!(containers.of(9), None, "gone");
}

#[test]
fn a_container_without_a_cgroup_of_its_own_is_known_by_its_mounts() {
    let root = Root::new(INITIAL_CGROUP_NAMESPACE);
    root.process(1, "0::/init.scope\n", 1, "");
    root.process(7, "0::/user.slice/user-1000.slice\n", 2, &docker_mount(A));
    root.process(8, "0::/system.slice/a.service\n", 3, "9 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let mut containers = Containers::under(&root.0);
    assert_eq!(containers.of(7), in_docker());
    assert_eq!(containers.of(8), Some(Whereabouts::Outside), "a service with mounts of its own");
}

#[test]
fn inside_a_container_mounts_or_the_host_name_tell() {
    let root = Root::new("cgroup:[4026532999]");
    // Process 1 is the container's own, of the same namespace.
    root.process(1, "0::/\n", 5, &docker_mount(A));
    root.process(7, "0::/\n", 6, "");
    root.process(8, "0::/sub\n", 7, "");
    root.process(9, &format!("0::/../docker-{A}.scope\n"), 8, "");
    root.file("proc/7/root/etc/hostname", "4f66b8a7d2c0\n");
    root.file("proc/8/root/etc/hostname", "trainer\n");
    let mut containers = Containers::under(&root.0);
    assert_eq!(containers.of(1), in_docker());
    let short = Container { id: Some("4f66b8a7d2c0".into()), ..Container::default() };
    assert_eq!(containers.of(7), Some(Whereabouts::In(Arc::new(short))));
    assert_eq!(containers.of(8), Some(Whereabouts::Unknown));
    assert_eq!(containers.of(9), in_docker());
}

#[test]
fn in_a_debug_container_that_sees_the_hosts_pids_the_host_is_known() {
    let root = Root::new("cgroup:[4026532999]");
    root.link("proc/self/ns/pid", INITIAL_PID_NAMESPACE);
    root.process(1, "0::/../../init.scope\n", 1, "");
    root.process(7, "0::/../../user.slice\n", 1, "");
    root.process(8, "0::/../../system.slice/a.service\n", 2, "");
    let uid = "8dc1a1c5-3d3d-4f0f-9a52-0f6c2a0e9b11";
    let hosts = format!("9 1 8:1 /var/lib/kubelet/pods/{uid}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n");
    root.process(9, &format!("0::/../cri-containerd-{A}.scope\n"), 3, &hosts);
    let mut containers = Containers::under(&root.0);
    assert_eq!(containers.of(7), Some(Whereabouts::Outside), "its mounts are the host's");
    assert_eq!(containers.of(8), Some(Whereabouts::Unknown));
    let neighbour =
        Container { runtime: Some(Runtime::Containerd), id: Some(A.into()), pod_uid: Some(uid.into()) };
    assert_eq!(containers.of(9), Some(Whereabouts::In(Arc::new(neighbour))), "of iotrace's own pod");
}

#[test]
fn a_process_that_entered_a_container_is_seen_there_at_the_end() {
    let root = Root::new(INITIAL_CGROUP_NAMESPACE);
    root.process(7, &format!("0::/docker/{A}\n"), 2, "");
    let outside = Arc::new(Container { pod_uid: Some("x".into()), ..Container::default() });
    let process =
        |pid, exited| Process { pid, exited, container: Some(Arc::clone(&outside)), ..Process::default() };
    let mut processes = [process(7, false), process(7, true), process(8, false)];
    let mut containers = Containers::under(&root.0);
    assert_eq!(containers.look_again(&mut processes, Some), 0);
    assert_eq!(processes[0].container, in_docker().and_then(Whereabouts::container));
    assert_eq!(processes[1].container.as_ref(), Some(&outside), "one that has ended is left alone");
    assert_eq!(processes[2].container.as_ref(), Some(&outside), "one that cannot be found too");
}
