//! From a file descriptor to what it stands for: kind, device, inode, size.
//!
//! The table of a process with no descriptor above 63 lies inside `files_struct`, so its pointers keep their type for
//! the verifier and every field is a direct load. That is done for the first 16: every typed load costs the verifier a
//! search of the kernel's types (0.3 ms). Other descriptors, larger tables and kernels before 5.11 go by helper.

use core::arch::asm;

use iotrace_common::thread::{Kind, Pending};

use crate::{
    maps::tally,
    mem::{config, field, offset, probe},
    target::{current_task, task_field},
};

/// Slots of the table inside `files_struct` (NR_OPEN_DEFAULT on 64-bit kernels).
const EMBEDDED_FDS: u32 = 64;

/// Descriptors found by direct load.
const TYPED_FDS: u32 = 16;

const S_IFMT: u16 = 0o170_000;
const S_IFIFO: u16 = 0o010_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFREG: u16 = 0o100_000;
const S_IFSOCK: u16 = 0o140_000;

/// What `fd` of the current process stands for. `known` is what the thread's last call found, on the same side.
#[inline(always)]
pub fn resolve(fd: u32, known: &Pending) -> Pending {
    let other = Pending { kind: Kind::Other as u32, ..Pending::default() };
    let files: u64 = task_field(current_task(), offset!(task_files));
    let fdt: u64 = task_field(files, offset!(files_fdt));
    let max_fds: u32 = task_field(fdt, offset!(fdtable_max_fds));
    if fd >= max_fds {
        return other;
    }
    if config!(task_btf) == 1 && max_fds == EMBEDDED_FDS && fd < TYPED_FDS {
        // SAFETY: pointer arithmetic the verifier checks.
        let table = unsafe { (files as *const u8).add(offset!(files_fd_array) as usize) } as u64;
        let file = embedded(table, fd);
        if file == 0 { other } else { describe::<true>(file) }
    } else {
        let table: u64 = task_field(fdt, offset!(fdtable_fd));
        match probe::<u64>(table, fd * 8) {
            Some(0) => other,
            Some(file) => again(file, known).unwrap_or_else(|| describe::<false>(file)),
            None => {
                tally!(lost_reads);
                other
            }
        }
    }
}

/// The same file as last time? Open files and inodes are reused, so all three of file, inode and inode number must agree.
/// Three helper calls in place of six.
#[inline(always)]
fn again(file: u64, known: &Pending) -> Option<Pending> {
    if file != known.file || probe::<u64>(file, offset!(file_inode)) != Some(known.inode) {
        return None;
    }
    let (ino, size) = (offset!(inode_ino), offset!(inode_size));
    let (ino, size) = if size == ino + 16 {
        let [ino, _, size]: [u64; 3] = probe(known.inode, ino)?;
        (ino, size)
    } else {
        (probe(known.inode, ino)?, probe(known.inode, size)?)
    };
    (ino == known.ino).then_some(Pending { size, ..*known })
}

#[inline(always)]
fn describe<const TYPED: bool>(file: u64) -> Pending {
    let inode: u64 = field::<TYPED, _>(file, offset!(file_inode));
    let mode: u16 = field::<TYPED, _>(inode, offset!(inode_mode));
    let mut pending = Pending { file, inode, kind: Kind::Other as u32, ..Pending::default() };
    pending.ino = field::<TYPED, _>(inode, offset!(inode_ino));
    let kind = match mode & S_IFMT {
        S_IFREG => {
            let sb: u64 = field::<TYPED, _>(inode, offset!(inode_sb));
            pending.dev = field::<TYPED, _>(sb, offset!(sb_dev));
            pending.size = field::<TYPED, _>(inode, offset!(inode_size));
            if stores_data(field::<TYPED, _>(sb, offset!(sb_magic))) { Kind::Regular } else { Kind::Pseudo }
        }
        S_IFBLK => {
            // The device it stands for, not the file system its node lies on.
            pending.dev = field::<TYPED, _>(inode, offset!(inode_rdev));
            Kind::BlockDevice
        }
        S_IFIFO => Kind::Pipe,
        S_IFSOCK => Kind::Socket,
        S_IFCHR => Kind::Char,
        _ => Kind::Other,
    };
    pending.kind = kind as u32;
    pending
}

/// File systems whose regular files are kernel interfaces (numbers: include/uapi/linux/magic.h).
#[inline(always)]
fn stores_data(magic: u64) -> bool {
    !matches!(
        magic as u32,
        0x9fa0 // proc
            | 0x6265_6572 // sysfs
            | 0x6462_6720 // debugfs
            | 0x7472_6163 // tracefs
            | 0x7363_6673 // securityfs
            | 0xf97c_ff8c // selinuxfs
            | 0x27_e0eb // cgroup
            | 0x6367_7270 // cgroup2
            | 0xcafe_4a11 // bpf
            | 0x6165_676c // pstore
            | 0x6265_6570 // configfs
            | 0xde5e_81e4 // efivarfs
            | 0x4249_4e4d // binfmt_misc
    )
}

/// `table[fd]` for fd < 16. A typed pointer cannot be indexed by a variable, so each slot has a load of its own at the
/// end of four comparisons; assembly, because the compiler would fold them back into one indexed load.
#[inline(always)]
fn embedded(table: u64, fd: u32) -> u64 {
    macro_rules! slots {
        ($($n:literal)*) => {
            match fd {
                $($n => {
                    let file: u64;
                    // SAFETY: the verifier checks the load; faults read as 0.
                    unsafe { asm!("{0} = *(u64 *)({1} + {2})", out(reg) file, in(reg) table, const $n * 8) };
                    file
                })*
                _ => 0,
            }
        };
    }
    slots!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}

/// Size of the inode now; `otherwise` when it cannot be read.
#[inline(always)]
pub fn size_now(inode: u64, otherwise: u64) -> u64 {
    probe(inode, offset!(inode_size)).unwrap_or(otherwise)
}

/// First `count` lengths of an io vector of the current process summed, `UNKNOWN_SIZE` when it is too long or unreadable.
/// Out of line, so that calls without a vector do not pay for its stack.
#[inline(never)]
pub fn iovec_bytes(iov: u64, count: u64) -> u64 {
    const FOLLOWED: usize = 8;
    if count as usize > FOLLOWED || count == 0 {
        return iotrace_common::thread::UNKNOWN_SIZE;
    }
    let mut lengths = core::mem::MaybeUninit::<[[u64; 2]; FOLLOWED]>::uninit();
    let lengths = {
        let first = lengths.as_mut_ptr().cast::<u64>();
        for index in 0..2 * FOLLOWED {
            // SAFETY: our own array. Volatile, or the compiler makes it a memset, which BPF does byte by byte.
            unsafe { core::ptr::write_volatile(first.add(index), 0) };
        }
        // SAFETY: every element was written.
        unsafe { lengths.assume_init_mut() }
    };
    // SAFETY: at most the size of `lengths`.
    let error = unsafe {
        aya_ebpf::helpers::generated::bpf_probe_read_user(
            lengths.as_mut_ptr().cast(),
            (count as u32 & 15) * 16,
            iov as *const _,
        )
    };
    if error != 0 {
        return iotrace_common::thread::UNKNOWN_SIZE;
    }
    let mut sum = 0;
    for [_, length] in &*lengths {
        sum += *length;
    }
    sum
}
