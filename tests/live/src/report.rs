//! The JSON report by its contract: a missing field fails the test that asks for it.

use std::sync::LazyLock;

use serde_json::Value;

/// A report of iotrace.
pub struct Report(pub Value);

/// In a virtual machine of the matrix?
fn emulated() -> bool {
    std::env::var_os("IOTRACE_VM").is_some()
}

/// The loss counter of skipped runs.
const SKIPPED_RUNS: &str = "program_runs_skipped";

impl Report {
    /// The process of this pid, as the pid namespace of the test sees it.
    ///
    /// # Panics
    /// When it is not in the report.
    pub fn process(&self, pid: u64) -> Process<'_> {
        self.find(pid).unwrap_or_else(|| {
            let known: Vec<_> = self.processes().map(|p| format!("{} {}", p.pid(), p.comm())).collect();
            panic!("no pid {pid} in the report; it has {known:?}")
        })
    }

    /// The process of this pid, if the report has it.
    pub fn find(&self, pid: u64) -> Option<Process<'_>> {
        self.processes().find(|process| process.pid() == pid)
    }

    /// Every process.
    pub fn processes(&self) -> impl Iterator<Item = Process<'_>> {
        self.list("/processes").iter().map(Process)
    }

    /// Every process of this name.
    pub fn named(&self, comm: &str) -> Vec<Process<'_>> {
        self.processes().filter(|process| process.comm() == comm).collect()
    }

    /// A number by JSON pointer.
    pub fn num(&self, pointer: &str) -> u64 {
        num(&self.0, pointer)
    }

    /// A count of block-layer events, e.g. `started`.
    pub fn block(&self, counter: &str) -> u64 {
        self.num(&format!("/block/{counter}"))
    }

    /// A list by JSON pointer.
    pub fn list(&self, pointer: &str) -> &[Value] {
        let list = self.0.pointer(pointer).and_then(Value::as_array);
        list.unwrap_or_else(|| panic!("the report has no list {pointer}"))
    }

    /// Sum over the processes that `keep` takes of a number by JSON pointer.
    pub fn sum(&self, keep: impl Fn(&Process<'_>) -> bool, pointer: &str) -> u64 {
        self.processes().filter(keep).map(|process| process.num(pointer)).sum()
    }

    /// Checks that every loss counter is there and 0. Runs that the kernel skips because the program interrupted itself
    /// are left to [`Report::skipped_runs`] in a virtual machine: an emulated CPU spends a hundred times longer in each.
    pub fn assert_nothing_lost(&self) {
        let lost = self.0.get("lost").and_then(Value::as_object).expect("the report has no object lost");
        assert!(!lost.is_empty(), "no loss counters at all");
        let allowed = |cause: &str| emulated() && cause == SKIPPED_RUNS;
        assert!(
            lost.iter().all(|(cause, count)| count.as_u64() == Some(0) || allowed(cause)),
            "lost: {lost:?}"
        );
    }

    /// How many calls a process may lack: the runs of programs on calls and processes that the kernel skipped, in a virtual
    /// machine; 0 elsewhere. Kernels that preempt a program (7.x) skip it for other threads of that CPU until it goes on.
    pub fn excusable(&self) -> u64 {
        if !emulated() || self.skipped_runs() == 0 {
            return 0;
        }
        let skipped: Vec<_> = self
            .list("/overhead/programs")
            .iter()
            .map(|program| (text(program, "/name"), num(program, "/runs_skipped")))
            .filter(|(_, runs)| *runs > 0)
            .collect();
        println!("runs skipped by the kernel: {skipped:?}");
        let of_requests =
            |name: &str| ["block_", "account_", "start_at_"].iter().any(|p| name.starts_with(p));
        skipped.iter().filter(|(name, _)| !of_requests(name)).map(|(_, runs)| runs).sum()
    }

    /// Runs of programs that the kernel skipped.
    pub fn skipped_runs(&self) -> u64 {
        num(&self.0, &format!("/lost/{SKIPPED_RUNS}"))
    }

    /// Checks that every request whose start was seen is accounted for.
    pub fn assert_block_ledger(&self) {
        let ends = ["completed", "merged_requests", "abandoned", "in_flight_at_end"];
        let sum: u64 = ends.iter().map(|counter| self.block(counter)).sum();
        assert_eq!(self.block("started"), sum, "starts are not {ends:?}: {}", self.0["block"]);
    }

    /// Block requests of every process and of everybody else: a number of each `block.<op>`, e.g. `count`.
    pub fn block_total(&self, op: &str, number: &str) -> u64 {
        let others = num_or_zero(&self.0, &format!("/others/block/{op}/{number}"));
        others + self.sum(|_| true, &format!("/block/{op}/{number}"))
    }
}

/// One process of a report.
#[derive(Clone, Copy)]
pub struct Process<'a>(pub &'a Value);

impl<'a> Process<'a> {
    /// Its pid as the test sees it: in the initial namespace, or in its own where the tests run in a container.
    pub fn pid(&self) -> u64 {
        self.num(if in_initial_pid_namespace() { "/pid" } else { "/ns_pid" })
    }

    /// Its name.
    pub fn comm(&self) -> &'a str {
        text(self.0, "/comm")
    }

    /// Whether it was gone before the end of the trace.
    pub fn exited(&self) -> bool {
        self.flag("/exited")
    }

    /// Whether it is a kernel thread.
    pub fn kernel_thread(&self) -> bool {
        self.flag("/kernel_thread")
    }

    /// A number by JSON pointer, e.g. `/ops/read/count`.
    pub fn num(&self, pointer: &str) -> u64 {
        num(self.0, pointer)
    }

    /// Its block requests by device, operation and flags.
    pub fn block_detail(&self) -> &'a [Value] {
        self.0.pointer("/block_detail").and_then(Value::as_array).expect("a process has no list block_detail")
    }

    fn flag(&self, pointer: &str) -> bool {
        let flag = self.0.pointer(pointer).and_then(Value::as_bool);
        flag.unwrap_or_else(|| panic!("no flag {pointer} in {}", self.0))
    }
}

/// Whether the test's pids are those of the initial namespace, whose inode number is fixed (PROC_PID_INIT_INO).
fn in_initial_pid_namespace() -> bool {
    use std::os::unix::fs::MetadataExt;
    static INITIAL: LazyLock<bool> = LazyLock::new(|| {
        std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == 0xefff_fffc)
    });
    *INITIAL
}

/// The number at `pointer`.
///
/// # Panics
/// When there is none.
pub fn num(value: &Value, pointer: &str) -> u64 {
    let number = value.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_else(|| panic!("no number at {pointer} in {value}"))
}

/// The number at `pointer`; 0 where nothing is there, as kinds that saw nothing may be left out.
pub fn num_or_zero(value: &Value, pointer: &str) -> u64 {
    value
        .pointer(pointer)
        .map_or(0, |found| found.as_u64().unwrap_or_else(|| panic!("{pointer} is no number: {found}")))
}

/// The string at `pointer`.
///
/// # Panics
/// When there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let string = value.pointer(pointer).and_then(Value::as_str);
    string.unwrap_or_else(|| panic!("no string at {pointer} in {value}"))
}
