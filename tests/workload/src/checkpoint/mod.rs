//! Checkpoints as training frameworks write them, each by one process named `checkpoint`. Which calls, how many and in
//! which order was seen of the real ones under strace.

mod kinds;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
pub use kinds::plain;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One file by writev of 4 MiB, with an fsync every 64 MiB and at the end.
    Plain,
    /// torch.save: 77 writev, no fsync.
    TorchSave,
    /// torch.distributed.checkpoint: 226 writes and 2 fsyncs to a temporary file, renamed.
    Distributed,
    /// safetensors: writes of 8 MiB to a temporary file, renamed, no fsync.
    Safetensors,
    /// A log: writes of 512 bytes, each followed by an fsync.
    SmallSync,
}

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Who writes.
    #[arg(long, default_value = "plain")]
    kind: Kind,
    /// Folder for the file; a folder of its own is made inside and removed at the end.
    #[arg(long, required_unless_present = "file")]
    dir: Option<PathBuf>,
    /// The file to write, which stays.
    #[arg(long, conflicts_with = "dir")]
    file: Option<PathBuf>,
    /// MiB to write.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Writes of small-sync.
    #[arg(long, default_value_t = 500)]
    writes: u64,
    #[command(flatten)]
    start: Start,
}

/// Writes one checkpoint and tells.
pub fn run(args: &Args) -> Result<()> {
    match (&args.file, &args.dir) {
        (Some(file), _) => to(file, args),
        (None, Some(dir)) => {
            let scratch = Scratch::new(dir, "checkpoint")?;
            to(&scratch.path().join(args.kind.file_name()), args)
        }
        (None, None) => unreachable!("clap requires one"),
    }
}

fn to(path: &Path, args: &Args) -> Result<()> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let (kind, bytes) = (args.kind, args.mib << 20);
    ensure!(bytes > 0, "nothing to write");
    let temporary = kind.temporary(&path);
    let mut stage = Stage::new("checkpoint", &args.start)?;
    stage.add(b"checkpoint", || match kind {
        Kind::Plain => plain(&path, bytes),
        Kind::TorchSave => kinds::torch_save(&path, bytes),
        Kind::Distributed => kinds::distributed(&path, &kind.temporary(&path), bytes),
        Kind::Safetensors => kinds::safetensors(&path, &kind.temporary(&path), bytes),
        Kind::SmallSync => kinds::small_sync(&path, args.writes),
    })?;
    let told = stage.run()?;
    let written = if kind == Kind::SmallSync { args.writes * kinds::RECORD } else { bytes };
    let temporary = (temporary != path).then_some(temporary);
    let name = kind.to_possible_value().map(|value| value.get_name().to_owned());
    stage.tell(&told, json!({"kind": name, "path": path, "temporary": temporary, "bytes": written}))
}

impl Kind {
    fn file_name(self) -> &'static str {
        match self {
            Self::Plain => "checkpoint.pt",
            Self::TorchSave => "model.pt",
            Self::Distributed => "__0_0.distcp",
            Self::Safetensors => "model.safetensors",
            Self::SmallSync => "events.log",
        }
    }

    /// Where the bytes go before they are renamed to `path`; `path` itself if they are not.
    fn temporary(self, path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        match self {
            Self::Distributed => name.push(".tmp"),
            Self::Safetensors => name.push(".tmp0"),
            Self::Plain | Self::TorchSave | Self::SmallSync => {}
        }
        name.into()
    }
}
