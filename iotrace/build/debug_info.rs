//! Takes the DWARF out of the kernel object: four fifths of it, which no loader reads, and which would lie in memory for
//! as long as iotrace runs. The types (`.BTF`) and line numbers (`.BTF.ext`) that a verifier's log shows stay.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};

/// Rewrites an object without its debug sections.
pub fn remove(path: &Path) -> Result<()> {
    let shown = path.display();
    let old = fs::read(path).with_context(|| format!("{shown} cannot be read"))?;
    let mut object = Builder::read(old.as_slice()).with_context(|| format!("{shown} is no ELF file"))?;
    for section in &mut object.sections {
        let name = section.name.as_slice();
        section.delete = name.starts_with(b".debug") || name.starts_with(b".rel.debug");
    }
    object.delete_orphans();
    // LLVM keeps the names of sections among those of symbols; the writer wants them apart.
    if !object.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        let names = object.sections.add();
        names.name = b".shstrtab".as_slice().into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut new = Vec::new();
    object.write(&mut new).with_context(|| format!("{shown} cannot be written anew"))?;
    fs::write(path, new).with_context(|| format!("{shown} cannot be written"))
}
