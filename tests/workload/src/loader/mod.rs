//! An image loader as ImageFolder and PIL make it: forked workers named `pt_data_worker` that read whole files of
//! lognormal size from class folders. The files can be made once and read by many runs.

mod files;
mod read;
mod sizes;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::rng::Rng;
use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::truth;
use files::Plan;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the files: a folder of its own is made inside and removed. With --prepare-only it is the folder
    /// itself, and stays.
    #[arg(long, required_unless_present = "reuse")]
    dir: Option<PathBuf>,
    /// Files.
    #[arg(long, default_value_t = 1000)]
    files: u64,
    /// Mean size in bytes; ImageNet's.
    #[arg(long, default_value_t = 110_000)]
    mean_bytes: u64,
    /// Seed of the sizes and of the order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Workers.
    #[arg(long, default_value_t = 4)]
    workers: u64,
    /// Times that all files are read; each in an order of its own.
    #[arg(long, default_value_t = 1)]
    epochs: u64,
    /// Drop the files, and as root all unused dentries and inodes, from memory before the first epoch.
    #[arg(long)]
    cold: bool,
    /// Only make the files in --dir.
    #[arg(long)]
    prepare_only: bool,
    /// Read the files that --prepare-only made in this folder; --files, --mean-bytes and --seed are theirs.
    #[arg(long, conflicts_with_all = ["dir", "prepare_only"])]
    reuse: Option<PathBuf>,
    #[command(flatten)]
    start: Start,
}

/// Makes the files unless they are there, has the workers read them, and tells.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.workers > 0 && args.epochs > 0, "nobody reads");
    let asked = Plan { files: args.files, mean_bytes: args.mean_bytes, seed: args.seed };
    if args.prepare_only {
        let dir = args.dir.as_deref().context("--dir")?;
        let took = Instant::now();
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        asked.make(dir)?;
        asked.keep(dir)?;
        let extra = json!({"prepared": dir, "prepare_s": took.elapsed().as_secs_f64()});
        return truth::print("loader", &[], merged(asked.json(), extra));
    }
    match (&args.reuse, &args.dir) {
        (Some(dir), _) => {
            let dir = dir.canonicalize().with_context(|| dir.display().to_string())?;
            read(args, &dir, &Plan::kept(&dir)?)
        }
        (None, Some(dir)) => {
            let scratch = Scratch::new(dir, "loader")?;
            asked.make(scratch.path())?;
            read(args, scratch.path(), &asked)
        }
        (None, None) => unreachable!("clap requires one"),
    }
}

fn read(args: &Args, dir: &Path, plan: &Plan) -> Result<()> {
    let paths = plan.c_paths(dir)?;
    let sizes = plan.sizes();
    let dropped = if args.cold { Some(files::drop_caches(&paths, dir)?) } else { None };
    let orders: Vec<Vec<u32>> = (0..args.epochs)
        .map(|epoch| {
            let mut order: Vec<u32> = (0..paths.len() as u32).collect();
            Rng::new(plan.seed ^ 0x5eed ^ epoch << 32).shuffle(&mut order);
            order
        })
        .collect();
    let mut stage = Stage::new("loader", &args.start)?;
    for worker in 0..args.workers as usize {
        let work = || {
            let shares = orders.iter().map(|order| order.iter().skip(worker).step_by(args.workers as usize));
            read::epochs(&paths, shares, &sizes)
        };
        stage.add(b"pt_data_worker", work)?;
    }
    let told = stage.run()?;
    let extra = json!({"dir": dir, "epochs": args.epochs, "workers": args.workers, "dropped": dropped});
    stage.tell(&told, merged(plan.json(), extra))
}

fn merged(mut a: serde_json::Value, b: serde_json::Value) -> serde_json::Value {
    if let (Some(a), serde_json::Value::Object(b)) = (a.as_object_mut(), b) {
        a.extend(b);
    }
    a
}
