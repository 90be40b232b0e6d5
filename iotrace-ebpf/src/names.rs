//! What files and folders are called: sent when a thread first uses a file, a folder before the first file in it.
//!
//! Maps: FOLDERS_SEEN, EVENTS.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use iotrace_common::{
    event::{FOLDER, NAME},
    file::{FolderKey, FolderRecord, NAME_BYTES, NAME_HEAD, NameRecord},
};

use crate::{
    maps::{EVENTS, FOLDERS_SEEN, NO_WAKEUP, tally},
    mem::{bounded, checked_apart, offset, probe},
    session::place,
};

/// Folders told of at once, from the file's own upwards.
const FOLDER_DEPTH: usize = 40;

checked_apart! {
    /// Sends the name of the file at `way`, and of its folder when that is new.
    pub fn tell_name as "iotrace_tell_name" (slot, way: u32) {
        let process = slot.process;
        let from = place(slot, way);
        let (file, dev, ino) = (from.file, from.dev, from.ino);
        if file == from.inode {
            return; // a mapping, by its inode alone
        }
        let dentry: u64 = probe(file, offset!(file_dentry)).unwrap_or(0);
        let mount: u64 = probe(file, offset!(file_mount)).unwrap_or(0);
        let folder: u64 = probe(dentry, offset!(dentry_parent)).unwrap_or(0);
        let folder_inode: u64 = probe(folder, offset!(dentry_inode)).unwrap_or(0);
        let folder_ino: u64 = probe(folder_inode, offset!(inode_ino)).unwrap_or(0);
        // SAFETY: a name is smaller than the record it shares memory with.
        let out = unsafe { &mut *(&raw mut slot.record).cast::<NameRecord>() };
        out.kind = NAME;
        out.dev = dev;
        out.process = process;
        out.ino = ino;
        out.folder = folder_ino;
        // A struct vfsmount lies in a struct mount.
        out.mount = probe(mount.wrapping_sub(offset!(mount_mnt) as u64), offset!(mount_id)).unwrap_or(0);
        let length = read_name(&mut out.name, dentry);
        out.name_len = length;
        let size = NAME_HEAD + bounded::<{ NAME_BYTES as u64 + 1 }>(length.into());
        // SAFETY: `size` bytes of the record.
        let bytes = unsafe { core::slice::from_raw_parts((&raw const *out).cast::<u8>(), size) };
        if EVENTS.output::<[u8]>(bytes, NO_WAKEUP).is_err() {
            tally!(lost_ring);
        }
        let mut above = folder;
        for _ in 0..FOLDER_DEPTH {
            above = tell_folder(above, dev);
            if above == 0 {
                break;
            }
        }
    }
}

/// Copies the last name of a dentry; its length, at most `NAME_BYTES`.
#[inline(always)]
fn read_name(to: &mut [u8; NAME_BYTES + 1], dentry: u64) -> u32 {
    let name: u64 = probe(dentry, offset!(dentry_name)).unwrap_or(0);
    // SAFETY: the helper checks the source and bounds the copy.
    let copied = unsafe {
        bpf_probe_read_kernel_str(to.as_mut_ptr().cast(), (NAME_BYTES + 1) as u32, name as *const _)
    };
    // With the closing NUL.
    if copied > 1 { (copied - 1) as u32 } else { 0 }
}

/// Tells of a folder, unless it was told of; the one above it, 0 when there is none to be told of. One at a time, so that the
/// verifier checks it once and not for each level.
#[unsafe(export_name = "iotrace_tell_folder")]
#[inline(never)]
extern "C" fn tell_folder(folder: u64, dev: u32) -> u64 {
    let inode: u64 = probe(folder, offset!(dentry_inode)).unwrap_or(0);
    let ino: u64 = probe(inode, offset!(inode_ino)).unwrap_or(0);
    let key = FolderKey { ino, dev: dev.into() };
    // SAFETY: preallocated map; only its presence matters.
    if ino == 0 || unsafe { FOLDERS_SEEN.get(key) }.is_some() {
        return 0;
    }
    let above: u64 = probe(folder, offset!(dentry_parent)).unwrap_or(0);
    let above_inode: u64 = probe(above, offset!(dentry_inode)).unwrap_or(0);
    let above_ino: u64 = probe(above_inode, offset!(inode_ino)).unwrap_or(0);
    let Some(mut entry) = EVENTS.reserve::<FolderRecord>(0) else {
        tally!(lost_ring);
        return 0;
    };
    let out = entry.as_mut_ptr();
    // SAFETY: the record is ours until submitted; user space reads no further than `name_len`.
    unsafe {
        (*out).kind = FOLDER;
        (*out).dev = dev;
        (*out).ino = ino;
        (*out).parent = above_ino;
        (*out)._pad = 0;
        (*out).name_len = read_name(&mut (*out).name, folder);
    }
    entry.submit(NO_WAKEUP);
    let _ = FOLDERS_SEEN.insert(key, 1, 0);
    if above == folder { 0 } else { above }
}
