//! Processes as /proc shows them in iotrace's own pid namespace.

use std::{collections::HashMap, fs, path::Path};

/// What /proc/PID/status says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Command name.
    pub comm: Vec<u8>,
    /// Thread group; equals the pid for a process.
    pub tgid: u32,
    /// Parent.
    pub ppid: u32,
    /// Pids from this namespace inwards.
    pub ns_pids: Vec<u32>,
    /// No user memory: a kernel thread (or a zombie).
    pub without_memory: bool,
    /// A zombie.
    pub zombie: bool,
}

/// Status of a process; `None` when it does not exist.
pub fn status(pid: u32) -> Option<Status> {
    parse_status(&fs::read(format!("/proc/{pid}/status")).ok()?)
}

fn parse_status(text: &[u8]) -> Option<Status> {
    let mut status = Status { without_memory: true, ..Status::default() };
    for line in text.split(|&b| b == b'\n') {
        let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
        let value = line[colon + 1..].trim_ascii();
        let numbers = || {
            std::str::from_utf8(value).unwrap_or("").split_ascii_whitespace().map_while(|n| n.parse().ok())
        };
        match &line[..colon] {
            // The name is shown with newline and backslash escaped; the kernel side has it raw.
            b"Name" => status.comm = value.to_vec(),
            b"Tgid" => status.tgid = numbers().next()?,
            b"PPid" => status.ppid = numbers().next()?,
            b"NSpid" => status.ns_pids = numbers().collect(),
            b"VmSize" => status.without_memory = false,
            b"State" => status.zombie = value.starts_with(b"Z"),
            _ => {}
        }
    }
    (status.tgid != 0).then_some(status)
}

/// Command name as it is, any bytes.
pub fn comm(pid: u32) -> Option<Vec<u8>> {
    name_in(&format!("/proc/{pid}/comm"))
}

/// Name of a thread.
pub fn thread_comm(pid: u32, tid: u32) -> Option<Vec<u8>> {
    name_in(&format!("/proc/{pid}/task/{tid}/comm"))
}

fn name_in(path: &str) -> Option<Vec<u8>> {
    let mut comm = fs::read(path).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

/// Arguments; empty for kernel threads.
pub fn cmdline(pid: u32) -> Vec<Vec<u8>> {
    split_arguments(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
}

/// Splits NUL-ended arguments.
pub fn split_arguments(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|&b| b == 0).map(<[u8]>::to_vec).collect() }
}

/// Every process of this namespace.
pub fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Number of tasks (threads) in the system, from /proc/loadavg.
pub fn task_count() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// `roots` and all that descends from them.
pub fn descendants(roots: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in pids() {
        if let Some(status) = status(pid) {
            children.entry(status.ppid).or_default().push(pid);
        }
    }
    let mut found: Vec<u32> = Vec::new();
    let mut open = roots.to_vec();
    while let Some(pid) = open.pop() {
        if !found.contains(&pid) {
            found.push(pid);
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// Processes of a cgroup folder and of those below it.
pub fn cgroup_members(folder: &Path) -> std::io::Result<Vec<u32>> {
    let text = fs::read_to_string(folder.join("cgroup.procs"))?;
    let mut members: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            // A child removed meanwhile has no members.
            members.extend(cgroup_members(&entry.path()).unwrap_or_default());
        }
    }
    Ok(members)
}

/// Is iotrace in the initial pid namespace? (Its inode number is fixed: PROC_PID_INIT_INO.)
pub fn in_initial_pid_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.to_str() == Some("pid:[4026531836]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_nested_container_process() {
        let text = b"Name:\tpython\nState:\tS (sleeping)\nTgid:\t812\nPid:\t812\nPPid:\t9\nNSpid:\t812\t31\t1\nVmSize:\t 9 kB\n";
        let status = parse_status(text).unwrap();
        assert_eq!((status.tgid, status.ppid, status.ns_pids), (812, 9, vec![812, 31, 1]));
        assert!(!status.without_memory && !status.zombie);
        assert_eq!(parse_status(b"junk"), None);
    }

    #[test]
    fn this_process_is_its_own_only_root() {
        let pid = std::process::id();
        assert_eq!(status(pid).unwrap().tgid, pid);
        assert!(descendants(&[pid]).contains(&pid));
        assert!(!cmdline(pid).is_empty());
    }

    #[test]
    fn arguments_may_be_empty_or_unended() {
        assert_eq!(split_arguments(b"a\0\0b\0"), vec![b"a".to_vec(), b"".to_vec(), b"b".to_vec()]);
        assert_eq!(split_arguments(b"cut"), vec![b"cut".to_vec()]);
        assert!(split_arguments(b"").is_empty());
    }
}
