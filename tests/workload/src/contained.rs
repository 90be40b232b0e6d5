//! Another subcommand inside what a container is made of: a cgroup, a pid namespace, a mount namespace. Its truth gains
//! an object `contained` that tells of the three.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{namespace, sys};

/// Environment variable by which the subcommand inside learns what is around it, as JSON.
pub const AROUND: &str = "IOTRACE_WORKLOAD_AROUND";

/// Hierarchies of version 1 in which an empty new cgroup takes processes at once; the first that is mounted is used.
const V1: [&str; 4] = ["pids", "memory", "freezer", "cpu"];
/// How long an emptied cgroup may take to become removable.
const PATIENCE: Duration = Duration::from_secs(5);

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the cgroup; made at the top of the hierarchy, removed at the end.
    #[arg(long)]
    cgroup: String,
    /// Subcommand of this program, and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Runs the subcommand and ends as it ends.
pub fn run(args: &Args) -> Result<()> {
    ensure!(!args.cgroup.is_empty() && !args.cgroup.contains('/'), "a cgroup's name has no slash");
    let program = std::env::current_exe()?.into_os_string().into_string().ok().context("a path of UTF-8")?;
    let command: Vec<String> = std::iter::once(program).chain(args.command.iter().cloned()).collect();
    let cgroup = Cgroup::create(&args.cgroup)?;
    let code = namespace::contain(&command, || {
        // SAFETY: no address is passed. The namespaces end with this process, and it must not outlive its parent.
        sys::check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        cgroup.enter()?;
        // Still the procfs of outside: it knows this process by the pid that outside knows.
        let pid: Option<u32> = fs::read_link("/proc/self")?.to_str().and_then(|pid| pid.parse().ok());
        let around = json!({
            "init_pid": pid, "cgroup": {
                "path": format!("/{}", args.cgroup), "dir": cgroup.dir, "version": cgroup.version, "id": cgroup.id,
            },
        });
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var(AROUND, around.to_string()) };
        Ok(())
    });
    cgroup.remove()?;
    std::process::exit(code?)
}

/// A cgroup of this run's own.
struct Cgroup {
    dir: PathBuf,
    version: u32,
    /// Inode of the folder: what bpf_get_current_cgroup_id says, in version 2.
    id: u64,
}

impl Cgroup {
    /// Makes it where version 2 is mounted, or else in a hierarchy of version 1.
    fn create(name: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
        let mut reason = None;
        for (version, top) in hierarchies(&mounts) {
            let dir = top.join(name);
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Self { version, id: dir.metadata()?.ino(), dir }),
                Err(error) => reason = Some(format!("{}: {error}", dir.display())),
            }
        }
        anyhow::bail!("no cgroup: {}", reason.unwrap_or_else(|| "no hierarchy is mounted".into()))
    }

    /// Moves the calling process into it.
    fn enter(&self) -> Result<()> {
        fs::write(self.dir.join("cgroup.procs"), "0")
            .with_context(|| format!("entering {}", self.dir.display()))
    }

    /// Removes it; the processes inside have been killed with their namespace, but may still be ending.
    fn remove(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result.with_context(|| format!("removing {}", self.dir.display())),
            }
        }
    }
}

/// Places where a cgroup may be made, as (version, folder), the preferred first, by `/proc/self/mountinfo`.
fn hierarchies(mountinfo: &str) -> Vec<(u32, &Path)> {
    let mut found: Vec<(usize, u32, &Path)> = Vec::new();
    for line in mountinfo.lines() {
        // "ID PARENT DEV ROOT MOUNTPOINT OPTIONS [TAG..] - TYPE SOURCE SUPER-OPTIONS"
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(at), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next()) else { continue };
        let options = right.split(' ').nth(2).unwrap_or_default();
        match kind {
            "cgroup2" => found.push((0, 2, Path::new(at))),
            "cgroup" => {
                let rank = V1.iter().position(|name| options.split(',').any(|option| option == *name));
                found.extend(rank.map(|rank| (1 + rank, 1, Path::new(at))));
            }
            _ => {}
        }
    }
    found.sort_by_key(|&(rank, ..)| rank);
    found.into_iter().map(|(_, version, at)| (version, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_comes_first_and_cpuset_never() {
        let mountinfo = "\
30 25 0:26 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
31 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/unified rw,relatime shared:1 - cgroup2 cgroup2 rw
33 25 0:29 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
";
        let expected = [(2, "unified"), (1, "pids"), (1, "memory")];
        let found = hierarchies(mountinfo);
        let named: Vec<_> =
            found.iter().map(|(version, at)| (*version, at.file_name().unwrap().to_str().unwrap())).collect();
        assert_eq!(named, expected);
    }
}
