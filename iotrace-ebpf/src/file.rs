//! From a file descriptor to what it stands for: kind, device, inode, size.
//!
//! The table of a process with no descriptor above 63 lies inside `files_struct`, so its pointers keep their type for
//! the verifier and every field is a direct load. That is done for the first 16: every typed load costs the verifier a
//! search of the kernel's types (0.3 ms). Other descriptors, larger tables and kernels before 5.11 go by helper.

use core::arch::asm;

use iotrace_common::{
    file::{FileSlot, FolderKey},
    thread::{Kind, Seen, ThreadSlot},
};

use crate::{
    maps::{FS_FILTER, PATH_FILTER, tally},
    mem::{config, field, offset, probe},
    target::{current_task, slot_at, task_field},
};

/// Slots of the table inside `files_struct` (NR_OPEN_DEFAULT on 64-bit kernels).
const EMBEDDED_FDS: u32 = 64;

/// Descriptors found by direct load.
const TYPED_FDS: u32 = 16;

/// Folders above a file that `--path` looks at.
const PATH_DEPTH: usize = 40;

const S_IFMT: u16 = 0o170_000;
const S_IFIFO: u16 = 0o010_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFREG: u16 = 0o100_000;
const S_IFSOCK: u16 = 0o140_000;

/// Looks up what `fd` of the current process stands for and puts it into `slot.seen`; `false` when it stands for nothing.
/// Through the slot, because pointers with a type and plain addresses cannot share the code that follows.
#[inline(always)]
pub fn look(slot: &mut ThreadSlot, fd: u32, with_position: bool) -> bool {
    look_apart(slot.index, fd, with_position.into()) != 0
}

/// Checked apart: each of its typed loads costs the verifier a search of the kernel's types.
#[unsafe(export_name = "iotrace_look")]
#[inline(never)]
extern "C" fn look_apart(index: u32, fd: u32, with_position: u32) -> u32 {
    slot_at(index).is_some_and(|slot| look_up(slot, fd, with_position != 0)).into()
}

#[inline(always)]
fn look_up(slot: &mut ThreadSlot, fd: u32, with_position: bool) -> bool {
    let files: u64 = task_field(current_task(), offset!(task_files));
    let fdt: u64 = task_field(files, offset!(files_fdt));
    let max_fds: u32 = task_field(fdt, offset!(fdtable_max_fds));
    if fd >= max_fds {
        return false;
    }
    if config!(task_btf) == 1 && max_fds == EMBEDDED_FDS && fd < TYPED_FDS {
        // SAFETY: pointer arithmetic the verifier checks.
        let table = unsafe { (files as *const u8).add(offset!(files_fd_array) as usize) } as u64;
        let file = embedded(table, fd);
        if file == 0 {
            return false;
        }
        see::<true>(slot, file, with_position);
    } else {
        let table: u64 = task_field(fdt, offset!(fdtable_fd));
        match probe::<u64>(table, fd * 8) {
            Some(0) => return false,
            Some(file) => see::<false>(slot, file, with_position),
            None => {
                tally!(lost_reads);
                return false;
            }
        }
    }
    true
}

#[inline(always)]
fn see<const TYPED: bool>(slot: &mut ThreadSlot, file: u64, with_position: bool) {
    let inode: u64 = field::<TYPED, _>(file, offset!(file_inode));
    let ino: u64 = field::<TYPED, _>(inode, offset!(inode_ino));
    let position = if TYPED || with_position { field::<TYPED, _>(file, offset!(file_pos)) } else { 0 };
    // SAFETY: a field of a map value. Volatile: what is read back must be plain numbers.
    unsafe { core::ptr::write_volatile(&raw mut slot.seen, Seen { file, inode, ino, position }) };
}

/// Fills in a place for the file of `slot.seen`.
#[inline(always)]
pub fn describe(place: &mut FileSlot, seen: Seen) {
    place.file = seen.file;
    place.inode = seen.inode;
    place.ino = seen.ino;
    place.size = size_now(seen.inode, 0);
    (place.kind, place.dev) = kind_and_device(seen.inode);
    if config!(file_filter) != 0
        && place.kind <= Kind::BlockDevice as u32
        && selected(seen.file, seen.inode, place.dev) == 0
    {
        place.kind = Kind::Absent as u32;
    }
}

/// Do `--fstype` and `--path` choose the file? Checked apart.
#[unsafe(export_name = "iotrace_selected")]
#[inline(never)]
pub extern "C" fn selected(file: u64, inode: u64, dev: u32) -> u32 {
    // SAFETY: preallocated maps; only presence matters.
    if config!(file_filter) & 1 != 0 && unsafe { FS_FILTER.get(dev) }.is_none() {
        return 0;
    }
    if config!(file_filter) & 2 == 0 {
        return 1;
    }
    if file == inode {
        return 0; // a mapping, of which nothing leads to a name
    }
    let mut dentry: u64 = probe(file, offset!(file_dentry)).unwrap_or(0);
    for _ in 0..PATH_DEPTH {
        dentry = look_above(dentry, dev);
        if dentry <= FOUND {
            break;
        }
    }
    (dentry == FOUND).into()
}

/// [`look_above`] found a folder that `--path` chooses. No address.
const FOUND: u64 = 1;

/// Does `--path` choose this folder or file? Else the one above it; 0 when there is none.
#[unsafe(export_name = "iotrace_look_above")]
#[inline(never)]
extern "C" fn look_above(dentry: u64, dev: u32) -> u64 {
    let inode: u64 = probe(dentry, offset!(dentry_inode)).unwrap_or(0);
    let ino: u64 = probe(inode, offset!(inode_ino)).unwrap_or(0);
    // SAFETY: preallocated map; only its presence matters.
    if unsafe { PATH_FILTER.get(FolderKey { ino, dev: dev.into() }) }.is_some() {
        return FOUND;
    }
    let above: u64 = probe(dentry, offset!(dentry_parent)).unwrap_or(0);
    if above == dentry { 0 } else { above }
}

/// What an inode is, and the device of its file system, or that it stands for.
#[inline(always)]
pub fn kind_and_device(inode: u64) -> (u32, u32) {
    let mode: u16 = probe(inode, offset!(inode_mode)).unwrap_or(0);
    let mut dev = 0;
    let kind = match mode & S_IFMT {
        S_IFREG => {
            let sb: u64 = probe(inode, offset!(inode_sb)).unwrap_or(0);
            dev = probe(sb, offset!(sb_dev)).unwrap_or(0);
            if stores_data(probe(sb, offset!(sb_magic)).unwrap_or(0)) { Kind::Regular } else { Kind::Pseudo }
        }
        S_IFBLK => {
            // The device it stands for, not the file system its node lies on.
            dev = probe(inode, offset!(inode_rdev)).unwrap_or(0);
            Kind::BlockDevice
        }
        S_IFIFO => Kind::Pipe,
        S_IFSOCK => Kind::Socket,
        S_IFCHR => {
            dev = probe(inode, offset!(inode_rdev)).unwrap_or(0);
            Kind::Char
        }
        _ => Kind::Other,
    };
    (kind as u32, dev)
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
#[unsafe(export_name = "iotrace_iovec_bytes")]
#[inline(never)]
pub extern "C" fn iovec_bytes(iov: u64, count: u64) -> u64 {
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
