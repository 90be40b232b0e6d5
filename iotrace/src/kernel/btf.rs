//! A reader of BTF, the kernel's own type information (Documentation/bpf/btf.rst): offsets of struct fields, functions
//! that exist, arguments of tracepoints.
//!
//! Our own, because the two crates that do it hold every type of the kernel in memory at once: `btfparse` 1.3.9 took
//! 62 MB and 250 ms for a 5.5 MB file, where iotrace as a whole may take 40 MB. This one keeps the bytes and an index.

use std::{fs, io, path::Path};

/// Where the kernel shows its types.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why BTF cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The bytes are no BTF.
    #[error("not BTF: {0}")]
    Malformed(&'static str),
}

/// Type kinds used here (include/uapi/linux/btf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// struct.
    Struct,
    /// A function.
    Func,
    /// typedef.
    Typedef,
}

mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// Parsed BTF.
pub struct Btf {
    bytes: Vec<u8>,
    /// Byte offset of each type's record; type id 0 is `void` and has none.
    types: Vec<u32>,
    /// Start and end of the strings.
    strings: (usize, usize),
}

/// A type's fixed part.
#[derive(Clone, Copy)]
struct Record {
    name: u32,
    kind: u32,
    members: u32,
    /// Bit-field encoding of member offsets.
    flagged: bool,
    /// Size, or the type referred to.
    size_or_type: u32,
    /// Byte offset of what follows.
    body: usize,
}

const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;
/// Deeper nesting of anonymous members, typedefs or qualifiers than any real kernel has.
const DEPTH_LIMIT: u32 = 32;

impl Btf {
    /// Of the running kernel.
    pub fn of_kernel() -> Result<Self, BtfError> {
        Self::from_file(Path::new(VMLINUX))
    }

    /// From a file of raw BTF.
    pub fn from_file(path: &Path) -> Result<Self, BtfError> {
        let bytes = fs::read(path)
            .map_err(|error| BtfError::Unreadable { path: path.display().to_string(), error })?;
        Self::parse(bytes)
    }

    /// From raw BTF of this machine's byte order.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let malformed = BtfError::Malformed;
        if bytes.len() < HEADER_BYTES {
            return Err(malformed("shorter than its header"));
        }
        if u16::from_ne_bytes([bytes[0], bytes[1]]) != 0xeb9f {
            return Err(malformed("wrong magic number"));
        }
        let word = |at: usize| read_u32(&bytes, at).map(|v| v as usize);
        let header = word(4).unwrap_or(0);
        let section = |offset_at, length_at| {
            let start = header.checked_add(word(offset_at)?)?;
            let end = start.checked_add(word(length_at)?)?;
            (end <= bytes.len()).then_some((start, end))
        };
        let (start, end) = section(8, 12).ok_or(malformed("types lie outside the file"))?;
        let strings = section(16, 20).ok_or(malformed("strings lie outside the file"))?;

