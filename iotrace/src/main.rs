//! Parse, run, exit code.

use std::process::ExitCode;

use clap::Parser as _;
use iotrace::{
    cli::{Cli, Command},
    commands,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli.without_repeats(),
        Err(error) => {
            // Help and version are data on stdout; a closed pipe is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match cli.command {
        Command::Check(args) => commands::check::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Attach(args) => commands::attach::run(&args),
    }
    .into()
}
