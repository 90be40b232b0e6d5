//! Decoding of ring-buffer records.

use bytes::Buf as _;
use iotrace_common::{
    event::{self, ARGS_BYTES},
    file::{FileTotals, PATH_BYTES, TOTALS},
};

use super::files::{Named, Renamed, SessionPart};

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
    /// A session with a file, or a part of one.
    Session(Box<SessionPart>),
    /// What a file is called.
    Name(Named),
    /// A folder.
    Folder {
        /// Device.
        dev: u32,
        /// Inode number.
        ino: u64,
        /// Inode number of the one above.
        parent: u64,
        /// Name.
        name: Vec<u8>,
    },
    /// A rename.
    Renamed(Renamed),
    /// The first failure with an errno, by process and operation.
    Failed {
        /// Key.
        process: u64,
        /// `op::OP_*`.
        op: u32,
        /// errno.
        errno: u32,
        /// Path as the program gave it.
        path: Vec<u8>,
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
        event::SESSION => Event::Session(Box::new(session(record)?)),
        event::NAME => {
            let dev = record.try_get_u32_ne().ok()?;
            let process = record.try_get_u64_ne().ok()?;
            let ino = record.try_get_u64_ne().ok()?;
            let folder = record.try_get_u64_ne().ok()?;
            let mount = record.try_get_u32_ne().ok()?;
            let length = record.try_get_u32_ne().ok()? as usize;
            let name = record.get(..length)?.to_vec();
            Event::Name(Named { process, dev, ino, folder, mount, name })
        }
        event::FOLDER => {
            let dev = record.try_get_u32_ne().ok()?;
            let ino = record.try_get_u64_ne().ok()?;
            let parent = record.try_get_u64_ne().ok()?;
            Event::Folder { dev, ino, parent, name: take_name(record)? }
        }
        event::RENAMED | event::FAILED => {
            let op = record.try_get_u32_ne().ok()?;
            let process = record.try_get_u64_ne().ok()?;
            let ns = record.try_get_u64_ne().ok()?;
            let errno = record.try_get_u32_ne().ok()?;
            let _pad = record.try_get_u32_ne().ok()?;
            let path = take_path(record)?;
            if kind == event::FAILED {
                Event::Failed { process, op, errno, path }
            } else {
                Event::Renamed(Renamed { process, ns, from: path, to: take_path(record)? })
            }
        }
        _ => return None,
    })
}

/// A `SessionRecord` behind its kind.
fn session(record: &mut &[u8]) -> Option<SessionPart> {
    let flags = record.try_get_u32_ne().ok()?;
    let process = record.try_get_u64_ne().ok()?;
    let _file = record.try_get_u64_ne().ok()?;
    let ino = record.try_get_u64_ne().ok()?;
    let size = record.try_get_u64_ne().ok()?;
    let dev = record.try_get_u32_ne().ok()?;
    let _pad = record.try_get_u32_ne().ok()?;
    let covered = record.try_get_u64_ne().ok()?;
    let first_ns = record.try_get_u64_ne().ok()?;
    let last_ns = record.try_get_u64_ne().ok()?;
    let mut totals = [0; TOTALS];
    for total in &mut totals {
        *total = record.try_get_u64_ne().ok()?;
    }
    let totals = FileTotals::from_fields(totals);
    Some(SessionPart { process, flags, dev, ino, size, covered, first_ns, last_ns, totals })
}

/// A length, padding, and a name of that length.
fn take_name(record: &mut &[u8]) -> Option<Vec<u8>> {
    let length = record.try_get_u32_ne().ok()? as usize;
    let _pad = record.try_get_u32_ne().ok()?;
    record.get(..length).map(<[u8]>::to_vec)
}

/// A NUL-ended path in a field of fixed size.
fn take_path(record: &mut &[u8]) -> Option<Vec<u8>> {
    let field = record.get(..PATH_BYTES)?;
    let path = field.split(|&b| b == 0).next().unwrap_or(&[]).to_vec();
    record.advance(PATH_BYTES);
    Some(path)
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
    use iotrace_common::file;

    fn bytes_of<T>(record: &T) -> &[u8] {
        // SAFETY: the records are plain old data with explicit padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let mut seen = event::ProcessSeen::<ARGS_BYTES> {
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
        let totals = FileTotals { reads: 3, cached_bytes: 9, ..FileTotals::default() };
        let session = file::SessionRecord {
            kind: event::SESSION,
            flags: file::OPENED,
            process: 1,
            file: 2,
            ino: 3,
            size: 4,
            dev: 6,
            _pad: 0,
            covered: 8,
            first_ns: 9,
            last_ns: 10,
            totals,
            _room: [0; 48],
        };
        let expected = SessionPart {
            process: 1,
            flags: file::OPENED,
            ino: 3,
            size: 4,
            dev: 6,
            covered: 8,
            first_ns: 9,
            last_ns: 10,
            totals,
        };
        assert_eq!(
            decode(&bytes_of(&session)[..file::SESSION_BYTES]),
            Some(Event::Session(Box::new(expected)))
        );
        let mut name = file::NameRecord {
            kind: event::NAME,
            dev: 6,
            process: 1,
            ino: 3,
            folder: 5,
            mount: 7,
            name_len: 3,
            name: [0; file::NAME_BYTES + 1],
        };
        name.name[..3].copy_from_slice(b"a.b");
        let expected = Named { process: 1, dev: 6, ino: 3, folder: 5, mount: 7, name: b"a.b".to_vec() };
        let sent = &bytes_of(&name)[..file::NAME_HEAD + 3];
        assert_eq!(decode(sent), Some(Event::Name(expected)));
        assert_eq!(decode(&sent[..sent.len() - 1]), None, "a name cut short");
        let gone = event::ThreadExit { kind: event::THREAD_EXIT, slot: 12 };
        assert_eq!(decode(bytes_of(&gone)), Some(Event::ThreadExit { slot: 12 }));
    }

    #[test]
    fn short_or_unknown_records_are_refused() {
        for length in 0..64 {
            for kind in 0u32..12 {
                let mut record = vec![0xffu8; length];
                let n = length.min(4);
                record[..n].copy_from_slice(&kind.to_ne_bytes()[..n]);
                let _ = decode(&record);
            }
        }
        assert_eq!(decode(&[99, 0, 0, 0, 1, 2, 3, 4]), None);
        assert_eq!(decode(&event::PROCESS_SEEN.to_ne_bytes()), None);
    }
}
