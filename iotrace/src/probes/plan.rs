//! What to attach where, best variant first.

use iotrace_common::op::Form;

use crate::kernel::layout::{CALL_PREFIX, Need, calls};

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
    let mut by_function = Vec::new();
    for (form, _, function) in calls() {
        let at = vec![format!("{CALL_PREFIX}{function}")];
        let (enter, exit) = twins(form);
        by_function.push(spec(exit, Place::Fexit(at.clone())));
        by_function.push(spec(enter, Place::Fentry(at)));
    }
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
            variant("fentry/fexit of each system call", by_function),
            variant("tp_btf sys_enter/sys_exit", vec![tp("sys_exit"), tp("sys_enter")]),
        ],
    }
}

fn waits() -> Metric {
    Metric {
        name: "waits",
        needs: &[Need::Waits],
        required: false,
        variants: vec![variant("tp_btf sched_switch", vec![tp("sched_switch")])],
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
            variant(
                "tp_btf mm_filemap_fault (no end: latency is time off the CPU)",
                vec![tp("mm_filemap_fault")],
            ),
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

/// Names of the programs on entry and end of a call.
fn twins(form: Form) -> (&'static str, &'static str) {
    macro_rules! names {
        ($($form:ident $enter:literal $exit:literal;)*) => {
            match form {
                $(Form::$form => ($enter, $exit),)*
                _ => unreachable!("no program for {form:?}"),
            }
        };
    }
    names! {
        Read "read_enter" "read_exit";
        Pread64 "pread64_enter" "pread64_exit";
        Readv "readv_enter" "readv_exit";
        Preadv "preadv_enter" "preadv_exit";
        Preadv2 "preadv2_enter" "preadv2_exit";
        Write "write_enter" "write_exit";
        Pwrite64 "pwrite64_enter" "pwrite64_exit";
        Writev "writev_enter" "writev_exit";
        Pwritev "pwritev_enter" "pwritev_exit";
        Pwritev2 "pwritev2_enter" "pwritev2_exit";
        Sendfile "sendfile_enter" "sendfile_exit";
        Splice "splice_enter" "splice_exit";
        CopyFileRange "copy_file_range_enter" "copy_file_range_exit";
        Openat "openat_enter" "openat_exit";
        Openat2 "openat2_enter" "openat2_exit";
        Fstat "fstat_enter" "fstat_exit";
        Newfstatat "newfstatat_enter" "newfstatat_exit";
        Statx "statx_enter" "statx_exit";
        Faccessat "faccessat_enter" "faccessat_exit";
        Faccessat2 "faccessat2_enter" "faccessat2_exit";
        Getdents64 "getdents64_enter" "getdents64_exit";
        Renameat "renameat_enter" "renameat_exit";
        Renameat2 "renameat2_enter" "renameat2_exit";
        Unlinkat "unlinkat_enter" "unlinkat_exit";
        Fsync "fsync_enter" "fsync_exit";
        Fdatasync "fdatasync_enter" "fdatasync_exit";
        SyncFileRange "sync_file_range_enter" "sync_file_range_exit";
        Syncfs "syncfs_enter" "syncfs_exit";
        Sync "sync_enter" "sync_exit";
        Msync "msync_enter" "msync_exit";
        Close "close_enter" "close_exit";
        CloseRange "close_range_enter" "close_range_exit";
        Truncate "truncate_enter" "truncate_exit";
        Ftruncate "ftruncate_enter" "ftruncate_exit";
        Fallocate "fallocate_enter" "fallocate_exit";
        Open "open_enter" "open_exit";
        Creat "creat_enter" "creat_exit";
        Stat "stat_enter" "stat_exit";
        Lstat "lstat_enter" "lstat_exit";
        Access "access_enter" "access_exit";
        Getdents "getdents_enter" "getdents_exit";
        Rename "rename_enter" "rename_exit";
        Unlink "unlink_enter" "unlink_exit";
        Rmdir "rmdir_enter" "rmdir_exit";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_write_program_sits_at_its_own_call() {
        let by_function = file_calls().variants.into_iter().find(|v| v.name.starts_with("fentry")).unwrap();
        for spec in &by_function.programs {
            let (Place::Fentry(names) | Place::Fexit(names)) = &spec.place else { panic!("{spec:?}") };
            let form = spec.program.trim_end_matches("_enter").trim_end_matches("_exit");
            let call =
                calls().find(|(f, ..)| twins(*f).0 == format!("{form}_enter")).map(|(.., function)| function);
            assert_eq!(names[0], format!("{CALL_PREFIX}{}", call.unwrap()), "{spec:?}");
        }
    }
}
