//! Distribution kernels: which package has the newest of a series, and what of it a VM needs, kept in the cache folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

use anyhow::{Context as _, Result, bail};

use crate::setup::{cache_dir, world};

/// A kernel series of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// As the command line names it.
    pub name: &'static str,
    /// Packages that together hold kernel and modules, as (text before, text after) the version.
    packages: &'static [(&'static str, &'static str)],
}

/// The matrix: the oldest and the newest kernel that iotrace supports, and the ones most in use between them.
pub const SERIES: [Series; 4] = [
    Series { name: "5.10", packages: &[("linux-image-5.10.", "-amd64")] },
    Series { name: "6.1", packages: &[("linux-image-6.1.", "-amd64")] },
    Series { name: "6.12", packages: &[("linux-image-6.12.", "+deb12-amd64")] },
    Series {
        name: "7.2",
        packages: &[("linux-binary-unsigned-7.2.", "-amd64"), ("linux-modules-7.2.", "-amd64")],
    },
];

/// Modules that init loads or tests may load. What a kernel has built in, or does not have, is passed over.
const MODULES: [&str; 19] = [
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "crc32c_intel",
    "crc32c_cryptoapi",
    "ext4",
    "loop",
    "null_blk",
    "brd",
    "fuse",
    "overlay",
    "xfs",
    "nvme",
    "dm_mod",
    "dm_delay",
    "dm_crypt",
    "bfq",
    "mq_deadline",
    "kyber_iosched",
];

/// Parts of the module tree that can hold one of [`MODULES`] or what it depends on.
const MODULE_FOLDERS: [&str; 9] = [
    "arch/",
    "block/",
    "crypto/",
    "drivers/block/",
    "drivers/md/",
    "drivers/nvme/",
    "drivers/virtio/",
    "fs/",
    "lib/",
];

/// A kernel ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Package and version, as downloaded.
    pub package: String,
    /// The kernel image.
    pub vmlinuz: PathBuf,
    /// Folder of `*.ko` and `order`.
    pub modules: PathBuf,
}

/// Finds the newest kernel of a series and fetches it unless it is in the cache folder.
///
/// # Errors
/// When no package can be had and none is kept. That is a reason to skip the kernel, not a fault of iotrace.
pub fn ensure(series: &str) -> Result<Kernel> {
    // apt locks its folders, and fails where one would expect it to wait.
    static APT: Mutex<()> = Mutex::new(());
    let series = SERIES.iter().find(|known| known.name == series).context("unknown kernel series")?;
    let kept = cache_dir().join("kernels").join(series.name);
    let (packages, folder) = {
        let _turn = APT.lock().expect("no thread panics while it runs apt");
        let packages = world::refresh().and_then(|()| series.newest());
        let packages = match (packages, newest_kept(&kept)) {
            (Ok(packages), _) => packages,
            (Err(_), Some(kernel)) => return Ok(kernel),
            (Err(error), None) => return Err(error),
        };
        let folder = kept.join(&packages[0]);
        if let Some(kernel) = open(&folder) {
            return Ok(kernel);
        }
        let files = world::download(&packages, &folder.join("packages"))
            .with_context(|| format!("cannot download {}", packages.join(" ")))?;
        (files, folder)
    };
    unpack(&packages, &folder)
        .with_context(|| format!("cannot unpack the kernel in {}", folder.display()))?;
    open(&folder).context("the unpacked kernel is incomplete")
}

impl Series {
    fn newest(&self) -> Result<Vec<String>> {
        let mut versions: Option<BTreeMap<Vec<u64>, String>> = None;
        for (before, after) in self.packages {
            let names = world::names(before)?;
            let middles = names.iter().filter_map(|name| name.strip_prefix(before)?.strip_suffix(after));
            let these: BTreeMap<_, _> = middles
                .filter(|middle| is_version(middle))
                .map(|middle| (numbers(middle), middle.to_owned()))
                .collect();
            versions = Some(match versions {
                // Only a version that all packages have is a whole kernel.
                Some(known) => known.into_iter().filter(|(key, _)| these.contains_key(key)).collect(),
                None => these,
            });
        }
        let Some((_, version)) = versions.unwrap_or_default().pop_last() else {
            let pattern = self.packages.iter().map(|(before, after)| format!("{before}*{after}"));
            bail!("no package {} in any reachable Debian release", pattern.collect::<Vec<_>>().join(" + "));
        };
        Ok(self.packages.iter().map(|(before, after)| format!("{before}{version}{after}")).collect())
    }
}

