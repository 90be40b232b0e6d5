//! Kernel modules of the virtual machines: file systems that a test needs, and null_blk, a disk whose latency is known.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::device::Disk;

/// Folder of the modules, flat, with a file `order` of lines `module: dependency dependency`.
const FOLDER: &str = "/lib/modules";

/// The null_blk module with one device, unloaded when dropped.
pub struct NullBlk {
    /// The device.
    pub disk: Disk,
}

impl NullBlk {
    /// Path of the device.
    pub const PATH: &str = "/dev/nullb0";

    /// Loads null_blk with `parameters`.
    ///
    /// # Errors
    /// When this machine has no such module or does not take it.
    pub fn load(parameters: &str) -> Result<Self, String> {
        insert_with_needs("null_blk", parameters)?;
        let disk = Disk::of_sysfs("nullb0").ok_or("null_blk made no nullb0")?;
        Ok(Self { disk })
    }
}

impl Drop for NullBlk {
    fn drop(&mut self) {
        // SAFETY: a live C string.
        if unsafe { libc::syscall(libc::SYS_delete_module, c"null_blk".as_ptr(), 0) } < 0 {
            eprintln!("cannot unload null_blk: {}", io::Error::last_os_error());
        }
    }
}

/// Makes sure of a file system (`fuse`, `overlay`): built in, loaded already, or loaded now, for good.
///
/// # Errors
/// When this machine has neither the file system nor a module that it takes.
pub fn ensure_filesystem(name: &str) -> Result<(), String> {
    let known =
        fs::read_to_string("/proc/filesystems").map_err(|error| format!("/proc/filesystems: {error}"))?;
    if known.lines().any(|line| line.split_whitespace().last() == Some(name)) {
        return Ok(());
    }
    insert_with_needs(name, "")
}

/// Loads a module and first what it needs.
fn insert_with_needs(name: &str, parameters: &str) -> Result<(), String> {
    let order =
        fs::read_to_string(format!("{FOLDER}/order")).map_err(|_| format!("no modules in {FOLDER}"))?;
    let needs = order
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .ok_or_else(|| format!("no {name} module"))?;
    for module in needs.split_whitespace() {
        match insert(module, "") {
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => {
                return Err(format!("{module}: {error}"));
            }
            _ => {}
        }
    }
    insert(name, parameters).map_err(|error| format!("{name} {parameters}: {error}"))
}

fn insert(module: &str, parameters: &str) -> io::Result<()> {
    let file = File::open(Path::new(FOLDER).join(format!("{module}.ko")))?;
    let parameters = CString::new(parameters)?;
    // SAFETY: a live C string.
    match unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
