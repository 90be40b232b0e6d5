//! What a live test needs before it can say anything, and the folder it works in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{Attach, Hold, Report, Run};

/// A precondition of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A virtual machine of the matrix, where modules and devices are the test's to change.
    Vm,
    /// The test traces nothing: it may run without root and without BTF.
    NoTracing,
    /// Root, though nothing is traced.
    Root,
}

/// A running live test. Tests of one program run one after the other: they look at the whole machine.
pub struct Live {
    /// Full name of the test.
    pub test: &'static str,
    /// The program under test.
    pub iotrace: PathBuf,
    /// The workload.
    pub workload: PathBuf,
    scratch: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Live {
    /// Begins the test around the function `here`, or says on stdout why it is skipped. Use [`live!`](crate::live).
    pub fn begin(here: &'static str, needs: &[Need]) -> Option<Self> {
        let test = here.strip_suffix("::here").unwrap_or(here);
        match Self::try_begin(test, needs) {
            Ok(live) => Some(live),
            Err(reason) => {
                skip(test, &reason);
                None
            }
        }
    }

    fn try_begin(test: &'static str, needs: &[Need]) -> Result<Self, String> {
        let program = |variable: &str| {
            let path =
                std::env::var_os(variable).ok_or(format!("{variable} is not set; run `cargo xtask test`"))?;
            let path = PathBuf::from(path);
            if path.is_file() { Ok(path) } else { Err(format!("{variable}: no file {}", path.display())) }
        };
        let (iotrace, workload) = (program("IOTRACE_BIN")?, program("IOTRACE_WORKLOAD")?);
        let traces = !needs.contains(&Need::NoTracing);
        if (traces || needs.contains(&Need::Root)) && !is_root() {
            return Err("not root".into());
        }
        if traces && std::env::var_os("IOTRACE_VM_NOBTF").is_some() {
            return Err("this machine hides its BTF".into());
        }
        if traces && std::env::var("IOTRACE_VM_LOCKDOWN").as_deref() == Ok("confidentiality") {
            return Err("this machine is locked down".into());
        }
        if needs.contains(&Need::Vm) && vm().is_none() {
            return Err("needs a virtual machine of the matrix (IOTRACE_VM)".into());
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = new_scratch().map_err(|error| format!("no scratch folder: {error}"))?;
        Ok(Self { test, iotrace, workload, scratch, _turn: turn })
    }

    /// Says that this test found, on the way, that it cannot be made here.
    pub fn skip(&self, reason: &str) {
        skip(self.test, reason);
    }

    /// The kernel series of the virtual machine this runs in.
    pub fn vm(&self) -> Option<String> {
        vm()
    }

    /// `full` on a real machine, `emulated` in a virtual machine of the matrix, which is some twenty times slower.
    pub fn scaled<T>(&self, full: T, emulated: T) -> T {
        if vm().is_some() { emulated } else { full }
    }

    /// A folder of this test alone, gone after it.
    pub fn dir(&self) -> &Path {
        &self.scratch
    }

    /// The same as an argument.
    pub fn dir_arg(&self) -> &str {
        self.scratch.to_str().expect("the scratch folder has a UTF-8 name")
    }

    /// A file of `bytes` in [`Live::dir`], written whole, on the device, and not cached. Returns its path.
    pub fn file(&self, name: &str, bytes: u64) -> String {
        let path = self.scratch.join(name);
        crate::device::write_file(&path, bytes).expect("write a scratch file");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// `iotrace run --format json`, to be given a workload.
    pub fn run(&self) -> Run<'_> {
        Run::new(self, ["run", "--format", "json"])
    }

    /// iotrace with `args`.
    pub fn iotrace<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run<'_> {
        Run::new(self, args)
    }

    /// Starts a `hold` workload in [`Live::dir`] and waits until it is ready.
    pub fn hold(&self, args: &[&str]) -> Hold {
        Hold::start(self, args)
    }

    /// Traces a held workload and what it has forked from its go to its end; nothing may be lost. The report and the truth.
    pub fn trace_held(&self, mut hold: Hold) -> (Report, Value) {
        let trace = self.attach(["-p", &hold.pid_arg()]);
        let truth = hold.go();
        let report = trace.stop().report();
        hold.end();
        report.assert_nothing_lost();
        (report, truth)
    }

    /// Starts `iotrace attach --format json` with `args` and waits until it traces.
    pub fn attach<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Attach {
        Attach::start(self, args)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.scratch) {
            eprintln!("cannot remove {}: {error}", self.scratch.display());
        }
    }
}

/// Says that `test` is skipped, in the words `cargo xtask test` looks for.
pub fn skip(test: &str, reason: &str) {
    println!("SKIP {test}: {reason}");
}

/// The kernel series of the virtual machine.
fn vm() -> Option<String> {
    std::env::var("IOTRACE_VM").ok().filter(|series| !series.is_empty())
}

fn is_root() -> bool {
    // SAFETY: geteuid cannot fail and takes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// A fresh folder under `IOTRACE_SCRATCH`, else beside the test binary, which lies on a real file system.
fn new_scratch() -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let base = match std::env::var_os("IOTRACE_SCRATCH") {
        Some(base) => PathBuf::from(base),
        None => std::env::current_exe()?.parent().unwrap_or(Path::new("/tmp")).join("live-scratch"),
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let scratch = base.join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    Ok(scratch)
}
