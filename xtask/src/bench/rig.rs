//! What all parts stand on: the CPUs, a scratch file system in memory, a loop device. All of it goes with this process,
//! however it ends: the mounts are in a namespace of its own, the loop device detaches itself when the last
//! descriptor is closed, children die with their parent.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{Signal, set_parent_process_death_signal},
    thread::{CpuSet, UnshareFlags, sched_getaffinity, sched_setaffinity, unshare_unsafe},
};

use crate::{paths, process::command};

/// The bench's place to work.
pub struct Rig {
    /// The iotrace to measure.
    pub iotrace: PathBuf,
    /// The workload.
    pub workload: PathBuf,
    /// Folder on this machine's own file system, for cached files.
    pub folder: PathBuf,
    /// Folder in memory, seen by this process and its children only.
    pub memory: PathBuf,
    /// All CPUs that this process may use.
    pub cpus: CpuSet,
    /// Where the load runs. The bench and the tracers run elsewhere, if there is an elsewhere.
    pub load_cpu: usize,
}

impl Rig {
    /// Mounts the folder in memory and leaves the load's CPU.
    pub fn set_up(iotrace: &Path) -> Result<Self> {
        let iotrace = fs::canonicalize(iotrace).with_context(|| iotrace.display().to_string())?;
        let folder = paths::target().join("bench");
        let memory = folder.join("memory");
        fs::create_dir_all(&memory).with_context(|| format!("cannot make {}", memory.display()))?;
        own_mounts().context("cannot make a mount namespace")?;
        mount("tmpfs", &memory, "tmpfs", MountFlags::empty(), None)
            .with_context(|| format!("cannot mount a tmpfs on {}", memory.display()))?;

        let cpus = sched_getaffinity(None)?;
        let mut own_cpus = cpus;
        let load_cpu = (0..CpuSet::MAX_CPU)
            .find(|cpu| own_cpus.is_set(*cpu))
            .context("this process may run on no CPU")?;
        if own_cpus.count() > 1 {
            own_cpus.unset(load_cpu);
            sched_setaffinity(None, &own_cpus)?;
        } else {
            eprintln!("one CPU only: tracers share it with the load");
        }
        let workload = paths::target().join("release/iotrace-workload");
        Ok(Self { iotrace, workload, folder, memory, cpus, load_cpu })
    }
}

/// A command that dies with this process.
pub fn child(program: impl AsRef<Path>) -> Command {
    let mut command = command(program.as_ref());
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    command
}

/// The same, on all CPUs of the bench.
pub fn child_on_all_cpus(rig: &Rig, program: impl AsRef<Path>) -> Command {
    child_on(rig.cpus, program)
}

/// The same, on the load's CPU.
pub fn child_on_load_cpu(rig: &Rig, program: impl AsRef<Path>) -> Command {
    let mut cpu = CpuSet::new();
    cpu.set(rig.load_cpu);
    child_on(cpu, program)
}

fn child_on(cpus: CpuSet, program: impl AsRef<Path>) -> Command {
    let mut command = child(program);
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &cpus)?)) };
    command
}

/// Puts the calling process into a mount namespace whose mounts nobody else sees. Safe to call between fork and exec.
pub fn own_mounts() -> std::io::Result<()> {
    // SAFETY: file descriptors stay shared, so nothing that Rust knows of changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change(c"/", private)?)
}

/// A loop device over a file in memory.
pub struct Loop {
    /// `/dev/loopN`.
    pub path: PathBuf,
    stat: PathBuf,
    backing: PathBuf,
    /// The device lives as long as this.
    _device: File,
}

/// linux/loop.h.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// struct loop_config, with what it holds of struct loop_info64 as far as it is used.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    /// lo_device to lo_sizelimit, lo_number, lo_encrypt_type, lo_encrypt_key_size.
    _before_flags: [u32; 13],
    flags: u32,
    /// Names, key, lo_init, and what is reserved.
    _after_flags: [u64; 30],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

impl Loop {
    /// Fills a file of `mib` MiB in `folder` and puts a loop device over it.
    pub fn new(folder: &Path, mib: usize) -> Result<Self> {
        let backing = folder.join("disk");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let mut file = options.open(&backing).with_context(|| backing.display().to_string())?;
        let block = vec![0xa5; 1 << 20];
        (0..mib).try_for_each(|_| file.write_all(&block)).context("cannot fill the disk")?;

        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control");
        let control = control.context("/dev/loop-control")?;
        let config = LoopConfig {
            fd: file.as_raw_fd() as u32,
            block_size: 0,
            _before_flags: [0; 13],
            flags: LO_FLAGS_AUTOCLEAR,
            _after_flags: [0; 30],
        };
        // Another program can take the free device first: ask again.
        for _ in 0..8 {
            // SAFETY: no address is passed.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(std::io::Error::last_os_error()).context("LOOP_CTL_GET_FREE");
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(true).open(&path);
            let device = device.with_context(|| path.display().to_string())?;
            // SAFETY: a live struct of the layout that the command reads.
            if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } == 0 {
                let stat = PathBuf::from(format!("/sys/block/loop{number}/stat"));
                return Ok(Self { path, stat, backing, _device: device });
            }
        }
        let error = std::io::Error::last_os_error();
        bail!("LOOP_CONFIGURE: {error}");
    }

    /// Reads completed since the device was made.
    pub fn reads(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.stat).with_context(|| self.stat.display().to_string())?;
        let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
        first.with_context(|| format!("{} holds {text:?}", self.stat.display()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The device keeps the file's content until it is closed, just after this.
        drop(fs::remove_file(&self.backing));
    }
}
