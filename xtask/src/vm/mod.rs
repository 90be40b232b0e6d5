//! `cargo xtask vm`: the live tests inside virtual machines, one for each kernel of the matrix.

mod boot;
mod guest;
mod initramfs;
mod kernels;

use std::{process::ExitCode, sync::Mutex, time::Duration};

use anyhow::{Result, bail};
use iotrace_vm::Tally;

use crate::setup::{self, Need};
pub use guest::Guest;
pub use kernels::SERIES;

/// Arguments of `cargo xtask vm`.
#[derive(clap::Args)]
pub struct Args {
    /// Kernel series, or "all"
    #[arg(long, default_value = "all", value_name = "5.10|6.1|6.12|7.2|all")]
    kernel: Vec<String>,
    /// Hide the kernel's BTF from the tests
    #[arg(long)]
    no_btf: bool,
    /// Lock the kernel down: without a mode, so that programs may not read its memory
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true,
        default_missing_value = "confidentiality", conflicts_with = "no_btf")]
    lockdown: Option<Lockdown>,
    /// Seconds until a VM that has not finished is stopped
    #[arg(long, default_value_t = 900)]
    timeout: u64,
    /// Virtual machines at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print what the VMs print, also when all is well
    #[arg(long, short)]
    verbose: bool,
    /// Names of tests, and options of libtest
    #[arg(last = true)]
    filter: Vec<String>,
}

/// Modes of kernel lockdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Lockdown {
    /// User space may not change the kernel.
    Integrity,
    /// Nor read its memory.
    Confidentiality,
}

impl Lockdown {
    /// As the kernel's command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integrity => "integrity",
            Self::Confidentiality => "confidentiality",
        }
    }
}

/// One boot of the matrix.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Kernel series, such as `6.12`.
    pub series: &'static str,
    /// Whether BTF is hidden.
    pub no_btf: bool,
    /// How far the kernel is locked down.
    pub lockdown: Option<Lockdown>,
    /// When to give up.
    pub timeout: Duration,
    /// Arguments of the test binaries.
    pub filter: Vec<String>,
}

impl Boot {
    /// Names the boot in output and files.
    pub fn name(&self) -> String {
        let lockdown = self.lockdown.map_or(String::new(), |mode| format!("-{}", mode.name()));
        format!("{}{}{lockdown}", self.series, if self.no_btf { "-nobtf" } else { "" })
    }
}

/// Runs `cargo xtask vm`.
pub fn run(args: &Args) -> Result<ExitCode> {
    let wanted: Vec<&str> = if args.kernel.iter().any(|name| name == "all") {
        SERIES.iter().map(|series| series.name).collect()
    } else {
        args.kernel.iter().map(String::as_str).collect()
    };
    let mut boots = Vec::new();
    for name in wanted {
        let Some(series) = SERIES.iter().find(|series| series.name == name) else {
            bail!("no kernel series {name:?}; there are {}", SERIES.map(|series| series.name).join(", "));
        };
        boots.push(Boot {
            series: series.name,
            no_btf: args.no_btf,
            lockdown: args.lockdown,
            timeout: Duration::from_secs(args.timeout),
            filter: args.filter.clone(),
        });
    }
    setup::ensure(&[Need::Build, Need::Vm])?;
    let guest = Guest::build()?;
    let total = matrix(&boots, &guest, args.jobs, args.verbose);
    for skip in &total.skips {
        println!("SKIP {skip}");
    }
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Boots every entry, a few at a time, prints a line for each as it ends, and sums the results.
pub fn matrix(boots: &[Boot], guest: &Guest, jobs: usize, verbose: bool) -> Tally {
    let total = Mutex::new(Tally::default());
    let queue = Mutex::new(boots.iter());
    let next = || queue.lock().expect("no worker panics while it takes a boot").next();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, boots.len().max(1)) {
            scope.spawn(|| {
                while let Some(boot) = next() {
                    let tally = boot::boot(boot, guest, verbose);
                    total.lock().expect("no worker panics while it adds").add(&tally);
                }
            });
        }
    });
    total.into_inner().expect("no worker panics while it adds")
}
