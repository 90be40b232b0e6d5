//! Ways of reading that a report should tell apart, each on a file of its own, by one child named `patterns`.

mod reads;
mod storms;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::sys;
use crate::tally::Tally;

/// A way of touching files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// preads of 64 KiB, each where the last one ended, to the end of the file.
    Sequential,
    /// preads of 4 KiB at every 64 KiB.
    Strided,
    /// preads of 4 KiB at shuffled places, each place once.
    Random,
    /// Reads of 1 MiB from open to end of file.
    Whole,
    /// The same small file opened, read whole and closed three times.
    Repeated,
    /// Reads of 512 bytes through the whole file.
    Tiny,
    /// Opens of files that do not exist.
    Enoent,
    /// Stats of one file.
    Stat,
    /// A scan of a folder of many entries.
    Scan,
}

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the files; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Only this pattern (repeatable).
    #[arg(long)]
    pattern: Vec<Pattern>,
    /// MiB of each large file.
    #[arg(long, default_value_t = 64)]
    mib: u64,
    /// Opens of the ENOENT storm, and stats of the stat storm.
    #[arg(long, default_value_t = 5000)]
    storm: u64,
    /// Entries of the folder that is scanned.
    #[arg(long, default_value_t = 10_000)]
    entries: u64,
    /// Drop the files from memory before the start.
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    start: Start,
}

/// Runs the patterns one after another and tells.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.mib > 0, "files of no size");
    let patterns = if args.pattern.is_empty() { Pattern::value_variants() } else { &args.pattern };
    let scratch = Scratch::new(&args.dir, "patterns")?;
    for &pattern in patterns {
        prepare(pattern, &scratch, args).with_context(|| format!("{pattern:?}"))?;
    }
    let mut stage = Stage::new("patterns", &args.start)?;
    stage.add(b"patterns", || {
        let mut tally = Tally::default();
        let mut told = Vec::<Value>::new();
        for &pattern in patterns {
            let truth = work(pattern, &scratch, args, &mut tally);
            told.push(truth.with_context(|| format!("{pattern:?}"))?);
        }
        tally.extra.insert("patterns".into(), told.into());
        Ok(tally)
    })?;
    let told = stage.run()?;
    stage.tell(&told, json!({"dir": scratch.path(), "mib": args.mib}))
}

impl Pattern {
    /// Its name on the command line, and that of its file or folder.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

fn prepare(pattern: Pattern, scratch: &Scratch, args: &Args) -> Result<()> {
    let name = pattern.name();
    let size = match pattern {
        Pattern::Enoent => return Ok(()),
        Pattern::Scan => return storms::make_folder(&scratch.path().join(name), args.entries),
        Pattern::Stat => 1,
        Pattern::Repeated => reads::REPEATED_SIZE,
        _ => args.mib << 20,
    };
    let path = scratch.file(&name, size)?;
    if args.cold {
        let file = std::fs::File::open(path)?;
        file.sync_all()?;
        sys::drop_cache(&file)?;
    }
    Ok(())
}

fn work(pattern: Pattern, scratch: &Scratch, args: &Args, tally: &mut Tally) -> Result<Value> {
    let (name, size) = (pattern.name(), args.mib << 20);
    let path = scratch.at(&name)?;
    match pattern {
        Pattern::Sequential => reads::at_places(&name, &path, size, &reads::sequential(size), tally),
        Pattern::Strided => reads::at_places(&name, &path, size, &reads::strided(size), tally),
        Pattern::Random => reads::at_places(&name, &path, size, &reads::random(size), tally),
        Pattern::Whole => reads::through(&name, &path, size, 1 << 20, 1, tally),
        Pattern::Repeated => reads::through(&name, &path, reads::REPEATED_SIZE, 64 << 10, 3, tally),
        Pattern::Tiny => reads::through(&name, &path, size, 512, 1, tally),
        Pattern::Enoent => storms::enoent(&name, &path, args.storm, tally),
        Pattern::Stat => storms::stat(&name, &path, args.storm, tally),
        Pattern::Scan => storms::scan(&name, &path, args.entries, tally),
    }
}
