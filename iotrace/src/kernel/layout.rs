//! Offsets of the struct fields the programs read, and the numbers of the system calls they follow, for this kernel.

use iotrace_common::{
    config::{ABSENT, Offsets, SYSCALL_TABLE},
    op::Form,
};

use super::btf::Btf;

/// Offsets for this kernel; `ABSENT` where a field does not exist.
pub fn offsets(btf: &Btf) -> Offsets {
    let at = |name: &str, path: &str| btf.offset_of(name, path).unwrap_or(ABSENT);
    Offsets {
        task_files: at("task_struct", "files"),
        task_group_leader: at("task_struct", "group_leader"),
        task_real_parent: at("task_struct", "real_parent"),
        task_start_time: at("task_struct", "start_time"),
        task_pid: at("task_struct", "pid"),
        task_tgid: at("task_struct", "tgid"),
        task_flags: at("task_struct", "flags"),
        task_comm: at("task_struct", "comm"),
        task_signal: at("task_struct", "signal"),
        task_thread_pid: at("task_struct", "thread_pid"),
        task_mm: at("task_struct", "mm"),
        task_exit_code: at("task_struct", "exit_code"),
        task_status: at("task_struct", "thread_info.status"),
        signal_live: at("signal_struct", "live.counter"),
        pid_level: at("pid", "level"),
        pid_numbers: at("pid", "numbers"),
        pid_namespace_inum: at("pid_namespace", "ns.inum"),
        mm_arg_start: at("mm_struct", "arg_start"),
        mm_arg_end: at("mm_struct", "arg_end"),
        files_fdt: at("files_struct", "fdt"),
        files_fd_array: at("files_struct", "fd_array"),
        fdtable_fd: at("fdtable", "fd"),
        fdtable_max_fds: at("fdtable", "max_fds"),
        file_inode: at("file", "f_inode"),
        inode_mode: at("inode", "i_mode"),
        inode_sb: at("inode", "i_sb"),
        inode_ino: at("inode", "i_ino"),
        inode_size: at("inode", "i_size"),
        inode_rdev: at("inode", "i_rdev"),
        inode_nlink: at("inode", "i_nlink"),
        file_pos: at("file", "f_pos"),
        file_dentry: at("file", "f_path.dentry"),
        file_mount: at("file", "f_path.mnt"),
        file_count: at("file", "f_count.counter"),
        file_ref: at("file", "f_ref.refcnt.counter"),
        mount_mnt: at("mount", "mnt"),
        mount_id: at("mount", "mnt_id"),
        dentry_parent: at("dentry", "d_parent"),
        dentry_inode: at("dentry", "d_inode"),
        dentry_name: at("dentry", "d_name.name"),
        mapping_host: at("address_space", "host"),
        fault_vma: at("vm_fault", "vma"),
        vma_file: at("vm_area_struct", "vm_file"),
        page_flags: btf.offset_of("page", "flags").unwrap_or(ABSENT),
        // Since 6.6 in the low byte of a word, before in a byte of its own; folios themselves came in 5.16.
        folio_order: ["_folio_order", "_flags_1"]
            .iter()
            .find_map(|m| btf.offset_of("folio", m))
            .unwrap_or(ABSENT),
        task_state: ["__state", "state"]
            .iter()
            .find_map(|m| btf.offset_of("task_struct", m))
            .unwrap_or(ABSENT),
        task_iowait: btf.bit_of("task_struct", "in_iowait").map_or(ABSENT, |bit| bit / 8),
        task_stack: at("task_struct", "stack"),
        uring_opcode: at("io_kiocb", "opcode"),
        uring_flags: at("io_kiocb", "flags"),
        uring_fd: at("io_kiocb", "cqe.fd"),
        uring_file: at("io_kiocb", "file"),
        cqe_res: at("io_uring_cqe", "res"),
        sb_dev: at("super_block", "s_dev"),
        sb_magic: at("super_block", "s_magic"),
        rq_q: at("request", "q"),
        rq_mq_hctx: at("request", "mq_hctx"),
        rq_cmd_flags: at("request", "cmd_flags"),
        rq_tag: at("request", "tag"),
        rq_internal_tag: at("request", "internal_tag"),
        rq_flags: at("request", "rq_flags"),
        rq_data_len: at("request", "__data_len"),
        rq_disk: at("request", "rq_disk"),
        q_disk: at("request_queue", "disk"),
        q_id: at("request_queue", "id"),
        hctx_queue_num: at("blk_mq_hw_ctx", "queue_num"),
        disk_major: at("gendisk", "major"),
        disk_first_minor: at("gendisk", "first_minor"),
    }
}

