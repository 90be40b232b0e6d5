//! What the loader tells the programs before they are verified: frozen globals, so constants to the verifier.

/// "This kernel has no such field." Never 0, which is a valid offset.
pub const ABSENT: u32 = u32::MAX;

/// Byte offsets of the struct fields the programs read, taken from the running kernel's BTF.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Offsets {
    /// `task_struct.files`
    pub task_files: u32,
    /// `task_struct.group_leader`
    pub task_group_leader: u32,
    /// `task_struct.real_parent`
    pub task_real_parent: u32,
    /// `task_struct.start_time`, ns of CLOCK_MONOTONIC
    pub task_start_time: u32,
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.flags`
    pub task_flags: u32,
    /// `task_struct.comm`
    pub task_comm: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `task_struct.thread_pid`
    pub task_thread_pid: u32,
    /// `task_struct.mm`
    pub task_mm: u32,
    /// `task_struct.exit_code`
    pub task_exit_code: u32,
    /// `task_struct.thread_info.status`, x86: TS_COMPAT marks a 32-bit call
    pub task_status: u32,
    /// `signal_struct.live.counter`: threads of the group not yet exiting
    pub signal_live: u32,
    /// `pid.level`
    pub pid_level: u32,
    /// `pid.numbers`
    pub pid_numbers: u32,
    /// `pid_namespace.ns.inum`
    pub pid_namespace_inum: u32,
    /// `mm_struct.arg_start`
    pub mm_arg_start: u32,
    /// `mm_struct.arg_end`
    pub mm_arg_end: u32,
    /// `files_struct.fdt`
    pub files_fdt: u32,
    /// `files_struct.fd_array`, the table of processes with no descriptor above 63
    pub files_fd_array: u32,
    /// `fdtable.fd`
    pub fdtable_fd: u32,
    /// `fdtable.max_fds`
    pub fdtable_max_fds: u32,
    /// `file.f_inode`
    pub file_inode: u32,
    /// `inode.i_mode`
    pub inode_mode: u32,
    /// `inode.i_sb`
    pub inode_sb: u32,
    /// `inode.i_ino`
    pub inode_ino: u32,
    /// `inode.i_size`
    pub inode_size: u32,
    /// `inode.i_rdev`
    pub inode_rdev: u32,
    /// `inode.i_nlink`
    pub inode_nlink: u32,
    /// `file.f_pos`
    pub file_pos: u32,
    /// `file.f_path.dentry`
    pub file_dentry: u32,
    /// `file.f_path.mnt`
    pub file_mount: u32,
    /// `file.f_count.counter`, before 6.13
    pub file_count: u32,
    /// `file.f_ref.refcnt.counter`, since 6.13
    pub file_ref: u32,
    /// `mount.mnt`
    pub mount_mnt: u32,
    /// `mount.mnt_id`
    pub mount_id: u32,
    /// `dentry.d_parent`
    pub dentry_parent: u32,
    /// `dentry.d_inode`
    pub dentry_inode: u32,
    /// `dentry.d_name.name`
    pub dentry_name: u32,
    /// `address_space.host`
    pub mapping_host: u32,
    /// `vm_fault.vma`
    pub fault_vma: u32,
    /// `vm_area_struct.vm_file`
    pub vma_file: u32,
    /// `folio.flags`, in all layouts the first word
    pub page_flags: u32,
    /// Byte that holds a large folio's order: `folio._flags_1` since 6.6, `folio._folio_order` before
    pub folio_order: u32,
    /// `task_struct.__state`, `state` before 5.14
    pub task_state: u32,
    /// Byte of `task_struct` that holds the bit `in_iowait`
    pub task_iowait: u32,
    /// `task_struct.stack`
    pub task_stack: u32,
    /// `io_kiocb.opcode`
    pub uring_opcode: u32,
    /// `io_kiocb.flags`
    pub uring_flags: u32,
    /// `io_kiocb.cqe.fd`
    pub uring_fd: u32,
    /// `io_kiocb.file`
    pub uring_file: u32,
    /// `io_uring_cqe.res`
    pub cqe_res: u32,
    /// `super_block.s_dev`
    pub sb_dev: u32,
    /// `super_block.s_magic`
    pub sb_magic: u32,
    /// `request.q`
    pub rq_q: u32,
    /// `request.mq_hctx`
    pub rq_mq_hctx: u32,
    /// `request.cmd_flags`
    pub rq_cmd_flags: u32,
    /// `request.tag`
    pub rq_tag: u32,
    /// `request.internal_tag`
    pub rq_internal_tag: u32,
    /// `request.rq_flags`
    pub rq_flags: u32,
    /// `request.__data_len`
    pub rq_data_len: u32,
    /// `request.rq_disk`, before 5.17
    pub rq_disk: u32,
    /// `request_queue.disk`, since 5.15
    pub q_disk: u32,
    /// `request_queue.id`
    pub q_id: u32,
    /// `blk_mq_hw_ctx.queue_num`
    pub hctx_queue_num: u32,
    /// `gendisk.major`
    pub disk_major: u32,
    /// `gendisk.first_minor`
    pub disk_first_minor: u32,
}

/// Number of fields of [`Offsets`].
pub const OFFSET_COUNT: usize = size_of::<Offsets>() / 4;

impl Offsets {
    /// Nothing known.
    pub const ABSENT: Self = {
        // SAFETY: every field is a u32.
        unsafe { core::mem::transmute::<[u32; OFFSET_COUNT], Self>([ABSENT; OFFSET_COUNT]) }
    };
}

/// Longest list of `--comm` names.
pub const COMM_FILTERS: usize = 8;

/// Most major numbers of GPUs: nvidia, nvidia-uvm, nvidia-caps, kfd.
pub const GPU_MAJORS: usize = 4;

/// Size of the table from system call number to form; numbers beyond are never reads or writes.
pub const SYSCALL_TABLE: usize = 512;

/// Choices of one run.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    /// Inode number of iotrace's own pid namespace.
    pub pid_namespace: u32,
    /// 1: every process is a target.
    pub trace_all: u32,
    /// 1: children of targets become targets.
    pub follow: u32,
    /// 1: processes of the cgroups in `CGROUPS` become targets when first seen.
    pub cgroup_count: u32,
    /// Bits `1 << op` of the read/write ops that are counted (thread::OP_*).
    pub op_mask: u32,
    /// Bits `1 << op` of the block ops that are counted (block::OP_*).
    pub block_op_mask: u32,
    /// 1: only devices present in `DEVICES` with `DEVICE_SELECTED` are counted.
    pub device_filter: u32,
    /// 1: only files on the devices of `FS_FILTER`; 2: only files below the folders of `PATH_FILTER`; 3: both.
    pub file_filter: u32,
    /// Names in use in `comms`; 0: no filter.
    pub comm_count: u32,
    /// 1: `bpf_get_current_task_btf` exists (5.11), so task fields are loaded directly.
    pub task_btf: u32,
    /// Argument of `block_rq_insert`, `block_rq_issue`, `block_rq_requeue` that is the request: 1 before 5.11, else 0.
    pub insert_arg: u32,
    /// As `insert_arg`.
    pub issue_arg: u32,
    /// As `insert_arg`.
    pub requeue_arg: u32,
    /// As `insert_arg`; `block_rq_merge` had the queue first until 5.11.
    pub merge_arg: u32,
    /// Entries of `IN_FLIGHT`, a power of two, less one.
    pub in_flight_mask: u32,
    /// 1: the kernel may skip the program at a request's start, which is then taken at its issue.
    pub recover_starts: u32,
    /// PG_head: bit of a page's flags that marks the first page of a large folio.
    pub page_head_bit: u32,
    /// 1: `bpf_task_pt_regs` exists (5.15).
    pub task_regs: u32,
    /// `in_iowait` within its byte, as a mask.
    pub iowait_mask: u32,
    /// 1: every thread of a target has a ledger.
    pub ledgers: u32,
    /// Major numbers of the devices of GPUs; 0: none.
    pub gpu_majors: [u32; GPU_MAJORS],
    /// Arguments of the tracepoint `io_uring_submit_sqe`.
    pub uring_submit_args: u32,
    /// Arguments of the tracepoint `io_uring_complete`.
    pub uring_complete_args: u32,
    /// RQF_FLUSH_SEQ, a bit of `request.rq_flags`.
    pub flush_sequence_flag: u32,
    /// Command names traced, NUL-padded.
    pub comms: [[u8; 16]; COMM_FILTERS],
}

impl Config {
    /// Everything off.
    pub const OFF: Self = Self {
        pid_namespace: 0,
        trace_all: 0,
        follow: 1,
        cgroup_count: 0,
        op_mask: u32::MAX,
        block_op_mask: u32::MAX,
        device_filter: 0,
        file_filter: 0,
        comm_count: 0,
        task_btf: 1,
        insert_arg: 0,
        issue_arg: 0,
        requeue_arg: 0,
        merge_arg: 0,
        in_flight_mask: 0,
        recover_starts: 0,
        task_regs: 0,
        iowait_mask: 0,
        ledgers: 0,
        gpu_majors: [0; GPU_MAJORS],
        uring_submit_args: 0,
        uring_complete_args: 0,
        page_head_bit: 0,
        flush_sequence_flag: 0,
        comms: [[0; 16]; COMM_FILTERS],
    };
}

/// What changes while a trace runs. Generation of the target set: per-CPU caches made under another sum are stale. Two counters, one a writer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RunState {
    /// Bumped by the programs when a target thread appears or ends.
    pub kernel: u64,
    /// Bumped by the loader when it adds targets.
    pub user: u64,
    /// iotrace's own process, never traced.
    pub own_tgid: u32,
    /// 1: calls and requests that begin now are counted. Set when everything is attached, cleared before anything is
    /// detached, so that what is seen to begin is seen to end.
    pub counting: u32,
    /// Ledgers were used up to this place.
    pub ledgers_used: u64,
}

const _: () = assert!(size_of::<Offsets>() == 4 * OFFSET_COUNT);
const _: () = assert!(size_of::<Config>() == 92 + 4 * GPU_MAJORS + 16 * COMM_FILTERS);

crate::pod!(Offsets, Config, RunState);
