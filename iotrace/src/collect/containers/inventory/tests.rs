//! A machine made for the test, with a container of each kind.

use super::{
    super::tests::{A, Root},
    *,
};

const HOST: &str = "cgroup:[4026531835]";
/// Of the same first 12 digits as [`A`].
const A2: &str = "4f66b8a7d2c0ffffffffffffffffffffffffffffffffffffffffffffffffffff";
const B: &str = "b1946ac92492d2347c6235b4d2611184f9c8a6f1d0e5b4c3a291807060504030";
const PAUSE: &str = "c0ffee0000000000000000000000000000000000000000000000000000000000";
const P: &str = "deadbeef00000000000000000000000000000000000000000000000000000000";
const UID: &str = "8dc1a1c5-3d3d-4f0f-9a52-0f6c2a0e9b11";
const SLICE: &str = "kubepods.slice/kubepods-pod8dc1a1c5_3d3d_4f0f_9a52_0f6c2a0e9b11.slice";
const UNIFIED: &str = "30 20 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

fn cgroup(root: &Root, folder: &str) {
    root.file(&format!("sys/fs/cgroup/{folder}/cgroup.procs"), "");
}

fn machine() -> Root {
    let root = Root::new(HOST);
    root.file("proc/self/mountinfo", UNIFIED);
    root.process(1, "0::/init.scope\n", 1, "");
    root.link("proc/self/ns/pid", "pid:[4026531836]");
    root.file("proc/1/root/etc/hostname", "node\n");
    root.file("proc/72/root/etc/hostname", "node\n");
    root.process(70, &format!("0::/system.slice/docker-{A}.scope\n"), 2, "");
    root.process(71, &format!("0::/system.slice/docker-{A}.scope/sub\n"), 2, "");
    root.file(
        &format!("var/lib/docker/containers/{A}/config.v2.json"),
        r#"{"Name": "/trainer-1", "ID": "x"}"#,
    );
    root.process(72, &format!("0::/system.slice/docker-{A2}.scope\n"), 3, "");
    root.file(&format!("var/lib/docker/containers/{A2}/config.v2.json"), r#"{"Name": "/trainer-2"}"#);
    root.process(80, &format!("0::/{SLICE}/cri-containerd-{B}.scope\n"), 4, "");
    root.file("proc/80/root/etc/hostname", "job-7f9c\n");
    root.file(&format!("var/log/containers/job-7f9c_ml_main-{B}.log"), "");
    root.process(81, &format!("0::/{SLICE}/cri-containerd-{PAUSE}.scope\n"), 5, "");
    root.process(90, &format!("0::/machine.slice/libpod-{P}.scope/container\n"), 6, "");
    root.process(91, &format!("0::/machine.slice/libpod-conmon-{P}.scope\n"), 1, "");
    root.file(
        "var/lib/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id": "{P}", "names": ["reader"]}}]"#),
    );
    for folder in [
        format!("system.slice/docker-{A}.scope"),
        format!("system.slice/docker-{A2}.scope"),
        SLICE.into(),
        format!("{SLICE}/cri-containerd-{B}.scope"),
        format!("machine.slice/libpod-{P}.scope"),
    ] {
        cgroup(&root, &folder);
    }
    root
}

fn chosen(root: &Root, given: &str) -> (Vec<u32>, Vec<String>) {
    let chosen = Inventory::read(&root.0).choose(given).unwrap_or_else(|error| panic!("{given}: {error}"));
    let folder = |path: &PathBuf| path.strip_prefix(&root.0).unwrap().display().to_string();
    (chosen.pids.clone(), chosen.folders.iter().map(folder).collect())
}

