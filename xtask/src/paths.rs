//! Where things lie in the workspace.

use std::path::{Path, PathBuf};

/// Root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The workspace's target folder, as cargo would choose it.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) if !folder.is_empty() => root().join(folder),
        _ => root().join("target"),
    }
}
