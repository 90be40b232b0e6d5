//! What one process did, counted as its system calls return: the same words as `processes[]` of the report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Calls of one op.
#[derive(Debug, Clone, Default)]
pub struct Op {
    /// Calls that returned, failed ones included.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Failed calls by errno.
    pub errors: BTreeMap<i32, u64>,
    /// Calls that moved fewer bytes than asked for, but more than 0.
    pub short: u64,
    /// Calls that returned 0 though bytes were asked for.
    pub eof: u64,
    /// Calls by system call.
    pub forms: BTreeMap<&'static str, u64>,
    /// Successful calls by the bytes they moved.
    pub sizes: BTreeMap<u64, u64>,
    /// Time inside the calls in nanoseconds, where the caller took it.
    pub ns: u64,
}

impl Op {
    /// Counts one call of `form` that asked for `asked` bytes and returned `ret`: bytes, or a negative errno.
    pub fn add(&mut self, form: &'static str, asked: usize, ret: isize) {
        self.count += 1;
        *self.forms.entry(form).or_default() += 1;
        let Ok(moved) = u64::try_from(ret) else {
            *self.errors.entry(-ret as i32).or_default() += 1;
            return;
        };
        self.bytes += moved;
        *self.sizes.entry(moved).or_default() += 1;
        self.eof += u64::from(moved == 0 && asked > 0);
        self.short += u64::from(moved > 0 && moved < asked as u64);
    }

    /// Counts one call of `form` that moves no bytes and returned `ret`: a descriptor or 0, or a negative errno.
    pub fn add_call(&mut self, form: &'static str, ret: isize) {
        self.count += 1;
        *self.forms.entry(form).or_default() += 1;
        if ret < 0 {
            *self.errors.entry(-ret as i32).or_default() += 1;
        }
    }

    /// Adds `count` calls of `form` that each moved the `size` bytes asked for.
    pub fn add_many(&mut self, form: &'static str, size: u64, count: u64) {
        self.count += count;
        self.bytes += size * count;
        *self.forms.entry(form).or_default() += count;
        *self.sizes.entry(size).or_default() += count;
    }

    /// Adds `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.short += other.short;
        self.eof += other.eof;
        self.ns += other.ns;
        merge_counts(&mut self.errors, &other.errors);
        merge_counts(&mut self.forms, &other.forms);
        merge_counts(&mut self.sizes, &other.sizes);
    }

    fn json(&self) -> Value {
        let errors: Map<String, Value> =
            self.errors.iter().map(|(&errno, &n)| (errno_name(errno), n.into())).collect();
        let forms: Map<String, Value> =
            self.forms.iter().map(|(&form, &n)| (form.into(), n.into())).collect();
        let sizes: Vec<[u64; 2]> = self.sizes.iter().map(|(&size, &n)| [size, n]).collect();
        let mut value = json!({
            "count": self.count, "bytes": self.bytes, "errors": errors, "error_count": self.errors.values().sum::<u64>(),
            "short": self.short, "eof": self.eof, "forms": forms, "sizes": sizes,
        });
        // Absent where nobody took the time, which 0 would not say.
        if self.ns > 0 {
            value["self_ns"] = self.ns.into();
        }
        value
    }
}

/// Reads and writes of one kind of file that is not storage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Apart {
    /// Read calls and bytes.
    pub reads: (u64, u64),
    /// Write calls and bytes.
    pub writes: (u64, u64),
}

/// What one process did.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Reads of regular files and block devices.
    pub read: Op,
    /// Writes likewise.
    pub write: Op,
    /// Calls that move no bytes, by op: `open stat getdents rename unlink fsync close truncate`.
    pub meta: BTreeMap<&'static str, Op>,
    /// Calls that this kernel or architecture lacks.
    pub unsupported: BTreeSet<&'static str>,
    /// By kind: `pipe socket char pseudo`.
    pub apart: BTreeMap<&'static str, Apart>,
    /// Sizes of the distinct regular files read or written, as they are at the end.
    pub file_sizes: Vec<u64>,
    /// Further truth of this subcommand.
    pub extra: Map<String, Value>,
}

impl Tally {
    /// Counts a read of `kind` that returned `ret`.
    pub fn apart_read(&mut self, kind: &'static str, ret: isize) {
        let reads = &mut self.apart.entry(kind).or_default().reads;
        *reads = (reads.0 + 1, reads.1 + ret.max(0) as u64);
    }