        let mut types = Vec::with_capacity((end - start) / 32);
        let mut at = start;
        while at < end {
            let record = read_record(&bytes, at).ok_or(malformed("cut short in a type"))?;
            let body = body_bytes(&record).ok_or(malformed("unknown kind of type"))?;
            types.push(at as u32);
            at = record.body + body;
        }
        if at > bytes.len() {
            return Err(malformed("cut short in a type"));
        }
        Ok(Self { bytes, types, strings })
    }

    fn record(&self, id: u32) -> Option<Record> {
        let index = (id as usize).checked_sub(1)?;
        read_record(&self.bytes, *self.types.get(index)? as usize)
    }

    fn name(&self, offset: u32) -> &[u8] {
        let start = self.strings.0.saturating_add(offset as usize);
        let strings = self.bytes.get(start..self.strings.1).unwrap_or(&[]);
        strings.split(|&b| b == 0).next().unwrap_or(&[])
    }

    /// The type of this kind and name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<u32> {
        let wanted = match kind {
            Kind::Struct => kind::STRUCT,
            Kind::Func => kind::FUNC,
            Kind::Typedef => kind::TYPEDEF,
        };
        (1..=self.types.len() as u32).find(|&id| {
            self.record(id).is_some_and(|r| r.kind == wanted && self.is_named(r.name, name.as_bytes()))
        })
    }

    fn is_named(&self, offset: u32, name: &[u8]) -> bool {
        let start = self.strings.0.saturating_add(offset as usize);
        self.bytes
            .get(start..self.strings.1)
            .is_some_and(|s| s.starts_with(name) && s.get(name.len()) == Some(&0))
    }

    /// Bit offset of a member, which may be a bit field, of struct `name` or of an anonymous member of it.
    pub fn bit_of(&self, name: &str, member: &str) -> Option<u32> {
        let id = self.find(Kind::Struct, name)?;
        self.member(id, member.as_bytes(), true, DEPTH_LIMIT).map(|(bits, _)| bits)
    }

    /// Byte offset of `path` (members joined by dots, anonymous ones left out) in struct `name`. `None` when the struct
    /// or a member does not exist, or the member is a bit field.
    pub fn offset_of(&self, name: &str, path: &str) -> Option<u32> {
        let mut id = self.find(Kind::Struct, name)?;
        let mut bits = 0;
        for member in path.split('.') {
            let (member_bits, member_type) = self.member(id, member.as_bytes(), false, DEPTH_LIMIT)?;
            bits += member_bits;
            id = member_type;
        }
        (bits % 8 == 0).then_some(bits / 8)
    }

    /// Bit offset and type of a member, looked for in anonymous members too; bit fields only if they are wanted.
    fn member(&self, id: u32, name: &[u8], bit_fields: bool, depth: u32) -> Option<(u32, u32)> {
        let record = self.resolve(id)?;
        if depth == 0 || !matches!(record.kind, kind::STRUCT | kind::UNION) {
            return None;
        }
        (0..record.members as usize).find_map(|index| {
            let at = record.body + index * MEMBER_BYTES;
            let (member_name, member_type) = (read_u32(&self.bytes, at)?, read_u32(&self.bytes, at + 4)?);
            let offset = read_u32(&self.bytes, at + 8)?;
            let (bits, bit_field) =
                if record.flagged { (offset & 0xff_ffff, offset >> 24 != 0) } else { (offset, false) };
            match self.name(member_name) {
                [] => {
                    self.member(member_type, name, bit_fields, depth - 1).map(|(inner, t)| (bits + inner, t))
                }
                found if found == name && (bit_fields || !bit_field) => Some((bits, member_type)),
                _ => None,
            }
        })
    }

    /// Follows typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<Record> {
        for _ in 0..DEPTH_LIMIT {
            let record = self.record(id)?;
            match record.kind {
                kind::TYPEDEF | kind::VOLATILE..=kind::RESTRICT | kind::TYPE_TAG => id = record.size_or_type,
                _ => return Some(record),
            }
        }
        None
    }

    /// Does a function of this name exist, not inlined away?
    pub fn has_function(&self, name: &str) -> bool {
        self.find(Kind::Func, name).is_some()
    }

    /// Value of an enumerator of any enum of 32-bit values.
    pub fn enumerator(&self, name: &str) -> Option<u32> {
        (1..=self.types.len() as u32)
            .filter_map(|id| self.record(id))
            .filter(|r| r.kind == kind::ENUM)
            .find_map(|r| {
                (0..r.members as usize).find_map(|index| {
                    let at = r.body + index * 8;
                    let named = self.is_named(read_u32(&self.bytes, at)?, name.as_bytes());
                    if named { read_u32(&self.bytes, at + 4) } else { None }
                })
            })
    }

    /// Number of arguments of a raw tracepoint; `None` when the kernel has no such tracepoint.
    pub fn tracepoint_arity(&self, tracepoint: &str) -> Option<u32> {
        let typedef = self.find(Kind::Typedef, &format!("btf_trace_{tracepoint}"))?;
        let pointer = self.resolve(typedef).filter(|r| r.kind == kind::PTR)?;
        let proto = self.resolve(pointer.size_or_type).filter(|r| r.kind == kind::FUNC_PROTO)?;
        // The first parameter is the probe's private data.
        proto.members.checked_sub(1)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn read_record(bytes: &[u8], at: usize) -> Option<Record> {
    let info = read_u32(bytes, at + 4)?;
    Some(Record {
        name: read_u32(bytes, at)?,
        kind: info >> 24 & 0x1f,
        members: info & 0xffff,
        flagged: info >> 31 == 1,
        size_or_type: read_u32(bytes, at + 8)?,
        body: at + RECORD_BYTES,
    })
}

/// Bytes after a type's fixed part; `None` for kinds newer than this reader.
fn body_bytes(record: &Record) -> Option<usize> {
    let each = |bytes: usize| record.members as usize * bytes;
    Some(match record.kind {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION => each(MEMBER_BYTES),
        kind::ENUM | kind::FUNC_PROTO => each(8),
        kind::DATASEC | kind::ENUM64 => each(12),
        1..=kind::ENUM64 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// struct outer { int a; union { struct { int b; int c; }; long d; }; struct inner { int x, y; } e; }, a function, and
    /// typedef void (*btf_trace_t)(void *, struct outer *, int).
    fn sample() -> Vec<u8> {
        let names = ["", "a", "b", "c", "d", "e", "x", "y", "int", "outer", "inner", "do_it", "btf_trace_t"];
        let mut strings = Vec::new();
        let mut offsets = Vec::new();
        for name in names {
            offsets.push(strings.len() as u32);
            strings.extend(name.as_bytes());
            strings.push(0);
        }
        let n = |name: &str| offsets[names.iter().position(|x| *x == name).unwrap()];
        let info = |kind: u32, members: u32| kind << 24 | members;
        let types: Vec<u32> = [
            vec![n("int"), info(kind::INT, 0), 4, 0],                       // 1
            vec![0, info(kind::STRUCT, 2), 8, n("b"), 1, 0, n("c"), 1, 32], // 2
            vec![0, info(kind::UNION, 2), 8, 0, 2, 0, n("d"), 1, 0],        // 3
            vec![n("inner"), info(kind::STRUCT, 2), 8, n("x"), 1, 0, n("y"), 1, 32], // 4
            vec![n("outer"), info(kind::STRUCT, 3), 24, n("a"), 1, 0, 0, 3, 64, n("e"), 4, 128], // 5
            vec![0, info(kind::PTR, 0), 5],                                 // 6
            vec![0, info(kind::FUNC_PROTO, 3), 0, 0, 6, 0, 6, 0, 1],        // 7
            vec![n("do_it"), info(kind::FUNC, 0), 7],                       // 8
            vec![0, info(kind::PTR, 0), 7],                                 // 9
            vec![n("btf_trace_t"), info(kind::TYPEDEF, 0), 9],              // 10
        ]
        .concat();
        let mut bytes = Vec::from(0xeb9f_u16.to_ne_bytes());
        bytes.extend([1, 0]);
        for word in [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        types.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn offsets_reach_into_anonymous_and_named_members() {
        let btf = Btf::parse(sample()).unwrap();
        for (path, offset) in
            [("a", Some(0)), ("b", Some(8)), ("c", Some(12)), ("d", Some(8)), ("e.y", Some(20))]
        {
            assert_eq!(btf.offset_of("outer", path), offset, "{path}");
        }
        assert_eq!(btf.offset_of("outer", "z"), None);
        assert_eq!(btf.offset_of("outer", "a.b"), None);
        assert_eq!(btf.offset_of("nothing", "a"), None);
    }

    #[test]
    fn functions_and_tracepoint_arguments() {
        let btf = Btf::parse(sample()).unwrap();
        assert!(btf.has_function("do_it") && !btf.has_function("outer"));
        assert_eq!((btf.tracepoint_arity("t"), btf.tracepoint_arity("u")), (Some(2), None));
    }

    #[test]
    fn no_prefix_and_no_changed_byte_panics() {
        let whole = sample();
        for cut in 0..whole.len() {
            let _ = Btf::parse(whole[..cut].to_vec());
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Ok(btf) = Btf::parse(bytes) {
                    let _ = (btf.offset_of("outer", "e.y"), btf.tracepoint_arity("t"));
                }
            }
        }
    }
}
