//! Packs the initramfs of one boot: a cpio archive in the `newc` format, not compressed (unpacking costs more in an
//! emulated CPU than reading does).

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use cpio::newc::{Builder, trailer};
use iotrace_vm::{MODULE_ORDER_PATH, MODULES_DIR, PLAN_PATH, Plan};

use super::{Guest, kernels::Kernel};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DATA: u32 = 0o100_644;

/// Writes the archive.
pub fn write(file: &Path, plan: &Plan, guest: &Guest, kernel: &Kernel) -> Result<()> {
    let mut archive =
        Archive { to: BufWriter::new(File::create(file)?), folders: BTreeSet::new(), next_ino: 1 };
    for folder in ["/bin", "/dev", "/proc", "/sys", "/tmp"] {
        archive.add_folder(folder)?;
    }
    archive.add_parents(PLAN_PATH)?;
    archive.add(PLAN_PATH, DATA, &serde_json::to_vec(plan)?)?;
    for (place, file) in &guest.files {
        archive.add_parents(place)?;
        archive.add_file(place, PROGRAM, file)?;
    }
    archive.add_parents(MODULE_ORDER_PATH)?;
    for module in std::fs::read_dir(&kernel.modules)? {
        let module = module?;
        archive.add_file(&format!("{MODULES_DIR}/{}", module.file_name().display()), DATA, &module.path())?;
    }
    let mut to = trailer(archive.to)?;
    to.flush().with_context(|| format!("cannot write {}", file.display()))
}

struct Archive {
    to: BufWriter<File>,
    /// Folders already in the archive.
    folders: BTreeSet<String>,
    next_ino: u32,
}

impl Archive {
    /// Adds the folders that lead to a file. The kernel makes none by itself.
    fn add_parents(&mut self, place: &str) -> Result<()> {
        let ends = place.match_indices('/').map(|(end, _)| end).filter(|end| *end > 0);
        for folder in ends.map(|end| &place[..end]) {
            self.add_folder(folder)?;
        }
        Ok(())
    }

    fn add_folder(&mut self, folder: &str) -> Result<()> {
        if self.folders.insert(folder.to_owned()) {
            self.add(folder, FOLDER, &[])?;
        }
        Ok(())
    }

    fn add_file(&mut self, name: &str, mode: u32, from: &Path) -> Result<()> {
        let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.add(name, mode, &bytes)
    }

    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let entry = Builder::new(name.trim_start_matches('/')).ino(self.next_ino).mode(mode);
        self.next_ino += 1;
        let size =
            u32::try_from(bytes.len()).with_context(|| format!("{name} is too large for a cpio archive"))?;
        let mut writer = entry.write(&mut self.to, size);
        writer.write_all(bytes)?;
        writer.finish()?;
        Ok(())
    }
}
