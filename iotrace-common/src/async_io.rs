//! Transfers that complete later than the call that submits them: io_uring and the kernel's AIO.

/// Key of `ASYNC`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AsyncKey {
    /// Process whose number `id` is; 0: it is an address of the kernel.
    pub space: u64,
    /// Address of the request (io_uring), of the `iocb` in user memory (AIO).
    pub id: u64,
}

/// A transfer in flight.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AsyncOp {
    /// Who submitted it.
    pub process: u64,
    /// When, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Address of the open file; 0: not known yet (a registered file of io_uring).
    pub file: u64,
    /// Its device and inode number.
    pub ino: u64,
    /// See `ino`.
    pub dev: u32,
    /// `OP_READ`, `OP_WRITE`, `OP_FSYNC`.
    pub op: u32,
    /// Index in `op::ASYNC_FORMS`.
    pub form: u32,
    /// 1: a regular file, whose session it belongs to.
    pub regular: u32,
}

const _: () = assert!(size_of::<AsyncOp>() == 48 && size_of::<AsyncKey>() == 16);

crate::pod!(AsyncKey, AsyncOp);
