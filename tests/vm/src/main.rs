//! Process 1 of a test VM: mounts what a container host has mounted, runs the test binaries, prints the closing line,
//! powers off. Neither tracefs nor bpffs is mounted, because iotrace must do without.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use iotrace_vm::{MODULE_ORDER_PATH, MODULES_DIR, PLAN_PATH, Plan, SCRATCH_DIR, TESTS_DIR, Tally};
use rustix::{
    mount::{MountFlags, mount},
    process::{WaitOptions, getpid, wait},
    system::{RebootCommand, finit_module, reboot},
};

/// The virtio disk, formatted by the host.
const SCRATCH_DEVICE: &str = "/dev/vda";
fn main() {
    if getpid().as_raw_nonzero().get() == 1 {
        if let Err(error) = reap_until_done() {
            println!("init: {error:#}");
        }
        rustix::fs::sync();
        let failed = reboot(RebootCommand::PowerOff);
        println!("init: cannot power off: {failed:?}");
    } else {
        let tally = boot().unwrap_or_else(|error| {
            println!("init: {error:#}");
            Tally::broken()
        });
        println!("{}", tally.closing_line());
    }
}

/// Leaves the work to a child: process 1 must collect every orphan, or a test that forks thousands fills the pid space.
fn reap_until_done() -> Result<()> {
    let child = Command::new("/init").spawn().context("cannot start the second half of init")?;
    loop {
        if let Some((pid, _)) = wait(WaitOptions::empty())?
            && pid.as_raw_nonzero().get().unsigned_abs() == child.id()
        {
            return Ok(());
        }
    }
}

fn boot() -> Result<Tally> {
    let plan = fs::read_to_string(PLAN_PATH).with_context(|| format!("cannot read {PLAN_PATH}"))?;
    let plan: Plan = serde_json::from_str(&plan).with_context(|| format!("{PLAN_PATH} is not a plan"))?;
    mount_kernel_trees()?;
    load_modules(&plan.load)?;
    if plan.hide_btf {
        mount_at("tmpfs", "tmpfs", "/sys/kernel/btf")?;
    }
    mount_at(SCRATCH_DEVICE, "ext4", SCRATCH_DIR)?;
    // SAFETY: init has one thread.
    unsafe { env::set_var("PATH", "/bin") };
    run(Command::new("/bin/busybox").args(["--install", "-s", "/bin"]), |_| ())?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("init: kernel {} is ready", kernel.trim());

    let mut tests: Vec<_> = fs::read_dir(TESTS_DIR)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    tests.sort();
    let mut total = Tally::default();
    for test in &tests {
        total.add(&run_test(test, &plan)?);
    }
    Ok(total)
}

fn mount_kernel_trees() -> Result<()> {
    mount_at("proc", "proc", "/proc")?;
    mount_at("sysfs", "sysfs", "/sys")?;
    mount_at("devtmpfs", "devtmpfs", "/dev")?;
    mount_at("tmpfs", "tmpfs", "/tmp")?;
    mount_at("tmpfs", "tmpfs", "/dev/shm")?;
    mount_at("cgroup2", "cgroup2", "/sys/fs/cgroup")?;
    for (link, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), format!("/dev/{link}"))?;
    }
    Ok(())
}

fn mount_at(source: &str, kind: &str, target: &str) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("cannot make {target}"))?;
    mount(source, target, kind, MountFlags::empty(), None)
        .with_context(|| format!("cannot mount {source} ({kind}) at {target}"))
}

fn load_modules(wanted: &[String]) -> Result<()> {
    let order =
        fs::read_to_string(MODULE_ORDER_PATH).with_context(|| format!("cannot read {MODULE_ORDER_PATH}"))?;
    let mut loaded = Vec::new();
    for module in wanted {
        // Absent: built into this kernel.
        let Some(needs) =
            order.lines().find_map(|line| line.strip_prefix(module.as_str())?.strip_prefix(':'))
        else {
            continue;
        };
        for name in needs.split_whitespace().chain([module.as_str()]) {
            if !loaded.contains(&name) {
                let path = format!("{MODULES_DIR}/{name}.ko");
                let file = fs::File::open(&path).with_context(|| format!("cannot open {path}"))?;
                // A module for hardware that the VM lacks (crc32c_intel on an odd CPU) is no loss.
                if let Err(error) = finit_module(&file, c"", 0) {
                    println!("init: {name} does not load: {error}");
                }
                loaded.push(name);
            }
        }
    }
    Ok(())
}

fn run_test(test: &Path, plan: &Plan) -> Result<Tally> {
    let name = test.file_name().unwrap_or_default().to_string_lossy();
    println!("init: running {name}");
    let mut command = Command::new(test);
    command.args(&plan.args).envs(plan.env.iter().map(|(key, value)| (key, value)));
    let mut tally = Tally::default();
    let mut finished = false;
    let ok = run(&mut command, |line| {
        finished |= line.starts_with("test result: ");
        tally.feed(line);
    })?;
    if !finished {
        println!("init: {name} ended without a summary (success: {ok})");
        tally.add(&Tally::broken());
    }
    Ok(tally)
}

/// Runs a command, repeats its stdout on the console, and shows each line to `look`.
fn run(command: &mut Command, mut look: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            look(&line);
        }
    }
    Ok(child.wait()?.success())
}
