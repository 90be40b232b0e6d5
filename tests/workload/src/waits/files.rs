//! Waits for storage. Everything is made beforehand by the parent.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::{Kind, Meter};
use crate::counted::c_path;
use crate::dio::Aligned;
use crate::scratch::Scratch;
use crate::sys::{self, path};

/// Bytes of a file.
const SIZE: usize = 16 << 20;
const BLOCK: usize = 4096;
const BLOCKS: usize = SIZE / BLOCK;
/// Step from block to block, odd, so that all are met, and too long for the kernel to read ahead.
const STEP: usize = 1237;

/// A file that is on the device and not in memory.
pub struct Large(PathBuf);

impl Large {
    /// Makes it.
    pub fn prepare(scratch: &Scratch, name: &str) -> Result<Self> {
        let path = scratch.file(name, SIZE as u64)?;
        let file = File::open(&path)?;
        file.sync_all()?;
        sys::drop_cache(&file)?;
        Ok(Self(path))
    }

    fn open(&self, flags: libc::c_int) -> Result<File> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.0);
        file.with_context(|| self.0.display().to_string())
    }

    /// Reads or writes until time is up.
    pub fn work(&self, kind: Kind, meter: &mut Meter) -> Result<()> {
        let direct = matches!(kind, Kind::DirectRead | Kind::DirectWrite);
        let file = self.open(if direct { libc::O_DIRECT } else { 0 })?;
        if kind == Kind::Fault {
            return fault(&file, meter);
        }
        if kind == Kind::ColdRead {
            // SAFETY: no address is passed.
            ensure!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) } == 0);
        }
        let mut buffer = Aligned::new(BLOCK)?;
        let buffer = buffer.bytes();
        for number in 0.. {
            if meter.is_over() {
                return Ok(());
            }
            if kind == Kind::ColdRead && number % BLOCKS == 0 {
                sys::drop_cache(&file)?;
            }
            let offset = (number * STEP % BLOCKS * BLOCK) as u64;
            let ret = meter.call(|| match kind {
                Kind::DirectRead | Kind::ColdRead => sys::pread64(&file, buffer, offset),
                _ => sys::pwrite64(&file, buffer, offset),
            });
            ensure!(ret == BLOCK as isize, "a transfer returned {ret}");
            if kind == Kind::Fsync {
                meter.call(|| file.sync_all())?;
            }
        }
        Ok(())
    }
}

/// Touches pages of a mapping that reads nothing ahead, until time is up.
fn fault(file: &File, meter: &mut Meter) -> Result<()> {
    while !meter.is_over() {
        sys::drop_cache(file)?;
        // SAFETY: a fresh mapping, no address asked for.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), SIZE, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        ensure!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        // SAFETY: the whole of a live mapping; the advice changes no contents.
        sys::check(unsafe { libc::madvise(at, SIZE, libc::MADV_RANDOM) }).context("madvise")?;
        for number in 0..BLOCKS {
            if meter.is_over() {
                break;
            }
            // SAFETY: inside of the mapping, and nobody shortens the file.
            meter.call(|| unsafe { at.cast::<u8>().add(number * STEP % BLOCKS * BLOCK).read_volatile() });
        }
        // SAFETY: mapped above with this length; no reference is left.
        sys::check(unsafe { libc::munmap(at, SIZE) })?;
    }
    Ok(())
}

/// A file in memory.
pub struct Warm(File);

impl Warm {
    /// Makes it.
    pub fn prepare(scratch: &Scratch) -> Result<Self> {
        let file = File::open(scratch.file("warm", 1 << 20)?)?;
        file.sync_all()?;
        Ok(Self(file))
    }

    /// Reads until time is up.
    pub fn read(&self, meter: &mut Meter) -> Result<()> {
        let mut buffer = [0; BLOCK];
        while !meter.is_over() {
            let began = Instant::now();
            for block in 0..256 {
                let ret = sys::pread64(&self.0, &mut buffer, block * BLOCK as u64);
                ensure!(ret == BLOCK as isize, "a read returned {ret}");
            }
            meter.blocked += began.elapsed();
            meter.calls += 256;
        }
        Ok(())
    }
}

/// A folder whose changes are on the device before a call returns.
pub struct Synchronous([CString; 2]);

impl Synchronous {
    /// Makes it, or says why it cannot be had.
    pub fn prepare(scratch: &Scratch) -> Result<Result<Self, String>> {
        /// FS_IOC_SETFLAGS and FS_SYNC_FL | FS_DIRSYNC_FL (include/uapi/linux/fs.h).
        const SETFLAGS: libc::Ioctl = 0x4008_6602_u32 as libc::Ioctl;
        static SYNCHRONOUS: libc::c_long = 0x0001_0008;
        let folder = scratch.path().join("rename");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("a"), "")?;
        let opened = File::open(&folder)?;
        opened.sync_all()?;
        // SAFETY: the kernel reads an int from a live long.
        if unsafe { libc::ioctl(opened.as_raw_fd(), SETFLAGS, &raw const SYNCHRONOUS) } < 0 {
            return Ok(Err(format!("FS_DIRSYNC_FL: {}", std::io::Error::last_os_error())));
        }
        Ok(Ok(Self([c_path(&folder.join("a"))?, c_path(&folder.join("b"))?])))
    }

    /// Renames its file until time is up.
    pub fn rename(&self, meter: &mut Meter) -> Result<()> {
        for number in 0.. {
            if meter.is_over() {
                break;
            }
            let (from, to) = (&self.0[number % 2], &self.0[1 - number % 2]);
            let form = if path::has("rename") { "rename" } else { "renameat2" };
            let ret = meter.call(|| path::rename(form, from, to));
            ensure!(ret == 0, "{form} returned {ret}");
        }
        Ok(())
    }
}

/// Stop and resume writes to a file system (include/uapi/linux/fs.h).
const FIFREEZE: libc::Ioctl = 0xc004_5877_u32 as libc::Ioctl;
const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;

/// Folders with a file each, none of which is in memory.
pub struct Tree(Vec<CString>);

impl Tree {
    /// Makes it, freezes its file system for a moment and drops all clean caches of the machine.
    pub fn prepare(scratch: &Scratch) -> Result<Self> {
        let mut paths = Vec::new();
        for number in 0..1000 {
            let folder = scratch.path().join(format!("tree-{number}"));
            std::fs::create_dir(&folder)?;
            std::fs::write(folder.join("file"), "")?;
            paths.push(c_path(&folder.join("file"))?);
        }
        // The journal keeps what it has not yet brought to its place in memory; a freeze makes it do so.
        let folder = File::open(scratch.path())?;
        sys::sync_fs(&folder)?;
        for (name, request) in [("FIFREEZE", FIFREEZE), ("FITHAW", FITHAW)] {
            // SAFETY: both take an int that they do not use.
            sys::check(unsafe { libc::ioctl(folder.as_raw_fd(), request, 0) }).context(name)?;
        }
        if let Err(error) = std::fs::write("/proc/sys/vm/drop_caches", "3") {
            bail!("/proc/sys/vm/drop_caches: {error}");
        }
        Ok(Self(paths))
    }

    /// Looks at every file once.
    pub fn stat(&self, meter: &mut Meter) -> Result<()> {
        for file in &self.0 {
            let ret = meter.call(|| path::stat("newfstatat", file));
            ensure!(ret == 0, "newfstatat returned {ret}");
        }
        Ok(())
    }
}