/// Fields a metric cannot do without that this kernel lacks, by name.
pub fn missing(offsets: &Offsets, metric: Need) -> Vec<&'static str> {
    macro_rules! absent {
        ($($field:ident)*) => {
            [$((stringify!($field), offsets.$field)),*]
                .into_iter().filter(|(_, offset)| *offset == ABSENT).map(|(name, _)| name).collect()
        };
    }
    match metric {
        Need::Files => {
            absent!(task_files files_fdt fdtable_fd fdtable_max_fds file_inode inode_mode inode_sb inode_ino
            inode_size inode_rdev sb_dev sb_magic)
        }
        Need::Waits => absent!(task_pid task_tgid task_state task_flags task_iowait task_stack),
        Need::Uring => absent!(uring_opcode uring_flags uring_fd uring_file cqe_res),
        Need::Faults => absent!(fault_vma vma_file file_inode inode_ino),
        Need::FaultMapping => absent!(mapping_host inode_ino),
        Need::Sessions => {
            absent!(inode_nlink file_dentry file_mount mount_mnt mount_id dentry_parent dentry_inode dentry_name)
        }
        Need::Block => {
            let mut names: Vec<_> = absent!(rq_q rq_mq_hctx rq_cmd_flags rq_tag rq_internal_tag rq_flags rq_data_len q_id hctx_queue_num disk_major disk_first_minor);
            if offsets.q_disk == ABSENT && offsets.rq_disk == ABSENT {
                names.push("q_disk or rq_disk");
            }
            names
        }
        Need::Processes => {
            absent!(task_group_leader task_real_parent task_start_time task_tgid task_flags task_comm
            task_signal signal_live)
        }
    }
}

/// Groups of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// From a descriptor to an inode.
    Files,
    /// Block requests.
    Block,
    /// Identity of processes.
    Processes,
    /// When a thread leaves its CPU.
    Waits,
    /// Requests of io_uring.
    Uring,
    /// The file behind a page fault.
    Faults,
    /// The same where only its mapping is at hand.
    FaultMapping,
    /// Names of files.
    Sessions,
}

/// Followed system calls of every architecture: form, and number here.
const COMMON_CALLS: &[Call] = &[
    (Form::Read, libc::SYS_read),
    (Form::Pread64, libc::SYS_pread64),
    (Form::Readv, libc::SYS_readv),
    (Form::Preadv, libc::SYS_preadv),
    (Form::Preadv2, libc::SYS_preadv2),
    (Form::Write, libc::SYS_write),
    (Form::Pwrite64, libc::SYS_pwrite64),
    (Form::Writev, libc::SYS_writev),
    (Form::Pwritev, libc::SYS_pwritev),
    (Form::Pwritev2, libc::SYS_pwritev2),
    (Form::Sendfile, libc::SYS_sendfile),
    (Form::Splice, libc::SYS_splice),
    (Form::CopyFileRange, libc::SYS_copy_file_range),
    (Form::Openat, libc::SYS_openat),
    (Form::Openat2, libc::SYS_openat2),
    (Form::Fstat, libc::SYS_fstat),
    (Form::Newfstatat, libc::SYS_newfstatat),
    (Form::Statx, libc::SYS_statx),
    (Form::Faccessat, libc::SYS_faccessat),
    (Form::Faccessat2, libc::SYS_faccessat2),
    (Form::Getdents64, libc::SYS_getdents64),
    (Form::Renameat, libc::SYS_renameat),
    (Form::Renameat2, libc::SYS_renameat2),
    (Form::Unlinkat, libc::SYS_unlinkat),
    (Form::Fsync, libc::SYS_fsync),
    (Form::Fdatasync, libc::SYS_fdatasync),
    (Form::SyncFileRange, libc::SYS_sync_file_range),
    (Form::Syncfs, libc::SYS_syncfs),
    (Form::Sync, libc::SYS_sync),
    (Form::Msync, libc::SYS_msync),
    (Form::Close, libc::SYS_close),
    (Form::CloseRange, libc::SYS_close_range),
    (Form::Truncate, libc::SYS_truncate),
    (Form::Ftruncate, libc::SYS_ftruncate),
    (Form::Fallocate, libc::SYS_fallocate),
    (Form::IoSubmit, libc::SYS_io_submit),
    (Form::IoGetevents, libc::SYS_io_getevents),
    (Form::IoPgetevents, IO_PGETEVENTS),
];

/// Those that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[Call] = &[
    (Form::Open, libc::SYS_open),
    (Form::Creat, libc::SYS_creat),
    (Form::Stat, libc::SYS_stat),
    (Form::Lstat, libc::SYS_lstat),
    (Form::Access, libc::SYS_access),
    (Form::Getdents, libc::SYS_getdents),
    (Form::Rename, libc::SYS_rename),
    (Form::Unlink, libc::SYS_unlink),
    (Form::Rmdir, libc::SYS_rmdir),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[Call] = &[];

/// Number of io_pgetevents, which the libc crate lacks.
const IO_PGETEVENTS: i64 = if cfg!(target_arch = "aarch64") { 292 } else { 333 };

/// Form and number.
pub type Call = (Form, i64);

/// Every followed system call.
pub fn calls() -> impl Iterator<Item = Call> {
    COMMON_CALLS.iter().chain(OLD_CALLS).copied()
}

/// Form by system call number.
pub fn form_by_syscall() -> [u8; SYSCALL_TABLE] {
    let mut table = [0; SYSCALL_TABLE];
    for (form, number) in calls() {
        table[number as usize] = form as u8;
    }
    table
}
