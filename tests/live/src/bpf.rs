//! BPF objects that a process holds, and whether they are still loaded: by their ids, whatever they are called.

use std::collections::BTreeSet;
use std::fs;

/// A BPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A program.
    Program(u32),
    /// A map.
    Map(u32),
    /// A link.
    Link(u32),
}

/// Commands of bpf(2): BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_LINK_GET_FD_BY_ID.
const GET_FD: [libc::c_int; 3] = [13, 14, 30];

/// Objects behind the open files of `pid`.
pub fn held_by(pid: u32) -> BTreeSet<Object> {
    let mut objects = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("fdinfo of a running process") {
        let Ok(text) = fs::read_to_string(entry.expect("an entry").path()) else { continue };
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let Ok(id) = value.trim().parse() else { continue };
            match key {
                "prog_id" => objects.insert(Object::Program(id)),
                "map_id" => objects.insert(Object::Map(id)),
                "link_id" => objects.insert(Object::Link(id)),
                _ => false,
            };
        }
    }
    objects
}

impl Object {
    /// Whether the kernel still has it.
    pub fn is_loaded(self) -> bool {
        let (command, id) = match self {
            Self::Program(id) => (GET_FD[0], id),
            Self::Map(id) => (GET_FD[1], id),
            Self::Link(id) => (GET_FD[2], id),
        };
        // union bpf_attr of these commands: id, next_id, open_flags.
        let attr = [id, 0, 0];
        // SAFETY: the kernel reads the 12 bytes whose length is given.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), size_of_val(&attr)) };
        if fd >= 0 {
            // SAFETY: the descriptor was just opened and has no other owner.
            unsafe { libc::close(fd as libc::c_int) };
        }
        fd >= 0
    }
}
