//! What the plans need to know of the kernel, taken from its types once.

use std::collections::{HashMap, HashSet};

use iotrace_common::config::Offsets;

use super::plan::{Place, metrics};
use crate::{
    cli::AttachKind,
    kernel::{btf::Btf, layout},
};

/// Facts of the running kernel.
pub struct Kernel {
    /// Field offsets.
    pub offsets: Offsets,
    /// Tracepoints of the plans that exist, with the number of their arguments.
    pub tracepoints: HashMap<&'static str, u32>,
    /// Functions of the plans that exist, and of the helpers `bpf_get_current_task_btf` and `bpf_task_pt_regs`.
    pub functions: HashSet<String>,
    /// Ways to attach that are not tried (`--without`).
    pub without: Vec<AttachKind>,
    /// Since 7.0 programs on tracepoints run preemptible, and the kernel skips a program on a CPU where a preempted thread is
    /// in the middle of it. Nothing but the version tells.
    pub preempts_programs: bool,
    /// PG_head, the bit that marks the first page of a large folio.
    pub page_head_bit: u32,
    /// `task_struct.in_iowait` within its byte, as a mask.
    pub iowait_mask: u32,
    /// RQF_FLUSH_SEQ: a bit by number since 6.11, 1 << 4 before.
    pub flush_sequence_flag: u32,
}

impl Kernel {
    /// Reads the facts; the types themselves, several MB, are dropped.
    pub fn of(btf: Btf, without: &[AttachKind]) -> Self {
        let mut kernel = Self {
            offsets: layout::offsets(&btf),
            tracepoints: HashMap::new(),
            functions: HashSet::new(),
            without: without.to_vec(),
            page_head_bit: btf.enumerator("PG_head").unwrap_or(63),
            iowait_mask: btf.bit_of("task_struct", "in_iowait").map_or(0, |bit| 1 << (bit % 8)),
            preempts_programs: major_version() >= 7,
            flush_sequence_flag: 1 << btf.enumerator("__RQF_FLUSH_SEQ").unwrap_or(4),
        };
        let mut function = |name: &str| {
            if btf.has_function(name) {
                kernel.functions.insert(name.to_owned());
            }
        };
        function("bpf_get_current_task_btf");
        function("bpf_task_pt_regs");
        for spec in metrics().iter().flat_map(|m| &m.variants).flat_map(|v| &v.programs) {
            match &spec.place {
                Place::TpBtf(name) => {
                    if let Some(arity) = btf.tracepoint_arity(name) {
                        kernel.tracepoints.insert(name, arity);
                    }
                }
                Place::Event(..) => {}
                Place::Fentry(names) | Place::Fexit(names) | Place::Kprobe(names) => {
                    names.iter().for_each(|name| function(name));
                }
            }
        }
        kernel
    }
}

/// First number of `uname -r`; 0 when it cannot be read.
fn major_version() -> u32 {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
}
