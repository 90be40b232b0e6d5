//! Packs the initramfs of one boot: a cpio archive in the `newc` format, not compressed (unpacking costs more in an
//! emulated CPU than reading does).

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use cpio::newc::{Builder, trailer};
use iotrace_vm::{MODULES_DIR, PLAN_PATH, Plan, TESTS_DIR};

use super::{Guest, kernels::Kernel};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DATA: u32 = 0o100_644;

/// Writes the archive.
pub fn write(file: &Path, plan: &Plan, guest: &Guest, kernel: &Kernel) -> Result<()> {
    let mut archive = Archive { to: BufWriter::new(File::create(file)?), next_ino: 1 };
    for folder in ["bin", "dev", "etc", "lib", "lib/modules", "proc", "sys", "tests", "tmp"] {
        archive.add(folder, FOLDER, &[])?;
    }
    archive.add_file("/init", PROGRAM, &guest.init)?;
    archive.add(PLAN_PATH, DATA, &serde_json::to_vec(plan)?)?;
    for (name, program) in &guest.programs {
        archive.add_file(&format!("/bin/{name}"), PROGRAM, program)?;
    }
    for (name, test) in &guest.tests {
        archive.add_file(&format!("{TESTS_DIR}/{name}"), PROGRAM, test)?;
    }
    for module in std::fs::read_dir(&kernel.modules)? {
        let module = module?;
        archive.add_file(&format!("{MODULES_DIR}/{}", module.file_name().display()), DATA, &module.path())?;
    }
    let mut to = trailer(archive.to)?;
    to.flush().with_context(|| format!("cannot write {}", file.display()))
}

struct Archive {
    to: BufWriter<File>,
    next_ino: u32,
}

impl Archive {
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