fn refused(root: &Root, given: &str) -> String {
    match Inventory::read(&root.0).choose(given) {
        Ok(chosen) => panic!("{given}: {chosen:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_container_is_chosen_by_id_or_name_or_their_beginnings() {
    let root = machine();
    let folder = format!("sys/fs/cgroup/system.slice/docker-{A}.scope");
    for given in [A, &A[..16], "trainer-1", "/trainer-1", &format!("docker://{A}")] {
        assert_eq!(chosen(&root, given), (vec![70, 71], vec![folder.clone()]), "{given}");
    }
    let folder = format!("sys/fs/cgroup/machine.slice/libpod-{P}.scope");
    for given in ["reader", "read", &P[..3]] {
        assert_eq!(chosen(&root, given), (vec![90], vec![folder.clone()]), "{given}: without its monitor");
    }
    let folder = format!("sys/fs/cgroup/{SLICE}/cri-containerd-{B}.scope");
    for given in ["main", B, "b1"] {
        assert_eq!(chosen(&root, given), (vec![80], vec![folder.clone()]), "{given}");
    }
}

#[test]
fn a_pod_is_all_its_containers() {
    let root = machine();
    for given in [UID, &UID[..8], "job-7f9c", "job-"] {
        let folder = format!("sys/fs/cgroup/{SLICE}");
        let (mut pids, folders) = chosen(&root, given);
        pids.sort_unstable();
        assert_eq!((pids, folders), (vec![80, 81], vec![folder]), "{given}");
    }
}

#[test]
fn none_and_several_are_listed() {
    let root = machine();
    let message = refused(&root, "nosuch");
    for word in [
        "nosuch",
        &A[..13],
        "trainer-1",
        "docker",
        "2 processes",
        &B[..12],
        "main, job-7f9c",
        "podman",
        "reader",
    ] {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
    let message = refused(&root, &A[..12]);
    assert!(message.contains(&A[..13]) && message.contains(&A2[..13]), "enough of the ids: {message}");
    assert!(!message.contains(&B[..12]), "only what matches: {message}");
    let message = refused(&root, "trainer");
    assert!(message.contains("trainer-1") && message.contains("trainer-2"), "{message}");
    assert!(message.contains(&format!("`iotrace attach --container {}`", &A[..13])), "{message}");
    refused(&root, "");
    refused(&root, "node");
    assert!(refused(&Root::new(HOST), "x").contains("--pid=host"));
}

#[test]
fn version_1_has_a_folder_in_each_hierarchy_and_one_will_do() {
    let root = Root::new(HOST);
    root.file(
        "proc/self/mountinfo",
        "31 20 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         32 20 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
         33 20 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );
    root.process(7, &format!("3:cpu,cpuacct:/docker/{A}\n2:pids:/docker/{A}\n0::/\n"), 2, "");
    cgroup(&root, &format!("pids/docker/{A}"));
    assert_eq!(chosen(&root, A), (vec![7], vec![format!("sys/fs/cgroup/pids/docker/{A}")]));
}

#[test]
fn a_hierarchy_of_which_a_part_is_mounted() {
    let root = Root::new(HOST);
    root.file("proc/self/mountinfo", "31 20 0:29 /docker /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
    root.process(7, &format!("2:pids:/docker/{A}\n"), 2, "");
    cgroup(&root, &format!("pids/{A}"));
    assert_eq!(chosen(&root, A).1, [format!("sys/fs/cgroup/pids/{A}")]);
}

#[test]
fn from_a_cgroup_namespace_the_folder_is_found_by_its_name() {
    let root = Root::new("cgroup:[4026532999]");
    root.file("proc/self/mountinfo", UNIFIED);
    root.process(1, "0::/../../init.scope\n", 1, "");
    root.process(7, &format!("0::/../docker-{A}.scope\n"), 2, "");
    assert_eq!(chosen(&root, A), (vec![7], vec![]), "processes alone, where the folder is not in sight");
    let folder = format!("host/sys/fs/cgroup/system.slice/docker-{A}.scope");
    root.file(&format!("{folder}/cgroup.procs"), "");
    assert_eq!(chosen(&root, A), (vec![7], vec![folder]));
}
