//! One boot: disk, initramfs, qemu, and what its serial line said.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use iotrace_vm::{Plan, SCRATCH_DIR, Tally};

use super::{Boot, Guest, initramfs, kernels};
use crate::{
    paths,
    process::{command, output, tail},
};

/// Sparse, so that only what a test writes takes space.
const DISK_BYTES: u64 = 1 << 30;
const MEMORY_MIB: &str = "1536";

/// Emulation, which every host can do. One thread for both CPUs: with a thread each, qemu may run a stale breakpoint
/// while the kernel patches its own code, as it does when a probe is attached, and the kernel dies of "Oops: int3"
/// (seen on 7.2 with qemu 7.2). Two VMs at a time keep two cores as busy.
const ACCELERATOR: &str = "tcg,thread=single";

/// Loaded before the tests; the others are theirs to load. `configfs` is all that null_blk needs.
const LOADED: [&str; 9] = [
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "crc32c_intel",
    "crc32c_cryptoapi",
    "ext4",
    "loop",
    "mq_deadline",
    "configfs",
];

/// Boots a kernel, runs the tests in it, prints one line about it, and the log if something failed.
pub fn boot(boot: &Boot, guest: &Guest, verbose: bool) -> Tally {
    let name = boot.name();
    let kernel = match kernels::ensure(boot.series) {
        Ok(kernel) => kernel,
        Err(error) => {
            println!("vm {name:<20} skipped: {error:#}");
            return Tally::skip(format!("vm {name}: {error}"));
        }
    };
    let start = Instant::now();
    let outcome = run(boot, guest, &kernel);
    let seconds = start.elapsed().as_secs_f64();
    let (tally, log) = match outcome {
        Ok(Outcome { log, in_time }) => match Tally::from_vm_log(&log) {
            Some(mut tally) => {
                tally.skips.iter_mut().for_each(|skip| *skip = format!("vm {name}: {skip}"));
                println!("vm {name:<20} {seconds:6.1} s  {tally}  ({})", kernel.package);
                (tally, log)
            }
            None => {
                let why = if in_time {
                    "ended without a result".into()
                } else {
                    format!("ran over {:?}", boot.timeout)
                };
                println!("vm {name:<20} {seconds:6.1} s  {why}  ({})", kernel.package);
                (Tally::broken(), log)
            }
        },
        Err(error) => {
            println!("vm {name:<20} {seconds:6.1} s  cannot run: {error:#}");
            (Tally::broken(), String::new())
        }
    };
    if verbose {
        println!("{log}");
    } else if tally.failed > 0 {
        println!("{}\n(whole log: {})", tail(&log), log_file(&name).display());
    }
    tally
}

struct Outcome {
    log: String,
    in_time: bool,
}

fn folder() -> std::path::PathBuf {
    paths::target().join("vm")
}

fn log_file(name: &str) -> std::path::PathBuf {
    folder().join(format!("{name}.log"))
}

fn run(boot: &Boot, guest: &Guest, kernel: &kernels::Kernel) -> Result<Outcome> {
    let name = boot.name();
    fs::create_dir_all(folder())?;
    let initrd = folder().join(format!("{name}.cpio"));
    let disk = folder().join(format!("{name}.img"));
    initramfs::write(&initrd, &plan(boot), guest, kernel).context("cannot write the initramfs")?;
    make_disk(&disk)?;
    let log = log_file(&name);
    let mut qemu = command("qemu-system-x86_64");
    qemu.args(["-accel", ACCELERATOR, "-cpu", "max", "-m", MEMORY_MIB, "-smp", "2"]);
    qemu.args(["-nographic", "-no-reboot", "-nic", "none", "-kernel"])
        .arg(&kernel.vmlinuz)
        .arg("-initrd")
        .arg(&initrd);
    let lockdown = boot.lockdown.map_or(String::new(), |mode| format!(" lockdown={}", mode.name()));
    qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 mitigations=off{lockdown}"));
    qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,cache=unsafe", disk.display()));
    qemu.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
    let in_time = within(&mut qemu, boot.timeout)?;
    let log = String::from_utf8_lossy(&fs::read(&log)?).replace('\r', "");
    for file in [initrd, disk] {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(Outcome { log, in_time })
}

fn plan(boot: &Boot) -> Plan {
    let mut env = vec![
        ("IOTRACE_BIN", "/bin/iotrace"),
        ("IOTRACE_WORKLOAD", "/bin/iotrace-workload"),
        ("IOTRACE_SCRATCH", SCRATCH_DIR),
        ("IOTRACE_VM", boot.series),
        ("RUST_BACKTRACE", "1"),
    ];
    if boot.no_btf {
        env.push(("IOTRACE_VM_NOBTF", "1"));
    }
    if let Some(mode) = boot.lockdown {
        env.push(("IOTRACE_VM_LOCKDOWN", mode.name()));
    }
    // A skipped test says why on its stdout, which libtest shows of a passed test only when asked.
    let mut args = vec!["--test-threads=1".to_owned(), "--show-output".to_owned()];
    args.extend_from_slice(&boot.filter);
    Plan {
        load: LOADED.map(String::from).to_vec(),
        hide_btf: boot.no_btf,
        env: env.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        args,
    }
}

fn make_disk(disk: &Path) -> Result<()> {
    let file = File::create(disk).with_context(|| format!("cannot create {}", disk.display()))?;
    file.set_len(DISK_BYTES)?;
    let mkfs = crate::process::which("mkfs.ext4").context("no mkfs.ext4; run `cargo xtask setup`")?;
    output(command(mkfs).args(["-q", "-F"]).arg(disk)).map(drop)
}

/// Waits for a command; stops it and returns false when it takes too long.
fn within(command: &mut Command, limit: Duration) -> Result<bool> {
    const POLL: Duration = Duration::from_millis(50);
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let start = Instant::now();
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
}
