//! The operations a process performs on files, and the system calls (forms) each comes in.

/// Operations. The numbers index [`OP_NAMES`] and masks.
pub const OP_READ: u32 = 0;
/// See [`OP_NAMES`].
pub const OP_WRITE: u32 = 1;
/// See [`OP_NAMES`].
pub const OP_OPEN: u32 = 2;
/// See [`OP_NAMES`].
pub const OP_STAT: u32 = 3;
/// See [`OP_NAMES`].
pub const OP_GETDENTS: u32 = 4;
/// See [`OP_NAMES`].
pub const OP_RENAME: u32 = 5;
/// See [`OP_NAMES`].
pub const OP_UNLINK: u32 = 6;
/// See [`OP_NAMES`].
pub const OP_FSYNC: u32 = 7;
/// See [`OP_NAMES`].
pub const OP_CLOSE: u32 = 8;
/// See [`OP_NAMES`].
pub const OP_TRUNCATE: u32 = 9;
/// A page fault on a mapped file that the page-cache lookup of the fault path served (`filemap_fault`).
pub const OP_MMAP_FAULT: u32 = 10;

/// Reads that complete later: their set of latencies. Counted among reads; not in [`OP_NAMES`].
pub const OP_ASYNC_READ: u32 = 11;
/// Writes likewise.
pub const OP_ASYNC_WRITE: u32 = 12;
/// Their sizes, in place of latencies.
pub const OP_ASYNC_READ_SIZE: u32 = 13;
/// See [`OP_ASYNC_READ_SIZE`].
pub const OP_ASYNC_WRITE_SIZE: u32 = 14;

/// Number of sets a process can have: operations, and the four above.
pub const SETS: usize = 15;

/// Calls that are no operation by themselves.
pub const OP_NONE: u32 = u32::MAX;

/// Number of operations.
pub const OPS: usize = 11;

/// Names by number.
pub const OP_NAMES: [&str; OPS] = [
    "read",
    "write",
    "open",
    "stat",
    "getdents",
    "rename",
    "unlink",
    "fsync",
    "close",
    "truncate",
    "mmap_fault",
];

macro_rules! forms {
    ($($op:ident { $($form:ident $name:literal,)+ })+) => {
        /// System calls. Calls of one operation are neighbours; those that move data come first.
        #[repr(u8)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "the system calls' own names")]
        pub enum Form {
            /// Not a call that is followed.
            None = 0,
            $($($form,)+)+
        }

        /// Names by number.
        pub const FORM_NAMES: &[&str] = &["", $($($name,)+)+];

        /// Operation by form; of those with two sides the read.
        pub const FORM_OPS: &[u32] = &[OP_READ, $($({ let _ = Form::$form; $op },)+)+];
    };
}

forms! {
    OP_READ {
        Read "read",
        Pread64 "pread64",
        Readv "readv",
        Preadv "preadv",
        Preadv2 "preadv2",
    }
    OP_WRITE {
        Write "write",
        Pwrite64 "pwrite64",
        Writev "writev",
        Pwritev "pwritev",
        Pwritev2 "pwritev2",
    }
    OP_READ {
        Sendfile "sendfile",
        Splice "splice",
        CopyFileRange "copy_file_range",
    }
    OP_OPEN {
        Open "open",
        Openat "openat",
        Openat2 "openat2",
        Creat "creat",
    }
    OP_STAT {
        Stat "stat",
        Fstat "fstat",
        Lstat "lstat",
        Newfstatat "newfstatat",
        Statx "statx",
        Access "access",
        Faccessat "faccessat",
        Faccessat2 "faccessat2",
    }
    OP_GETDENTS {
        Getdents "getdents",
        Getdents64 "getdents64",
    }
    OP_RENAME {
        Rename "rename",
        Renameat "renameat",
        Renameat2 "renameat2",
    }
    OP_UNLINK {
        Unlink "unlink",
        Unlinkat "unlinkat",
        Rmdir "rmdir",
    }
    OP_FSYNC {
        Fsync "fsync",
        Fdatasync "fdatasync",
        SyncFileRange "sync_file_range",
        Syncfs "syncfs",
        Sync "sync",
        Msync "msync",
        UringFsync "io_uring fsync",
        AioFsync "aio fsync",
    }
    OP_CLOSE {
        Close "close",
        CloseRange "close_range",
    }
    OP_TRUNCATE {
        Truncate "truncate",
        Ftruncate "ftruncate",
        Fallocate "fallocate",
    }
    OP_MMAP_FAULT {
        Fault "fault",
    }
    OP_NONE {
        IoSubmit "io_submit",
        IoGetevents "io_getevents",
        IoPgetevents "io_pgetevents",
    }
}

/// Number of forms, "none" included.
pub const FORMS: usize = FORM_NAMES.len();

/// Forms that move data: those below.
pub const DATA_FORMS: usize = Form::Open as usize;

/// Most forms that one of the other operations has.
pub const META_FORMS: usize = 8;

/// Forms of [`OP_ASYNC_READ`] and [`OP_ASYNC_WRITE`].
pub const ASYNC_FORMS: [&str; 2] = ["io_uring", "aio"];

/// First form of an operation that moves no data.
pub const fn first_form(op: u32) -> usize {
    let mut form = DATA_FORMS;
    while form < FORMS && FORM_OPS[form] != op {
        form += 1;
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_an_operation_are_neighbours_and_few() {
        for op in OP_OPEN..OPS as u32 {
            let forms: Vec<usize> = (DATA_FORMS..FORMS).filter(|form| FORM_OPS[*form] == op).collect();
            assert!(!forms.is_empty() && forms.len() <= META_FORMS, "{op}");
            assert_eq!(forms[0], first_form(op));
            assert_eq!(forms.last().unwrap() - forms[0] + 1, forms.len());
        }
    }

    extern crate std;
    use std::vec::Vec;
}