/// Tells the version in a package name from a flavour ("13+deb14" from "13+deb14-rt").
fn is_version(middle: &str) -> bool {
    middle.split('-').all(|part| part.starts_with(|first: char| first.is_ascii_digit()))
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn newest_kept(kept: &Path) -> Option<Kernel> {
    let mut folders: Vec<PathBuf> = fs::read_dir(kept).ok()?.flatten().map(|entry| entry.path()).collect();
    folders.sort_by_key(|folder| numbers(&folder.to_string_lossy()));
    folders.iter().rev().find_map(|folder| open(folder))
}

/// `version` is written last, so a folder that has it is complete.
fn open(folder: &Path) -> Option<Kernel> {
    let package = fs::read_to_string(folder.join("version")).ok()?;
    Some(Kernel { package, vmlinuz: folder.join("vmlinuz"), modules: folder.join("modules") })
}

fn unpack(packages: &[PathBuf], folder: &Path) -> Result<()> {
    let modules_folder = folder.join("modules");
    fs::create_dir_all(&modules_folder)?;
    let mut packed = BTreeMap::new();
    let mut has_kernel = false;
    for package in packages {
        read_package(package, |path, bytes| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("vmlinuz") {
                has_kernel = true;
                fs::write(folder.join("vmlinuz"), bytes)?;
            } else if let Some((module, _)) = name.split_once(".ko") {
                packed.insert(module.replace('-', "_"), (path.to_owned(), bytes));
            }
            Ok(())
        })?;
    }
    if !has_kernel {
        bail!("no vmlinuz in {packages:?}");
    }

    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut wanted: Vec<String> = MODULES.map(String::from).to_vec();
    while let Some(module) = wanted.pop() {
        if needs.contains_key(&module) {
            continue;
        }
        let Some((path, bytes)) = packed.get(&module) else { continue };
        let code = unpack_module(path, bytes).with_context(|| format!("cannot unpack {}", path.display()))?;
        let direct = depends(&code);
        fs::write(modules_folder.join(format!("{module}.ko")), code)?;
        wanted.extend(direct.iter().cloned());
        needs.insert(module, direct);
    }
    let line = |module: &String| {
        let mut order = Vec::new();
        first_things_first(module, &needs, &mut order);
        order.pop();
        format!("{module}: {}\n", order.join(" "))
    };
    fs::write(modules_folder.join("order"), needs.keys().map(line).collect::<String>())?;

    let version = packages[0].file_stem().unwrap_or_default().to_string_lossy();
    fs::write(folder.join("version"), version.trim_end_matches("_amd64").replacen('_', " ", 1))?;
    fs::remove_dir_all(folder.join("packages")).context("cannot remove the downloaded packages")
}

/// Shows each file of a Debian package that may be of use.
fn read_package(package: &Path, mut take: impl FnMut(&Path, Vec<u8>) -> Result<()>) -> Result<()> {
    let mut dpkg =
        Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let mut archive = tar::Archive::new(dpkg.stdout.take().context("no stdout")?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let text = path.to_string_lossy();
        let in_module_folder = text
            .split_once("/kernel/")
            .is_some_and(|(_, below)| MODULE_FOLDERS.iter().any(|folder| below.starts_with(folder)));
        if entry.header().entry_type().is_file() && (in_module_folder || text.contains("/vmlinuz")) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            take(&path, bytes)?;
        }
    }
    // Past its end marker an archive is padded; a pipe closed early would make dpkg-deb fail.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
    if !dpkg.wait()?.success() {
        bail!("dpkg-deb cannot read {}", package.display());
    }
    Ok(())
}

fn unpack_module(path: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => Ok(bytes.to_owned()),
        Some("xz") => {
            let mut code = Vec::new();
            lzma_rust2::XzReader::new(bytes, true).read_to_end(&mut code)?;
            Ok(code)
        }
        other => bail!("unknown compression {other:?}"),
    }
}

/// The modules that a module names in its `.modinfo`, where every entry is `key=value` and ends in a zero byte.
fn depends(code: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = code.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = &code[start + KEY.len()..];
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(0);
    let names = String::from_utf8_lossy(&value[..end]);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

fn first_things_first(module: &str, needs: &BTreeMap<String, Vec<String>>, order: &mut Vec<String>) {
    if order.iter().any(|known| known == module) {
        return;
    }
    let unique: BTreeSet<&String> = needs.get(module).into_iter().flatten().collect();
    for need in unique {
        // Not unpacked: built in.
        if needs.contains_key(need) {
            first_things_first(need, needs, order);
        }
    }
    order.push(module.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavour_is_not_a_version() {
        assert!(is_version("0-32") && is_version("13+deb14"));
        assert!(!is_version("13+deb14-rt") && !is_version("0-32-cloud"));
        assert!(numbers("0-9") < numbers("0-32"));
    }

    #[test]
    fn a_module_comes_after_all_it_needs() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let needs = [("ext4", list(&["jbd2", "crc16"])), ("jbd2", list(&["crc16"])), ("crc16", list(&[]))];
        let needs = needs.map(|(name, needs)| (name.to_owned(), needs)).into();
        let mut order = Vec::new();
        first_things_first("ext4", &needs, &mut order);
        assert_eq!(order, ["crc16", "jbd2", "ext4"]);
    }

    #[test]
    fn modinfo_lists_dependencies() {
        assert_eq!(
            depends(b"\x7fELF\0license=GPL\0depends=crc16,mb-cache\0name=ext4\0"),
            ["crc16", "mb_cache"]
        );
        assert!(depends(b"\0depends=\0name=loop\0").is_empty());
    }
}
