//! Decoding of ring-buffer records.

use bytes::Buf as _;
use iotrace_common::event::{self, ARGS_BYTES};

/// A rare fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A target was seen for the first time, or executed a program.
    Process {
        /// By exec.
        exec: bool,
        /// Key.
        process: u64,
        /// Parent's tgid.
        ppid: u32,
        /// Start, ns of CLOCK_MONOTONIC.
        start_ns: u64,
        /// Pid in its innermost namespace.
        ns_pid: u32,
        /// A kernel thread.
        kernel_thread: bool,
        /// Command name.
        comm: Vec<u8>,
        /// Arguments as the kernel side could read them, NUL-ended, at most 256 bytes.
        args: Vec<u8>,
    },
    /// A process ended.
    Exit {
        /// Key.
        process: u64,
        /// Last command name.
        comm: Vec<u8>,
    },
    /// A thread ended; its slot is ours.
    ThreadExit {
        /// Slot.
        slot: u32,
    },
    /// A process uses a regular file.
    File {
        /// Key.
        process: u64,
        /// `thread::OP_READ`, `thread::OP_WRITE`.
        op: u32,
        /// `s_dev`.
        dev: u32,
        /// Inode number.
        ino: u64,
        /// Size.
        size: u64,
    },
}

/// Decodes one record; `None` for a record of unknown kind or length, which the caller counts.
pub fn decode(mut record: &[u8]) -> Option<Event> {
    let record = &mut record;
    let kind = record.try_get_u32_ne().ok()?;
    Some(match kind {
        event::PROCESS_SEEN | event::PROCESS_EXEC => {
            let ppid = record.try_get_u32_ne().ok()?;
            let process = record.try_get_u64_ne().ok()?;
            let start_ns = record.try_get_u64_ne().ok()?;
            let ns_pid = record.try_get_u32_ne().ok()?;
            let flags = record.try_get_u32_ne().ok()?;
            let comm = take_comm(record)?;
            let length = record.try_get_u32_ne().ok()? as usize;
            let args = record.get(4..4 + length.min(ARGS_BYTES))?.to_vec();
            Event::Process {
                exec: kind == event::PROCESS_EXEC,
                process,
                ppid,
                start_ns,
                ns_pid,
                kernel_thread: flags & iotrace_common::process::KERNEL_THREAD != 0,
                comm,
                args,
            }
        }
        event::PROCESS_EXIT => {
            let _status = record.try_get_u32_ne().ok()?;
            Event::Exit { process: record.try_get_u64_ne().ok()?, comm: take_comm(record)? }
        }
        event::THREAD_EXIT => Event::ThreadExit { slot: record.try_get_u32_ne().ok()? },
        event::FILE_SEEN => {
            let op = record.try_get_u32_ne().ok()?;
            let process = record.try_get_u64_ne().ok()?;
            let ino = record.try_get_u64_ne().ok()?;
            let size = record.try_get_u64_ne().ok()?;
            Event::File { process, op, dev: record.try_get_u32_ne().ok()?, ino, size }
        }
        _ => return None,
    })
}

/// A NUL-padded command name.
fn take_comm(record: &mut &[u8]) -> Option<Vec<u8>> {
    let field = record.get(..16)?;
    let comm = field.split(|&b| b == 0).next().unwrap_or(&[]).to_vec();
    record.advance(16);
    Some(comm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<T>(record: &T) -> &[u8] {
        // SAFETY: the records are plain old data with explicit padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let mut seen = event::ProcessSeen {
            kind: event::PROCESS_EXEC,
            ppid: 7,
            process: 99,
            start_ns: 5,
            ns_pid: 3,
            flags: 1,
            comm: *b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0",
            args_len: 4,
            _pad: 0,
            args: [0; ARGS_BYTES],
        };
        seen.args[..4].copy_from_slice(b"cat\0");
        let expected = Event::Process {
            exec: true,
            process: 99,
            ppid: 7,
            start_ns: 5,
            ns_pid: 3,
            kernel_thread: true,
            comm: b"cat".to_vec(),
            args: b"cat\0".to_vec(),
        };
        assert_eq!(decode(bytes_of(&seen)), Some(expected));
        let file =
            event::FileSeen { kind: event::FILE_SEEN, op: 1, process: 2, ino: 3, size: 4, dev: 5, _pad: 0 };
        assert_eq!(decode(bytes_of(&file)), Some(Event::File { process: 2, op: 1, dev: 5, ino: 3, size: 4 }));
        let gone = event::ThreadExit { kind: event::THREAD_EXIT, slot: 12 };
        assert_eq!(decode(bytes_of(&gone)), Some(Event::ThreadExit { slot: 12 }));
    }

    #[test]
    fn short_or_unknown_records_are_refused() {
        for length in 0..64 {
            for kind in 0u32..8 {
                let mut record = vec![0xffu8; length];
                let n = length.min(4);
                record[..n].copy_from_slice(&kind.to_ne_bytes()[..n]);
                let _ = decode(&record);
            }
        }
        assert_eq!(decode(&[9, 0, 0, 0, 1, 2, 3, 4]), None);
        assert_eq!(decode(&event::PROCESS_SEEN.to_ne_bytes()), None);
    }
}
