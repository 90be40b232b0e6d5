//! Pids of iotrace's own namespace and pids of the initial one, which the kernel side uses. In the initial namespace they
//! are the same; in a nested one a BPF iterator over all processes tells.

use std::{collections::HashMap, fs, io::Read as _};

use aya::{Btf, Ebpf, programs::Program};

use super::procfs;
use crate::probes::attach;

/// Translation between the two.
pub enum Pids {
    /// The same.
    Initial,
    /// By iterator.
    Nested {
        /// Host pid by own pid.
        host: HashMap<u32, u32>,
        /// Why the kernel does not allow the iterator.
        refused: Option<String>,
    },
}

impl Pids {
    /// Finds out which case this is; loads the iterator if it is needed.
    pub fn new(ebpf: &mut Ebpf, btf: &Btf) -> Self {
        if procfs::in_initial_pid_namespace() {
            return Self::Initial;
        }
        let refused = load_walk(ebpf, PROGRAM, btf).err();
        let mut pids = Self::Nested { host: HashMap::new(), refused };
        pids.refresh(ebpf);
        pids
    }

    /// Looks again, for processes made since.
    pub fn refresh(&mut self, ebpf: &mut Ebpf) {
        let Self::Nested { host, refused } = self else { return };
        if refused.is_some() {
            return;
        }
        match walk(ebpf, PROGRAM) {
            Ok(bytes) => *host = pairs(&bytes),
            Err(error) => *refused = Some(error),
        }
    }

    /// The initial namespace's pid of one of ours.
    pub fn to_host(&self, pid: u32) -> Option<u32> {
        match self {
            Self::Initial => Some(pid),
            Self::Nested { host, .. } => host.get(&pid).copied(),
        }
    }

    /// Why pids cannot be translated.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Nested { refused: Some(refused), .. } => Some(refused),
            _ => None,
        }
    }

    /// Our pid of one of the initial namespace's; `None` when it is not visible here.
    pub fn from_host(&self, pid: u32) -> Option<u32> {
        match self {
            Self::Initial => Some(pid),
            Self::Nested { host, .. } => host.iter().find(|(_, outer)| **outer == pid).map(|(own, _)| *own),
        }
    }
}

/// Name of the walk in the kernel object.
const PROGRAM: &str = "pids_of_namespace";

/// Loads a program that walks over all tasks.
pub fn load_walk(ebpf: &mut Ebpf, program: &str, btf: &Btf) -> Result<(), String> {
    match ebpf.program_mut(program) {
        Some(Program::Iter(program)) => program.load("task", btf).map_err(|error| attach::describe(&error)),
        _ => Err("not in the kernel object".to_owned()),
    }
}

/// Walks over all tasks by a program that is loaded, and returns what it wrote. The link lives as long as it takes.
pub fn walk(ebpf: &mut Ebpf, program: &str) -> Result<Vec<u8>, String> {
    let Some(Program::Iter(program)) = ebpf.program_mut(program) else { return Ok(Vec::new()) };
    let link =
        program.attach().and_then(|id| program.take_link(id)).map_err(|error| attach::describe(&error))?;
    let mut file = link.into_file().map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn pairs(bytes: &[u8]) -> HashMap<u32, u32> {
    let word = |b: &[u8]| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
    bytes.chunks_exact(8).map(|pair| (word(pair), word(&pair[4..]))).collect()
}

/// Inode number of iotrace's own pid namespace.
pub fn own_namespace() -> Option<u32> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}
