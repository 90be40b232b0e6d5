//! A trace without the names of files: path components become keyed hashes. A pure function of the model; the key comes
//! from outside.
//!
//! The same component has the same hash everywhere in a report, and in every report made with the same key, so paths
//! can still be compared, and their depth and extensions are still seen.

use std::sync::Arc;

use crate::model::{Files, Trace};

mod paths;

pub use paths::Redactor;

/// `trace` with every path, and every argument that holds a slash, redacted.
pub fn redacted(mut trace: Trace, by: &Redactor) -> Trace {
    trace.meta.redacted = true;
    trace.meta.command.iter_mut().for_each(|argument| *argument = by.argument(argument));
    // cgroups are paths below /sys/fs/cgroup, named by services and users.
    trace.meta.targets.cgroups.iter_mut().for_each(|path| *path = text(by.path(path.as_bytes())));
    for (_, value) in trace.meta.filters.iter_mut().filter(|(name, _)| name == "path") {
        *value = text(by.path(value.as_bytes()));
    }
    for process in &mut trace.processes {
        if process.cmdline.iter().any(|argument| by.changes(argument)) {
            process.cmdline =
                Arc::new(process.cmdline.iter().map(|argument| by.argument(argument)).collect());
        }
    }
    for device in &mut trace.devices {
        // The file behind a loop device; names of device-mapper have no slash.
        if let Some(alias) = device.alias.as_mut().filter(|alias| alias.contains('/')) {
            *alias = text(by.path(alias.as_bytes()));
        }
    }
    files(&mut trace.files, by);
    trace
}

fn files(files: &mut Files, by: &Redactor) {
    let path = |path: &mut Vec<u8>| *path = by.path(path);
    files.top.iter_mut().for_each(|of| path(&mut of.path));
    files.folders.iter_mut().for_each(|of| path(&mut of.path));
    files.failures.iter_mut().for_each(|of| path(&mut of.path));
    for of in &mut files.checkpoints {
        path(&mut of.path);
        of.temporary.iter_mut().for_each(path);
    }
    for of in &mut files.file_systems {
        path(&mut of.mount_point);
        // A device is no file name, and `tmpfs` or `none` tell nothing; a server's export or a bucket do.
        let plain = of.source.starts_with(b"/dev/")
            || of.source == of.fs_type.as_bytes()
            || of.source == b"none"
            || of.source == b"overlay";
        if !plain {
            path(&mut of.source);
        }
    }
}

/// Redacted text is ASCII but for what stood in brackets or after the last dot.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
