//! Debian packages: which are installed, installing more, and fetching those of other Debian releases.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};

use super::{cache_dir, require_root};
use crate::process::{command, output, which};

/// Whether dpkg has this package, complete.
pub fn installed(package: &str) -> bool {
    output(command("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]))
        .is_ok_and(|status| status == "installed")
}

/// Whether the machine's own sources offer this package.
pub fn offered(package: &str) -> bool {
    output(command("apt-cache").args(["show", "--no-all-versions", package]))
        .is_ok_and(|text| !text.is_empty())
}

/// Installs packages with apt-get. Without root, or without apt, the error holds the command to type.
pub fn install(packages: &[&str]) -> Result<()> {
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if which("apt-get").is_none() {
        bail!(
            "this machine has no apt-get, and setup knows Debian's packages only. On Debian it would run\n  {line}\n\
             Install the same tools with your system's package manager, then run this command again"
        );
    }
    require_root(&line)?;
    // Other people's sources may be unreachable without hurting ours: the install itself tells.
    if let Err(error) = update_own_lists() {
        eprintln!("warning: {error:#}");
    }
    eprintln!("running {line}");
    let mut words = line.split_whitespace();
    output(apt(words.next().unwrap_or_default()).args(["-q", "-o", "Dpkg::Use-Pty=0"]).args(words)).map(drop)
}

/// Brings the machine's package lists up to date.
pub fn update_own_lists() -> Result<()> {
    eprintln!("running apt-get update");
    output(apt("apt-get").args(["-q", "update"])).map(drop)
}

fn apt(program: &str) -> Command {
    let mut command = command(program);
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    command
}

/// Lists of several Debian releases beside the machine's own, read through the machine's own mirror.
///
/// Nothing of the machine's apt state changes: sources, lists and archives are kept in the cache folder.
pub mod world {
    use super::*;

    /// Releases looked at. The kernels of the VM matrix are spread over them.
    const SUITES: [&str; 3] = ["bullseye", "bookworm", "unstable"];
    /// Security archives looked at: new kernels for stable releases appear there first.
    const SECURITY_SUITES: [&str; 1] = ["bookworm-security"];
    /// Lists younger than this are not fetched again.
    const FRESH: Duration = Duration::from_secs(24 * 3600);

    fn folder() -> PathBuf {
        cache_dir().join("apt")
    }

    fn apt_here(program: &str) -> Command {
        let folder = folder();
        let option = |key: &str, path: &Path| format!("{key}={}", path.display());
        let mut command = apt(program);
        command.args(["-o", &option("Dir::Etc::sourcelist", &folder.join("sources.list"))]);
        command.args(["-o", "Dir::Etc::sourceparts=-"]);
        command.args(["-o", &option("Dir::State::lists", &folder.join("lists"))]);
        command.args(["-o", &option("Dir::Cache", &folder.join("cache"))]);
        // The cache folder may be closed to apt's own user.
        command.args([
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Acquire::Languages=none",
            "-o",
            "Acquire::Retries=3",
        ]);
        command.args(["-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]);
        command
    }

    /// Fetches the lists, unless they are fresh. A release that cannot be reached is just not in them.
    ///
    /// # Errors
    /// When this machine's configuration names no Debian mirror.
    pub fn refresh() -> Result<()> {
        let folder = folder();
        let stamp = folder.join("updated");
        let age = fs::metadata(&stamp)
            .and_then(|meta| meta.modified())
            .map(|time| SystemTime::now().duration_since(time));
        if matches!(age, Ok(Ok(age)) if age < FRESH) {
            return Ok(());
        }
        fs::create_dir_all(folder.join("lists/partial"))?;
        fs::create_dir_all(folder.join("cache/archives/partial"))?;
        fs::write(folder.join("sources.list"), sources()?)?;
        match output(apt_here("apt-get").args(["-q", "update"])) {
            Ok(_) => fs::write(&stamp, "")?,
            Err(error) => eprintln!("warning: not all package lists could be read: {error:#}"),
        }
        Ok(())
    }

    fn sources() -> Result<String> {
        let mirrors = own_mirrors()?;
        let main = mirrors.iter().find(|(_, release)| !release.contains("security"));
        let security = mirrors.iter().find(|(_, release)| release.contains("security"));
        let Some((main, _)) = main else {
            bail!(
                "this machine's apt configuration names no Debian mirror (looked in `apt-get indextargets`)"
            );
        };
        let mut lines = String::new();
        for suite in SUITES {
            lines += &format!("deb {main} {suite} main\n");
        }
        for suite in SECURITY_SUITES {
            if let Some((security, _)) = security {
                lines += &format!("deb {security} {suite} main\n");
            }
        }
        Ok(lines)
    }

    /// (address, release) of each Debian archive that the machine itself uses.
    fn own_mirrors() -> Result<Vec<(String, String)>> {
        let ask = || {
            output(apt("apt-get").args([
                "indextargets",
                "--format",
                "$(REPO_URI) $(RELEASE)",
                "Created-By: Packages",
                "Origin: Debian",
            ]))
        };
        let mut text = ask()?;
        if text.trim().is_empty() {
            // A new container comes without lists, and the origin is written in them.
            update_own_lists().context("this machine has no package lists, and they cannot be fetched")?;
            text = ask()?;
        }
        let pair =
            |line: &str| line.split_once(' ').map(|(uri, release)| (uri.to_owned(), release.to_owned()));
        Ok(text.lines().filter_map(pair).collect())
    }

    /// Names of all packages that begin with this.
    pub fn names(prefix: &str) -> Result<Vec<String>> {
        let text = output(apt_here("apt-cache").args(["pkgnames", prefix]))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Downloads packages into a folder and returns their files, in the order asked for.
    pub fn download(packages: &[String], folder: &Path) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(folder)?;
        output(apt_here("apt-get").args(["-q", "download"]).args(packages).current_dir(folder))?;
        let files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        let file_of = |package: &String| {
            let start = format!("{package}_");
            let is_it = |file: &&PathBuf| {
                file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
            };
            files
                .iter()
                .find(is_it)
                .cloned()
                .with_context(|| format!("apt-get download left no file of {package}"))
        };
        packages.iter().map(file_of).collect()
    }
}
