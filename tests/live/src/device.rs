//! Block devices: which one holds a file, how many extents a file has, a loop device over a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes a file of `bytes`, brings it to the device and drops it from the cache.
pub fn write_file(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let block = vec![0xa5; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(block.len() as u64);
        file.write_all(&block[..piece as usize])?;
        left -= piece;
    }
    file.sync_all()?;
    drop_pages(&file)
}

/// Drops a file that is on the device from the cache.
pub fn drop_from_cache(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    drop_pages(&file)
}

fn drop_pages(file: &File) -> io::Result<()> {
    // SAFETY: no address is passed.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A disk: what block requests name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// `vda`.
    pub name: String,
    /// Device number.
    pub number: (u64, u64),
}

impl Disk {
    /// The disk under the file system of `path`. `None` where that is no one request-based disk: tmpfs, overlayfs,
    /// btrfs, a device mapper.
    pub fn of(path: &Path) -> Option<Self> {
        let device = fs::metadata(path).ok()?.dev();
        Self::of_number(u64::from(libc::major(device)), u64::from(libc::minor(device)))
    }

    /// The disk that /sys/block calls `name`.
    pub fn of_sysfs(name: &str) -> Option<Self> {
        let number = fs::read_to_string(format!("/sys/block/{name}/dev")).ok()?;
        let (major, minor) = number.trim().split_once(':')?;
        Some(Self { name: name.to_owned(), number: (major.parse().ok()?, minor.parse().ok()?) })
    }

    fn of_number(major: u64, minor: u64) -> Option<Self> {
        let mut sysfs = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        if sysfs.join("partition").exists() {
            sysfs.pop();
        }
        if fs::read_dir(sysfs.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some()) {
            return None;
        }
        Self::of_sysfs(sysfs.file_name()?.to_str()?)
    }

    /// Whether `detail`, an entry of a `block_detail`, is of this disk.
    pub fn is_of(&self, detail: &serde_json::Value) -> bool {
        let number = |key: &str| crate::num(detail, &format!("/device/{key}"));
        (number("major"), number("minor")) == self.number
    }

    /// Sets an attribute of its queue in sysfs.
    pub fn set_queue(&self, attribute: &str, value: &str) -> io::Result<()> {
        fs::write(format!("/sys/block/{}/queue/{attribute}", self.name), value)
    }
}

/// Extents of a file (FIEMAP): an I/O that crosses from one to the next is two requests.
pub fn extents(path: &Path) -> io::Result<u64> {
    /// FS_IOC_FIEMAP.
    const FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
    /// struct fiemap without room for extents: the kernel only counts them.
    #[repr(C)]
    struct Fiemap {
        start: u64,
        length: u64,
        flags: u32,
        mapped_extents: u32,
        extent_count: u32,
        _pad: u32,
    }
    let file = File::open(path)?;
    let mut map =
        Fiemap { start: 0, length: u64::MAX, flags: 0, mapped_extents: 0, extent_count: 0, _pad: 0 };
    // SAFETY: a live struct of the layout that the command takes, with no room for extents.
    if unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(map.mapped_extents.into())
}

/// A loop device over a file, detached when dropped.
pub struct Loop {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// The disk.
    pub disk: Disk,
    device: File,
}

/// LOOP_SET_FD, LOOP_CLR_FD, LOOP_CTL_GET_FREE.
const LOOP_SET_FD: libc::Ioctl = 0x4c00;
const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;

impl Loop {
    /// Puts a loop device over `file`.
    ///
    /// # Errors
    /// When the kernel has none to give; the text says what was tried.
    pub fn over(file: &Path) -> Result<Self, String> {
        let open = |path: &Path| {
            let file = OpenOptions::new().read(true).write(true).open(path);
            file.map_err(|error| format!("{}: {error}", path.display()))
        };
        let control = open(Path::new("/dev/loop-control"))?;
        let backing = open(file)?;
        // Another program can take the free device first: ask again.
        for _ in 0..8 {
            // SAFETY: no address is passed.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(format!("LOOP_CTL_GET_FREE: {}", io::Error::last_os_error()));
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open(&path)?;
            // SAFETY: no address is passed.
            if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD, backing.as_raw_fd()) } == 0 {
                let rdev = device.metadata().map_err(|error| error.to_string())?.rdev();
                let disk = Disk::of_number(libc::major(rdev).into(), libc::minor(rdev).into());
                return Ok(Self { disk: disk.ok_or("no loop device in /sys")?, path, device });
            }
        }
        Err(format!("LOOP_SET_FD: {}", io::Error::last_os_error()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // SAFETY: no address is passed.
        if unsafe { libc::ioctl(self.device.as_raw_fd(), LOOP_CLR_FD) } < 0 {
            eprintln!("cannot detach {}: {}", self.path.display(), io::Error::last_os_error());
        }
    }
}
