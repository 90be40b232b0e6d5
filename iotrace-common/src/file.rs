//! What a process does with a file between opening and closing it, and how it is told.

/// Files a thread works on at once, by address of the open file modulo this.
pub const WAYS: usize = 8;

/// The session began within the trace: this process opened the file.
pub const OPENED: u32 = 1 << 0;
/// The last reference to the open file was given up.
pub const CLOSED: u32 = 1 << 1;
/// No name leads to the file any more.
pub const DELETED: u32 = 1 << 2;
/// Longest name of a file (NAME_MAX).
pub const NAME_BYTES: usize = 255;

/// No position is known for a call.
pub const UNKNOWN_POSITION: u64 = u64::MAX;

macro_rules! totals {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Numbers of one session, or of many: all add up.
        #[repr(C)]
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
        pub struct FileTotals {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        /// Number of fields of [`FileTotals`].
        pub const TOTALS: usize = [$(stringify!($name)),+].len();

        impl FileTotals {
            /// From the fields in their order.
            pub const fn from_fields(fields: [u64; TOTALS]) -> Self {
                let [$($name),+] = fields;
                Self { $($name),+ }
            }

            /// Adds `other`.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

totals! {
    /// Reads that did not fail.
    reads,
    /// Bytes read.
    read_bytes,
    /// Time in reads, ns.
    read_ns,
    /// Of it off the CPU.
    read_wait_ns,
    /// Reads that waited.
    waited_reads,
    /// Their bytes.
    waited_bytes,
    /// Reads that began where the one before ended (the first: at the file's start).
    sequential_reads,
    /// Other reads as far behind the one before as that behind its own.
    strided_reads,
    /// Reads from anywhere else.
    random_reads,
    /// Reads of less than 4 KiB that were not at the end of the file.
    tiny_reads,
    /// Writes that did not fail.
    writes,
    /// Bytes written.
    written_bytes,
    /// Time in writes, ns.
    write_ns,
    /// Of it off the CPU.
    write_wait_ns,
    /// Writes of less than 4 KiB.
    tiny_writes,
    /// Time in the call that opened it, ns.
    open_ns,
    /// Of it off the CPU.
    open_wait_ns,
    /// fsync and kin on its descriptor.
    syncs,
    /// Time in them, ns.
    sync_ns,
    /// Page faults on its mappings that reached the page cache.
    faults,
    /// Time off the CPU in them, ns.
    fault_wait_ns,
    /// Bytes that calls and faults brought into the page cache, readahead included.
    cached_bytes,
}

/// One file a thread works on.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FileSlot {
    /// Address of the open file; 0: free.
    pub file: u64,
    /// Address of the inode.
    pub inode: u64,
    /// Inode number.
    pub ino: u64,
    /// `s_dev` of its file system, `i_rdev` of a block device: major << 20 | minor.
    pub dev: u32,
    /// [`crate::thread::Kind`].
    pub kind: u32,
    /// Size when first used, or where a write ended behind it.
    pub size: u64,
    /// `OPENED`.
    pub flags: u32,
    /// 1: something was counted since it was last told.
    pub dirty: u32,
    /// Where the last read began; `UNKNOWN_POSITION` before the first.
    pub last_start: u64,
    /// Where the last read ended.
    pub next_start: u64,
    /// Distance of the starts of the last two reads.
    pub stride: u64,
    /// The file was read without a gap from its start up to here.
    pub covered: u64,
    /// First use, ns of CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Last use.
    pub last_ns: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// Key of `SESSIONS`: what threads put down of an open file when they turned to others.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SessionKey {
    /// Process.
    pub process: u64,
    /// Address of the open file.
    pub file: u64,
}

/// Value of `SESSIONS`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Session {
    /// Inode number.
    pub ino: u64,
    /// Size when last seen.
    pub size: u64,
    /// As [`FileSlot::dev`].
    pub dev: u32,
    /// Flags of all that was put down.
    pub flags: u32,
    /// As [`FileSlot::next_start`], of who put it down last.
    pub next_start: u64,
    /// As [`FileSlot::covered`].
    pub covered: u64,
    /// First and last use.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Numbers.
    pub totals: FileTotals,
}

/// Ring-buffer record: a session, or a part of one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SessionRecord {
    /// `event::SESSION`.
    pub kind: u32,
    /// Flags.
    pub flags: u32,
    /// Process.
    pub process: u64,
    /// Address of the open file.
    pub file: u64,
    /// Inode number.
    pub ino: u64,
    /// Size now.
    pub size: u64,
    /// Device.
    pub dev: u32,
    /// Padding.
    pub _pad: u32,
    /// As [`FileSlot::covered`].
    pub covered: u64,
    /// First use.
    pub first_ns: u64,
    /// Last use.
    pub last_ns: u64,
    /// Numbers.
    pub totals: FileTotals,
    /// Not sent: room for the larger [`NameRecord`], which is made in the same place.
    pub _room: [u8; 48],
}

