//! `iotrace check`: what can be traced here, found by doing it.

use std::io::{self, Write as _};

use super::{Exit, complain, log_as_asked};
use crate::{cli::CheckArgs, preflight, report::Format};

/// Runs the command.
pub fn run(args: &CheckArgs) -> Exit {
    log_as_asked(args.verbose);
    let found = preflight::look(&args.without);
    let text = match args.format {
        Format::Text => found.as_text(),
        Format::Json => match serde_json::to_string(&found) {
            Ok(text) => text + "\n",
            Err(error) => {
                complain(&error);
                return Exit::Failure;
            }
        },
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&error);
            Exit::Failure
        }
        _ if found.can_trace => Exit::Success,
        _ => Exit::Failure,
    }
}
