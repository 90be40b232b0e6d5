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

impl Metric {
    /// Whether it is of block requests, or says whose they are: what `--block-only` keeps.
    pub fn serves_block(&self) -> bool {
        self.needs.contains(&Need::Block) || self.name == PROCESS_TREE
    }
}

/// One way: programs that only make sense together, in the order they are attached.
pub struct Variant {
    /// Name in reports.
    pub name: String,
    /// Programs.
    pub programs: Vec<Spec>,
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
}

fn spec(program: &'static str, place: Place) -> Spec {
    Spec { program, place }
}

fn tp(program: &'static str) -> Spec {
    spec(program, Place::TpBtf(program))
}

fn variant(name: impl Into<String>, programs: Vec<Spec>) -> Variant {
    Variant { name: name.into(), programs }
}

/// Every metric. The owner's come before the phases': where the first issue is the start, it must be seen before the issue.
pub fn metrics() -> Vec<Metric> {
    vec![process_tree(), block_owner(), block_phases(), block_merges(), read_write()]
}

const PROCESS_TREE: &str = "process tree";

fn process_tree() -> Metric {
    Metric {
        name: PROCESS_TREE,
        needs: &[Need::Processes],
        required: true,
        variants: vec![variant(
            "tp_btf sched_process_fork/exec/exit",
            vec![tp("sched_process_exit"), tp("sched_process_exec"), tp("sched_process_fork")],
        )],
    }
}

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
        for spec in &read_write().variants[0].programs {
            let (Place::Fentry(names) | Place::Fexit(names)) = &spec.place else { panic!("{spec:?}") };
            let form = spec.program.trim_end_matches("_enter").trim_end_matches("_exit");
            assert!(names[0].starts_with(&format!("{CALL_PREFIX}{form}")), "{spec:?}");
        }
    }
}
