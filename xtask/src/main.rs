//! Development commands of iotrace. `cargo xtask setup` prepares a machine; the others call it for what they need.

mod bench;
mod demo;
mod paths;
mod process;
mod setup;
mod test;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Sets up, builds, tests and shows iotrace")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List each tool needed, and install what is missing
    Setup(setup::Args),
    /// Trace a built-in workload and print the report
    Demo(demo::Args),
    /// Run every check and test; the last line counts them
    Test(test::Args),
    /// Measure what tracing costs, beside other tracers
    Bench(bench::Args),
    /// Run the live tests inside virtual machines, on distribution kernels
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Task::Setup(args) => setup::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Vm(args) => vm::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