    /// Counts a write of `kind` that returned `ret`.
    pub fn apart_write(&mut self, kind: &'static str, ret: isize) {
        let writes = &mut self.apart.entry(kind).or_default().writes;
        *writes = (writes.0 + 1, writes.1 + ret.max(0) as u64);
    }

    /// Adds what another thread of the same process did.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        for (&op, theirs) in &other.meta {
            self.meta.entry(op).or_default().merge(theirs);
        }
        self.unsupported.extend(&other.unsupported);
        for (&kind, theirs) in &other.apart {
            let mine = self.apart.entry(kind).or_default();
            mine.reads = (mine.reads.0 + theirs.reads.0, mine.reads.1 + theirs.reads.1);
            mine.writes = (mine.writes.0 + theirs.writes.0, mine.writes.1 + theirs.writes.1);
        }
        self.file_sizes.extend(&other.file_sizes);
        self.extra.extend(other.extra.clone());
    }

    /// The calling process's entry in `processes[]`.
    pub fn json(&self) -> Value {
        let apart: Map<String, Value> = self
            .apart
            .iter()
            .map(|(&kind, apart)| {
                let (reads, writes) = (apart.reads, apart.writes);
                let value = json!({"reads": reads.0, "read_bytes": reads.1, "writes": writes.0, "write_bytes": writes.1});
                (kind.to_owned(), value)
            })
            .collect();
        let sizes = &self.file_sizes;
        let ops: Map<String, Value> = [("read", &self.read), ("write", &self.write)]
            .into_iter()
            .chain(self.meta.iter().map(|(&op, calls)| (op, calls)))
            .map(|(op, calls)| (op.to_owned(), calls.json()))
            .collect();
        let mut value = json!({
            "pid": std::process::id(),
            "ppid": std::os::unix::process::parent_id(),
            "comm": crate::child::name(),
            "ops": ops,
            "apart": apart,
            "file_size": {
                "count": sizes.len(), "sum": sizes.iter().sum::<u64>(),
                "min": sizes.iter().min().copied().unwrap_or(0), "max": sizes.iter().max().copied().unwrap_or(0),
            },
        });
        if let Some(object) = value.as_object_mut() {
            if !self.unsupported.is_empty() {
                object.insert("unsupported".into(), json!(self.unsupported));
            }
            object.extend(self.extra.clone());
        }
        value
    }
}

fn merge_counts<K: Ord + Copy>(mine: &mut BTreeMap<K, u64>, theirs: &BTreeMap<K, u64>) {
    for (&key, &count) in theirs {
        *mine.entry(key).or_default() += count;
    }
}

/// The C name of an errno this workload can meet; the number for others.
pub fn errno_name(errno: i32) -> String {
    match errno {
        libc::EBADF => "EBADF".into(),
        libc::ENOENT => "ENOENT".into(),
        libc::EEXIST => "EEXIST".into(),
        libc::ENOTDIR => "ENOTDIR".into(),
        libc::ENOTTY => "ENOTTY".into(),
        libc::ENOSYS => "ENOSYS".into(),
        libc::EPERM => "EPERM".into(),
        libc::EACCES => "EACCES".into(),
        libc::EROFS => "EROFS".into(),
        libc::EAGAIN => "EAGAIN".into(),
        libc::EFAULT => "EFAULT".into(),
        libc::EINTR => "EINTR".into(),
        libc::EINVAL => "EINVAL".into(),
        libc::EIO => "EIO".into(),
        libc::EISDIR => "EISDIR".into(),
        libc::EFBIG => "EFBIG".into(),
        libc::ENOSPC => "ENOSPC".into(),
        libc::ESPIPE => "ESPIPE".into(),
        libc::EOPNOTSUPP => "EOPNOTSUPP".into(),
        libc::EXDEV => "EXDEV".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_return_value_is_counted_as_what_it_is() {
        let mut op = Op::default();
        for ret in [4096, 1808, 0, -(libc::EFAULT as isize)] {
            op.add("pread64", 4096, ret);
        }
        assert_eq!((op.count, op.bytes, op.short, op.eof), (4, 5904, 1, 1));
        assert_eq!(op.errors, BTreeMap::from([(libc::EFAULT, 1)]));
        assert_eq!(op.sizes, BTreeMap::from([(0, 1), (1808, 1), (4096, 1)]));
    }
}
