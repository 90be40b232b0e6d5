//! N calls of every form of every call that moves no data, and N of each planted failure, by one child named
//! `metadata`. All that they need is made beforehand by the parent.

use std::ffi::CString;
use std::os::fd::RawFd;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::scratch::Scratch;
use crate::stage::{Stage, Start};
use crate::sys::path;
use crate::tally::Tally;

/// A descriptor that is never open here.
const CLOSED: RawFd = 987;
/// Files in the folder that is scanned.
const ENTRIES: u64 = 50;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the files; a folder of its own is made inside and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Calls of each form, and of each failure.
    #[arg(long, default_value_t = 100)]
    calls: u64,
    #[command(flatten)]
    start: Start,
}

/// Runs the plan.
pub fn run(args: &Args) -> Result<()> {
    let scratch = Scratch::new(&args.dir, "metadata")?;
    let mut plan = Plan::prepare(&scratch, args.calls)?;
    let mut stage = Stage::new("metadata", &args.start)?;
    stage.add(b"metadata", || plan.work())?;
    let told = stage.run()?;
    let extra = json!({"calls": args.calls, "entries": ENTRIES, "dir": scratch.path()});
    stage.tell(&told, extra)
}

/// Paths made beforehand: the child allocates and formats nothing between its calls.
struct Plan {
    calls: u64,
    file: CString,
    created: CString,
    absent: CString,
    below_file: CString,
    folder: CString,
    names: [CString; 2],
    doomed: Vec<(&'static str, CString)>,
    tally: Tally,
    folder_opens: u64,
}

impl Plan {
    fn prepare(scratch: &Scratch, calls: u64) -> Result<Self> {
        scratch.file("file", 4096)?;
        scratch.file("name-0", 1)?;
        std::fs::create_dir(scratch.path().join("folder"))?;
        for entry in 0..ENTRIES {
            scratch.file(&format!("folder/entry-{entry}"), 0)?;
        }
        let mut doomed = Vec::new();
        for form in ["unlink", "unlinkat"] {
            for number in 0..calls {
                let name = format!("{form}-{number}");
                scratch.file(&name, 0)?;
                doomed.push((form, scratch.at(&name)?));
            }
        }
        Ok(Self {
            calls,
            file: scratch.at("file")?,
            created: scratch.at("created")?,
            absent: scratch.at("absent")?,
            below_file: scratch.at("file/below")?,
            folder: scratch.at("folder")?,
            names: [scratch.at("name-0")?, scratch.at("name-1")?],
            doomed,
            tally: Tally::default(),
            folder_opens: 0,
        })
    }

    fn work(&mut self) -> Result<Tally> {
        self.opens()?;
        self.stats()?;
        self.scans()?;
        self.renames_and_unlinks()?;
        self.syncs()?;
        self.lengths()?;
        self.failures()?;
        let folders = json!({"opens": self.folder_opens, "closes": self.folder_opens});
        self.tally.extra.insert("directories".into(), folders);
        Ok(std::mem::take(&mut self.tally))
    }

    /// Makes up to `calls` calls of `form`, or one if the kernel lacks it, and shows `after` what each returned.
    fn repeat(
        &mut self,
        op: &'static str,
        form: &'static str,
        call: impl Fn(u64) -> isize,
        mut after: impl FnMut(&mut Self, isize) -> Result<()>,
    ) -> Result<()> {
        for number in 0..self.calls {
            let ret = self.tally.call(op, form, || call(number));
            if ret == -(libc::ENOSYS as isize) {
                return Ok(());
            }
            after(self, ret)?;
        }
        Ok(())
    }

    fn opens(&mut self) -> Result<()> {
        let (file, created) = (self.file.clone(), self.created.clone());
        for form in ["openat", "open", "creat", "openat2"] {
            let path = if form == "creat" { &created } else { &file };
            self.repeat(
                "open",
                form,
                |_| path::open(form, path, libc::O_RDONLY),
                |plan, ret| {
                    ensure!(ret >= 0, "{form} returned {ret}");
                    plan.tally.close(ret as RawFd)
                },
            )?;
        }
        Ok(())
    }