/// Bytes of a [`SessionRecord`] that are sent.
pub const SESSION_BYTES: usize = core::mem::offset_of!(SessionRecord, _room);

/// Ring-buffer record: what a file is called, when a thread first uses it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NameRecord {
    /// `event::NAME`.
    pub kind: u32,
    /// Device.
    pub dev: u32,
    /// Process.
    pub process: u64,
    /// Inode number.
    pub ino: u64,
    /// Inode number of the folder it lies in.
    pub folder: u64,
    /// Mount.
    pub mount: u32,
    /// Bytes used of `name`.
    pub name_len: u32,
    /// Name, cut off after `name_len` in the ring.
    pub name: [u8; NAME_BYTES + 1],
}

/// Bytes of a [`NameRecord`] without its name.
pub const NAME_HEAD: usize = core::mem::offset_of!(NameRecord, name);

/// Ring-buffer record: a folder, told before the first file in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FolderRecord {
    /// `event::FOLDER`.
    pub kind: u32,
    /// Device.
    pub dev: u32,
    /// Inode number.
    pub ino: u64,
    /// Inode number of the folder above; its own at the root of the file system.
    pub parent: u64,
    /// Bytes used of `name`.
    pub name_len: u32,
    /// Padding.
    pub _pad: u32,
    /// Name.
    pub name: [u8; NAME_BYTES + 1],
}

/// Bytes of a path that is kept of a call by path.
pub const PATH_BYTES: usize = 256;

/// Ring-buffer record: a rename, or the first failure of a kind, with the path or paths as the program gave them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PathRecord {
    /// `event::RENAMED`, `event::FAILED`.
    pub kind: u32,
    /// `op::OP_*`.
    pub op: u32,
    /// Process.
    pub process: u64,
    /// When the call ended.
    pub ns: u64,
    /// errno; 0 of a rename.
    pub errno: u32,
    /// Padding.
    pub _pad: u32,
    /// First path, NUL-ended unless cut.
    pub path: [u8; PATH_BYTES],
    /// Second path of a rename.
    pub to: [u8; PATH_BYTES],
}

/// Key of `FOLDERS_SEEN`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FolderKey {
    /// Inode number.
    pub ino: u64,
    /// Device.
    pub dev: u64,
}

/// Size classes of files: upper ends (exclusive) of all but the last, in bytes.
pub const CLASS_ENDS: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 16 << 20];

/// Number of size classes.
pub const CLASSES: usize = CLASS_ENDS.len() + 1;

/// The class of a size.
#[inline(always)]
pub fn class_of(size: u64) -> usize {
    let mut class = 0;
    for end in CLASS_ENDS {
        class += (size >= end) as usize;
    }
    class
}

/// What one class of files lost to a full ring buffer: totals are kept even then.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct LostClass {
    /// Records.
    pub records: u64,
    /// Of them with `OPENED`.
    pub opens: u64,
    /// Their numbers.
    pub totals: FileTotals,
}

const _: () = assert!(size_of::<FileTotals>() == 8 * TOTALS);
const _: () = assert!(size_of::<FileSlot>() == 96 + 8 * TOTALS && size_of::<Session>() == 56 + 8 * TOTALS);
const _: () = assert!(size_of::<NameRecord>() <= size_of::<SessionRecord>() && NAME_HEAD == 40);
const _: () = assert!(size_of::<Session>() <= size_of::<SessionRecord>());

crate::pod!(SessionKey, Session, LostClass, FolderKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_at_their_ends() {
        for (class, end) in CLASS_ENDS.into_iter().enumerate() {
            assert_eq!((class_of(end - 1), class_of(end)), (class, class + 1));
        }
        assert_eq!((class_of(0), class_of(u64::MAX)), (0, CLASSES - 1));
    }
}
