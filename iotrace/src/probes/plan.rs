//! What to attach where, best variant first.

use crate::kernel::layout::Need;

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
    vec![
        process_tree(),
        block_owner(),
        block_phases(),
        block_merges(),
        waits(),
        page_cache(),
        faults(),
        uring(),
        file_calls(),
    ]
}

const PROCESS_TREE: &str = "process tree";

fn process_tree() -> Metric {
    let once = vec![tp("sched_process_exit"), tp("sched_process_exec"), tp("sched_process_fork")];
    Metric {
        name: PROCESS_TREE,
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

/// Name of the metric that system calls are.
pub const CALLS_METRIC: &str = "file calls";

fn file_calls() -> Metric {
    Metric {
        name: CALLS_METRIC,
        needs: &[Need::Files, Need::Sessions, Need::Processes],
        required: true,
        variants: vec![
            against_preemption(
                "tracepoints raw_syscalls:sys_enter/sys_exit",
                vec![
                    spec("sys_exit_event", Place::Event("raw_syscalls", "sys_exit")),
                    spec("sys_enter_event", Place::Event("raw_syscalls", "sys_enter")),
                ],
            ),
            variant("tp_btf sys_enter/sys_exit", vec![tp("sys_exit"), tp("sys_enter")]),
        ],
    }
}

/// Name of the metric that waits and ledgers are.
pub const WAITS_METRIC: &str = "waits";

fn waits() -> Metric {
    Metric {
        name: WAITS_METRIC,
        needs: &[Need::Waits],
        required: false,
        variants: vec![variant(
            "tp_btf sched_switch/wakeup/wakeup_new",
            vec![tp("sched_wakeup_new"), tp("sched_wakeup"), tp("sched_switch")],
        )],
    }
}

fn faults() -> Metric {
    let function = || vec!["filemap_fault".to_owned()];
    Metric {
        name: "mmap faults",
        needs: &[Need::Faults, Need::FaultMapping, Need::Processes],
        required: false,
        variants: vec![
            variant(
                "fentry/fexit filemap_fault",
                vec![
                    spec("fault_exit", Place::Fexit(function())),
                    spec("fault_enter", Place::Fentry(function())),
                ],
            ),
            variant("tp_btf mm_filemap_fault (no end: latency is time asleep)", vec![tp("mm_filemap_fault")]),
            variant(
                "kprobe/kretprobe filemap_fault",
                vec![
                    spec("fault_exit_kprobe", Place::Kprobe(function())),
                    spec("fault_enter_kprobe", Place::Kprobe(function())),
                ],
            ),
        ],
    }
}

fn uring() -> Metric {
    let with = |submit| vec![tp("io_uring_complete"), tp(submit)];
    Metric {
        name: "io_uring",
        needs: &[Need::Files, Need::Uring, Need::Processes],
        required: false,
        variants: vec![
            variant("tp_btf io_uring_submit_req/complete", with("io_uring_submit_req")),
            variant("tp_btf io_uring_submit_sqe/complete", with("io_uring_submit_sqe")),
        ],
    }
}

fn page_cache() -> Metric {
    Metric {
        name: "page cache",
        needs: &[],
        required: false,
        variants: vec![variant(
            "tp_btf mm_filemap_add_to_page_cache",
            vec![tp("mm_filemap_add_to_page_cache")],
        )],
    }
}
