//! Which written files are checkpoints. Each rule is a fact about how the file was written.

use iotrace_common::{file::FileTotals, process::tgid_of};

use super::{Renamed, writes::Written};
use crate::model::Checkpoint;

/// Extensions that frameworks give their checkpoints (PyTorch, Lightning, safetensors, torch.distributed.checkpoint).
const EXTENSIONS: [&[u8]; 5] = [b".pt", b".pth", b".ckpt", b".safetensors", b".distcp"];
/// Extensions of checkpoints and of much else: they say so only of a large file.
const COMMON_EXTENSIONS: [&[u8]; 2] = [b".bin", b".npz"];

/// A rename counts for a file written by the same process no longer before.
const RENAME_WITHIN_NS: u64 = 60_000_000_000;

/// Written in one go with so many bytes: a burst that a log or a small output does not make.
const LARGE_BYTES: u64 = 4 << 20;

/// Does the name, or the name without a temporary suffix, of a file of so many bytes say "checkpoint"?
pub fn has_checkpoint_name(name: &[u8], bytes: u64) -> bool {
    let lower = name.to_ascii_lowercase();
    let common = COMMON_EXTENSIONS.iter().filter(|_| bytes >= LARGE_BYTES);
    EXTENSIONS.iter().chain(common).any(|extension| {
        lower.ends_with(extension)
            || lower
                .windows(extension.len() + 1)
                .any(|w| w.starts_with(extension) && matches!(w[extension.len()], b'.' | b'_' | b'-' | b'~'))
    })
}

/// Is the name one of a file that is to be renamed?
fn is_temporary(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.windows(4).any(|w| w == b".tmp" || w == b"temp")
        || lower.starts_with(b"tmp")
        || lower.ends_with(b".part")
}

/// Last component of a path.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// The file as a checkpoint, when it is one. `path` is its path under the name it was written by.
pub fn judge(written: &Written, path: &[u8], renames: &[Renamed], trace_began_ns: u64) -> Option<Checkpoint> {
    let FileTotals { written_bytes, writes, syncs, write_ns, sync_ns, .. } = written.totals;
    if written_bytes == 0 {
        return None;
    }
    let rename = renames.iter().find(|renamed| {
        renamed.process == written.process
            && base(&renamed.from) == written.name
            && renamed.ns >= written.first_ns
            && renamed.ns.saturating_sub(written.last_ns) <= RENAME_WITHIN_NS
    });
    let final_name = rename.map_or(written.name.as_slice(), |renamed| base(&renamed.to));
    let mut rules = Vec::new();
    if [final_name, &written.name].iter().any(|name| has_checkpoint_name(name, written_bytes)) {
        rules.push("name");
    }
    if written_bytes >= LARGE_BYTES {
        rules.push("large write");
    }
    if rename.is_some() {
        rules.push(if is_temporary(&written.name) { "temporary renamed" } else { "rename" });
    }
    if syncs > 0 {
        rules.push("fsync");
    }
    // The name alone will do; without it a large write must also be made safe or put in place.
    let named = rules.contains(&"name");
    let large = rules.contains(&"large write");
    if !(named || large && rules.len() >= 2) {
        return None;
    }
    let (path, temporary) = match rename {
        Some(renamed) if renamed.to.starts_with(b"/") => (renamed.to.clone(), Some(path.to_vec())),
        Some(renamed) => {
            let folder = path.len() - base(path).len();
            ([&path[..folder], base(&renamed.to)].concat(), Some(path.to_vec()))
        }
        None => (path.to_vec(), None),
    };
    Some(Checkpoint {
        path,
        temporary,
        rules,
        pid: tgid_of(written.process),
        bytes: written_bytes,
        writes,
        syncs,
        duration_ns: written.last_ns.saturating_sub(written.first_ns),
        stall_ns: write_ns + sync_ns,
        began_ns: written.first_ns.saturating_sub(trace_began_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_checkpoints() {
        for name in [
            "model.pt",
            "epoch=3.CKPT",
            "model.safetensors",
            "__0_0.distcp",
            "model.pt.tmp",
            "a.ckpt_tmp",
            "x.pt~",
        ] {
            assert!(has_checkpoint_name(name.as_bytes(), 1), "{name}");
        }
        let common = |bytes| has_checkpoint_name(b"pytorch_model.bin", bytes);
        assert_eq!([LARGE_BYTES - 1, LARGE_BYTES].map(common), [false, true]);
        for name in ["train.log", "a.ptx", "script.py", "", "pt", "data.parquet"] {
            assert!(!has_checkpoint_name(name.as_bytes(), u64::MAX), "{name}");
        }
    }

    fn written(name: &str, bytes: u64, syncs: u64) -> Written {
        Written {
            process: 1 << 42,
            name: name.into(),
            first_ns: 10,
            last_ns: 20,
            totals: FileTotals { written_bytes: bytes, writes: 7, syncs, ..FileTotals::default() },
        }
    }

    #[test]
    fn a_renamed_temporary_is_the_file_it_became() {
        let renames =
            [Renamed { process: 1 << 42, ns: 30, from: b"x/.tmp1".to_vec(), to: b"x/__0_0.distcp".to_vec() }];
        let found = judge(&written(".tmp1", 5 << 20, 2), b"/data/x/.tmp1", &renames, 0).unwrap();
        assert_eq!(found.path, b"/data/x/__0_0.distcp");
        assert_eq!(found.temporary.unwrap(), b"/data/x/.tmp1");
        assert_eq!(found.rules, ["name", "large write", "temporary renamed", "fsync"]);
    }

    #[test]
    fn a_log_is_no_checkpoint() {
        assert!(judge(&written("train.log", 1000, 50), b"/l/train.log", &[], 0).is_none());
        assert!(judge(&written("big.out", 100 << 20, 0), b"/l/big.out", &[], 0).is_none());
        assert!(judge(&written("big.out", 100 << 20, 1), b"/l/big.out", &[], 0).is_some());
    }
}