    fn stats(&mut self) -> Result<()> {
        let file = self.file.clone();
        for form in ["newfstatat", "statx", "stat", "lstat"] {
            self.repeat("stat", form, |_| path::stat(form, &file), zero(form))?;
        }
        let fd = self.tally.open(&file, libc::O_RDONLY)?;
        self.repeat("stat", "fstat", |_| path::fstat(fd), zero("fstat"))?;
        self.tally.close(fd)
    }

    /// Every scan is an open, getdents64 until it returns 0, and a close.
    fn scans(&mut self) -> Result<()> {
        let mut buffer = vec![0; path::DIRENTS];
        for _ in 0..self.calls {
            let fd = self.tally.open(&self.folder, libc::O_RDONLY | libc::O_DIRECTORY)?;
            loop {
                let ret = self.tally.call("getdents", "getdents64", || path::getdents64(fd, &mut buffer));
                ensure!(ret >= 0, "getdents64 returned {ret}");
                if ret == 0 {
                    break;
                }
            }
            self.tally.close(fd)?;
            self.folder_opens += 1;
        }
        Ok(())
    }

    fn renames_and_unlinks(&mut self) -> Result<()> {
        let names = self.names.clone();
        let mut at = 0;
        for form in ["rename", "renameat", "renameat2"] {
            for _ in 0..self.calls {
                let (from, to) = (&names[at], &names[1 - at]);
                let ret = self.tally.call("rename", form, || path::rename(form, from, to));
                if ret == -(libc::ENOSYS as isize) {
                    break;
                }
                ensure!(ret == 0, "{form} returned {ret}");
                at = 1 - at;
            }
        }
        for (form, path) in std::mem::take(&mut self.doomed) {
            let ret = self.tally.call("unlink", form, || path::unlink(form, &path));
            ensure!(ret == 0 || !path::has(form), "{form} returned {ret}");
        }
        Ok(())
    }

    fn syncs(&mut self) -> Result<()> {
        let file = self.file.clone();
        let fd = self.tally.open(&file, libc::O_RDWR)?;
        for form in ["fsync", "fdatasync", "sync_file_range", "syncfs"] {
            self.repeat("fsync", form, |_| path::sync(form, fd), zero(form))?;
        }
        self.tally.close(fd)
    }

    /// Every call changes the length, so that none is a call with nothing to do.
    fn lengths(&mut self) -> Result<()> {
        let file = self.file.clone();
        self.repeat("truncate", "truncate", |n| path::truncate(&file, 4096 + n), zero("truncate"))?;
        let fd = self.tally.open(&file, libc::O_RDWR)?;
        for (form, base) in [("ftruncate", 8192), ("fallocate", 65536)] {
            self.repeat(
                "truncate",
                form,
                |n| path::set_length(form, fd, base + n),
                |plan, ret| {
                    // Not every file system can allocate ahead: an error, counted as one.
                    let lacking = form == "fallocate" && ret == -(libc::EOPNOTSUPP as isize);
                    if lacking {
                        plan.tally.unsupported.insert(form);
                    }
                    ensure!(ret == 0 || lacking, "{form} returned {ret}");
                    Ok(())
                },
            )?;
        }
        self.tally.close(fd)
    }

    fn failures(&mut self) -> Result<()> {
        let (file, absent, below) = (self.file.clone(), self.absent.clone(), self.below_file.clone());
        let exclusive = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        for (path, flags, errno) in [
            (&absent, libc::O_RDONLY, libc::ENOENT),
            (&file, exclusive, libc::EEXIST),
            (&below, libc::O_RDONLY, libc::ENOTDIR),
        ] {
            self.repeat("open", "openat", |_| path::open("openat", path, flags), fails("openat", errno))?;
        }
        self.repeat(
            "stat",
            "newfstatat",
            |_| path::stat("newfstatat", &absent),
            fails("stat", libc::ENOENT),
        )?;
        self.repeat("close", "close", |_| path::close(CLOSED), fails("close", libc::EBADF))
    }
}

fn zero(form: &'static str) -> impl FnMut(&mut Plan, isize) -> Result<()> {
    move |_, ret| {
        ensure!(ret == 0, "{form} returned {ret}");
        Ok(())
    }
}

fn fails(form: &'static str, errno: i32) -> impl FnMut(&mut Plan, isize) -> Result<()> {
    move |_, ret| {
        ensure!(ret == -(errno as isize), "{form} returned {ret}, not -{errno}");
        Ok(())
    }
}
