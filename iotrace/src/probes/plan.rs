//! What to attach where, best variant first.

use crate::kernel::layout::{CALL_PREFIX, CALLS, Need};

/// One thing iotrace measures, and the ways to.
pub struct Metric {
    /// Name in reports.
    pub name: &'static str,
    /// Struct fields it cannot do without.
    pub needs: &'static [Need],
    /// Without it there is no trace worth having.
    pub required: bool,
    /// Ways, best first.
    pub variants: Vec<Variant>,
}

/// One way: programs that only make sense together, in the order they are attached.
pub struct Variant {
    /// Name in reports.
    pub name: String,
    /// Programs.
    pub programs: Vec<Spec>,
    /// Only of use where the kernel preempts programs (see [`super::kernel::Kernel::preempts_programs`]).
    pub against_preemption: bool,
}

/// One program and its place.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name in the kernel object.
    pub program: &'static str,
    /// Where.
    pub place: Place,
}

/// Where a program is attached.
#[derive(Debug, Clone)]
pub enum Place {
    /// A raw tracepoint with typed arguments.
    TpBtf(&'static str),
    /// Entry of the first of these functions that exists.
    Fentry(Vec<String>),
    /// Return of the function.
    Fexit(Vec<String>),
    /// Entry, by breakpoint.
    Kprobe(Vec<String>),
    /// A tracepoint as a perf event, by category and name.
    Event(&'static str, &'static str),
}

fn spec(program: &'static str, place: Place) -> Spec {
    Spec { program, place }
}

fn tp(program: &'static str) -> Spec {
    spec(program, Place::TpBtf(program))
}

fn variant(name: impl Into<String>, programs: Vec<Spec>) -> Variant {
    Variant { name: name.into(), programs, against_preemption: false }
}

/// A variant that is tried only where the kernel preempts programs.
fn against_preemption(name: impl Into<String>, programs: Vec<Spec>) -> Variant {
    Variant { against_preemption: true, ..variant(name, programs) }
}

/// Every metric. The owner's come before the phases': where the first issue is the start, it must be seen before the issue.
pub fn metrics() -> Vec<Metric> {
    vec![process_tree(), block_owner(), block_phases(), block_merges(), read_write()]
}

fn process_tree() -> Metric {
    let once = vec![tp("sched_process_exit"), tp("sched_process_exec"), tp("sched_process_fork")];
    Metric {
        name: "process tree",
        needs: &[Need::Processes],
        required: true,
        variants: vec![
            against_preemption(
                "tp_btf sched_process_fork/exec/exit, twice",
                [once.clone(), AGAIN.map(|(program, place)| spec(program, Place::TpBtf(place))).to_vec()]
                    .concat(),
            ),
            variant("tp_btf sched_process_fork/exec/exit", once),
        ],
    }
}

/// Programs that are second copies of the one at the same place, so that what one misses the other sees.
pub const AGAIN: [(&str, &str); 3] = [
    ("sched_process_exit_again", "sched_process_exit"),
    ("sched_process_exec_again", "sched_process_exec"),
    ("sched_process_fork_again", "sched_process_fork"),
];

fn block_phases() -> Metric {
    Metric {
        name: "block phases",
        needs: &[Need::Block, Need::Processes],
        required: false,
        variants: vec![variant(
            "tp_btf block_rq_issue/complete/requeue",
            vec![tp("block_rq_complete"), tp("block_rq_requeue"), tp("block_rq_issue")],
        )],
    }
}

fn block_owner() -> Metric {
    // blk_account_io_start was split in 5.16/5.17: the inlined half calls the one with underscores.
    let accounting = || vec!["__blk_account_io_start".to_owned(), "blk_account_io_start".to_owned()];
    Metric {
        name: "block owner",
        needs: &[Need::Block, Need::Processes],
        required: false,
        variants: vec![
            variant("tp_btf block_io_start", vec![tp("block_io_start")]),
            variant(
                "fentry blk_account_io_start",
                vec![spec("account_start_fentry", Place::Fentry(accounting()))],
            ),
            variant(
                "kprobe blk_account_io_start",
                vec![spec("account_start_kprobe", Place::Kprobe(accounting()))],
            ),
            variant(
                "issuer: tp_btf block_rq_insert/issue",
                vec![
                    spec("start_at_insert", Place::TpBtf("block_rq_insert")),
                    spec("start_at_issue", Place::TpBtf("block_rq_issue")),
                ],
            ),
        ],
    }
}

fn block_merges() -> Metric {
    let bios = || vec![tp("block_bio_backmerge"), tp("block_bio_frontmerge")];
    Metric {
        name: "block merges",
        needs: &[Need::Block],
        required: false,
        variants: vec![
            variant("tp_btf block_rq_merge, block_bio_*merge", [vec![tp("block_rq_merge")], bios()].concat()),
            variant("tp_btf block_bio_*merge", bios()),
        ],
    }
}

fn read_write() -> Metric {
    const PROGRAMS: [(&str, &str); 13] = [
        ("read_enter", "read_exit"),
        ("pread64_enter", "pread64_exit"),
        ("readv_enter", "readv_exit"),
        ("preadv_enter", "preadv_exit"),
        ("preadv2_enter", "preadv2_exit"),
        ("write_enter", "write_exit"),
        ("pwrite64_enter", "pwrite64_exit"),
        ("writev_enter", "writev_exit"),
        ("pwritev_enter", "pwritev_exit"),
        ("pwritev2_enter", "pwritev2_exit"),
        ("sendfile_enter", "sendfile_exit"),
        ("splice_enter", "splice_exit"),
        ("copy_file_range_enter", "copy_file_range_exit"),
    ];
    let mut calls = Vec::new();
    for ((enter, exit), (_, _, call)) in PROGRAMS.into_iter().zip(CALLS) {
        let function = vec![format!("{CALL_PREFIX}{call}")];
        calls.push(spec(exit, Place::Fexit(function.clone())));
        calls.push(spec(enter, Place::Fentry(function)));
    }
    Metric {
        name: "read/write",
        needs: &[Need::Files, Need::Processes],
        required: true,
        variants: vec![
            against_preemption(
                "tracepoints raw_syscalls:sys_enter/sys_exit",
                vec![
                    spec("sys_exit_event", Place::Event("raw_syscalls", "sys_exit")),
                    spec("sys_enter_event", Place::Event("raw_syscalls", "sys_enter")),
                ],
            ),
            variant("fentry/fexit of each system call", calls),
            variant("tp_btf sys_enter/sys_exit", vec![tp("sys_exit"), tp("sys_enter")]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_write_program_sits_at_its_own_call() {
        let by_function = read_write().variants.into_iter().find(|v| v.name.starts_with("fentry")).unwrap();
        for spec in &by_function.programs {
            let (Place::Fentry(names) | Place::Fexit(names)) = &spec.place else { panic!("{spec:?}") };
            let form = spec.program.trim_end_matches("_enter").trim_end_matches("_exit");
            assert!(names[0].starts_with(&format!("{CALL_PREFIX}{form}")), "{spec:?}");
        }
    }
}
