//! What a thread that sleeps in a system call waits for, by the number of the call on this architecture. Numbers are those
//! of the libc crate; those it lacks are named.

use iotrace_common::{config::SYSCALL_TABLE, ledger::CallClass};
use libc::*;

type Calls = &'static [(CallClass, &'static [c_long])];

/// io_pgetevents, futex_waitv and futex_wait, which the libc crate lacks on some architectures
/// (include/uapi/asm-generic/unistd.h, arch/x86/entry/syscalls/syscall_64.tbl).
const IO_PGETEVENTS: c_long = if cfg!(target_arch = "aarch64") { 292 } else { 333 };
const FUTEX_WAITV: c_long = 449;
const FUTEX_WAIT: c_long = 455;

/// Calls that every architecture has.
const COMMON: Calls = &[
    (CallClass::Read, &[SYS_read, SYS_pread64, SYS_readv, SYS_preadv, SYS_preadv2, SYS_readahead]),
    (CallClass::Read, &[SYS_splice, SYS_copy_file_range, SYS_vmsplice, SYS_tee]),
    (CallClass::ReadSecond, &[SYS_sendfile]),
    (CallClass::Write, &[SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_pwritev2]),
    (CallClass::Fsync, &[SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_syncfs, SYS_sync, SYS_msync]),
    (CallClass::Meta, &[SYS_openat, SYS_openat2, SYS_fstat, SYS_newfstatat, SYS_statx]),
    (CallClass::Meta, &[SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_statfs, SYS_fstatfs]),
    (CallClass::Meta, &[SYS_getdents64, SYS_chdir, SYS_name_to_handle_at, SYS_open_by_handle_at]),
    (CallClass::Meta, &[SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_linkat, SYS_symlinkat, SYS_mkdirat]),
    (CallClass::Meta, &[SYS_mknodat, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat]),
    (CallClass::Meta, &[SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_close, SYS_close_range]),
    (CallClass::Meta, &[SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_getxattr, SYS_lgetxattr]),
    (CallClass::Meta, &[SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr]),
    (CallClass::PollList, &[SYS_ppoll]),
    (CallClass::Poll, &[SYS_pselect6, SYS_epoll_pwait, SYS_epoll_pwait2]),
    (CallClass::Futex, &[SYS_futex, FUTEX_WAITV, FUTEX_WAIT]),
    (CallClass::Socket, &[SYS_accept, SYS_accept4, SYS_connect, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg]),
    (CallClass::Socket, &[SYS_sendto, SYS_sendmsg, SYS_sendmmsg]),
    (CallClass::Sleep, &[SYS_nanosleep, SYS_clock_nanosleep]),
    (CallClass::Ioctl, &[SYS_ioctl]),
    (CallClass::Async, &[SYS_io_getevents, IO_PGETEVENTS, SYS_io_uring_enter]),
];

/// Those that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OLD: Calls = &[
    (CallClass::Meta, &[SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents]),
    (CallClass::Meta, &[SYS_rename, SYS_unlink, SYS_rmdir, SYS_mkdir, SYS_link, SYS_symlink, SYS_mknod]),
    (CallClass::Meta, &[SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat]),
    (CallClass::PollList, &[SYS_poll]),
    (CallClass::Poll, &[SYS_select, SYS_epoll_wait]),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: Calls = &[];

/// Class ([`CallClass`]) by system call number.
pub fn class_by_syscall() -> [u8; SYSCALL_TABLE] {
    let mut table = [CallClass::Other as u8; SYSCALL_TABLE];
    for (class, numbers) in COMMON.iter().chain(OLD) {
        for &number in *numbers {
            table[number as usize] = *class as u8;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout;
    use iotrace_common::op::{DATA_FORMS, Form};

    #[test]
    fn no_call_is_of_two_classes() {
        let mut seen = std::collections::HashSet::new();
        for number in COMMON.iter().chain(OLD).flat_map(|(_, numbers)| *numbers) {
            assert!(seen.insert(*number), "{number}");
        }
    }

    #[test]
    fn every_followed_call_has_a_class() {
        let table = class_by_syscall();
        for (form, number) in layout::calls().filter(|(form, _)| *form != Form::IoSubmit) {
            let class = table[number as usize];
            assert_ne!(class, CallClass::Other as u8, "{form:?}");
            let moves_data = (form as usize) < DATA_FORMS;
            let of_data = [CallClass::Read, CallClass::ReadSecond, CallClass::Write];
            assert_eq!(moves_data, of_data.iter().any(|c| *c as u8 == class), "{form:?}");
        }
    }
}
