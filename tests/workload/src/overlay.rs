//! Reads and writes through an overlay, as a container's are, by one child named `overlay`: a file of the lower layer,
//! a new one of the upper layer, and one that the first open for writing copies up. Mounted in a mount namespace of
//! the process's own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::counted::c_path;
use crate::mounts::{self, Mounted};
use crate::scratch::{Scratch, make_file};
use crate::stage::{Stage, Start};
use crate::tally::Tally;
use crate::truth;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the layers and the mount point; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Reads of the lower file, writes of the upper one, and reads and writes of the copied one.
    #[arg(long, default_value_t = 200)]
    calls: u64,
    /// Bytes a call.
    #[arg(long, default_value_t = 4096)]
    size: u64,
    #[command(flatten)]
    start: Start,
}

/// Mounts, has the files used, and tells.
pub fn run(args: &Args) -> Result<()> {
    mounts::leave_namespace()?;
    let scratch = Scratch::new(&args.dir, "overlay")?;
    let layers = match Layers::mount(scratch.path(), args.calls * args.size) {
        Ok(layers) => layers,
        Err(reason) => return truth::print("overlay", &[], json!({"unsupported": [format!("{reason:#}")]})),
    };
    let mut stage = Stage::new("overlay", &args.start)?;
    stage.add(b"overlay", || work(args, &layers.merged()))?;
    let mut told = stage.run()?;
    for child in &mut told {
        add_inodes(child, &layers)?;
    }
    let (merged, lower, upper) = (layers.merged(), layers.0.join("lower"), layers.0.join("upper"));
    let extra = json!({
        "mount": merged, "dev": dev(&merged.metadata()?), "lower": lower, "upper": upper,
        "lower_dev": dev(&lower.metadata()?), "upper_dev": dev(&upper.metadata()?), "on_tmpfs": layers.2.is_some(),
        "calls": args.calls, "size": args.size,
    });
    stage.tell(&told, extra)
}

/// A folder of layers, the overlay mounted on its `merged`, and what the folder itself is mounted on, if need be.
/// The fields are dropped in this order.
struct Layers(PathBuf, #[expect(dead_code, reason = "unmounts when dropped")] Mounted, Option<Mounted>);

impl Layers {
    /// Makes the layers in `dir`, or in a tmpfs there if its file system cannot be an upper layer.
    fn mount(dir: &Path, bytes: u64) -> Result<Self> {
        let plain = dir.join("layers");
        if let Ok(overlay) = mount_at(&plain, bytes) {
            return Ok(Self(plain, overlay, None));
        }
        let memory = dir.join("memory");
        fs::create_dir(&memory)?;
        let tmpfs = mounts::mount("tmpfs", &memory, "tmpfs", "").context("tmpfs")?;
        let overlay = mount_at(&memory, bytes).context("overlay")?;
        Ok(Self(memory, overlay, Some(tmpfs)))
    }

    fn merged(&self) -> PathBuf {
        self.0.join("merged")
    }
}

fn mount_at(dir: &Path, bytes: u64) -> Result<Mounted> {
    for layer in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(dir.join(layer))?;
    }
    for name in ["lower.bin", "copied.bin"] {
        make_file(&dir.join("lower").join(name), bytes)?;
    }
    let at = |layer: &str| dir.join(layer).display().to_string();
    let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    Ok(mounts::mount("overlay", &dir.join("merged"), "overlay", &options)?)
}

fn work(args: &Args, merged: &Path) -> Result<Tally> {
    let mut tally = Tally::default();
    let (calls, bytes) = (args.calls, args.calls * args.size);
    let mut buffer = vec![0x0e; args.size as usize];
    let mut files = Vec::new();
    let flags = [
        ("lower.bin", libc::O_RDONLY),
        ("upper.bin", libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC),
        ("copied.bin", libc::O_RDWR),
    ];
    for (name, flags) in flags {
        let path = merged.join(name);
        let access = flags & libc::O_ACCMODE;
        let (reads, writes) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
        let fd = tally.open(&c_path(&path)?, flags | libc::O_CLOEXEC)?;
        for _ in 0..if reads { calls } else { 0 } {
            tally.read_some(fd, &mut buffer)?;
        }
        for _ in 0..if writes { calls } else { 0 } {
            tally.write_all(fd, &buffer)?;
        }
        if writes {
            tally.fsync(fd)?;
        }
        tally.close(fd)?;
        // The copied file is read to its end and then doubled.
        let size = if reads && writes { 2 * bytes } else { bytes };
        tally.file_sizes.push(size);
        files.push(json!({
            "path": path, "sessions": 1, "size": size,
            "layer": match (reads, writes) { (true, false) => "lower", (false, _) => "upper", _ => "copied up" },
            "reads": u64::from(reads) * calls, "read_bytes": u64::from(reads) * bytes,
            "writes": u64::from(writes) * calls, "write_bytes": u64::from(writes) * bytes,
            "fsyncs": u64::from(writes),
        }));
    }
    tally.extra.insert("files".into(), files.into());
    Ok(tally)
}

/// Adds to each file its device and inode as the overlay shows them, and those of the layer that holds it now.
fn add_inodes(child: &mut Value, layers: &Layers) -> Result<()> {
    for file in child["files"].as_array_mut().into_iter().flatten() {
        let path = PathBuf::from(file["path"].as_str().context("a path")?);
        let layer = if file["layer"] == "lower" { "lower" } else { "upper" };
        let real = layers.0.join(layer).join(path.file_name().context("a name")?);
        let (shown, behind) = (path.metadata()?, real.metadata()?);
        if let Some(file) = file.as_object_mut() {
            file.insert("dev".into(), dev(&shown).into());
            file.insert("inode".into(), shown.ino().into());
            file.insert("real".into(), json!({"path": real, "dev": dev(&behind), "inode": behind.ino()}));
        }
    }
    Ok(())
}

fn dev(metadata: &fs::Metadata) -> String {
    format!("{}:{}", libc::major(metadata.dev()), libc::minor(metadata.dev()))
}
