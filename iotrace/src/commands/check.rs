//! `iotrace check`: what can be traced here, found by doing it.

use super::{
    Exit, complain, log_as_asked,
    output::{CLOSED, stdout_closed, to_stdout},
};
use crate::{cli::CheckArgs, preflight, report::Format};

/// Runs the command.
pub fn run(args: &CheckArgs) -> Exit {
    log_as_asked(args.verbose);
    if stdout_closed() {
        complain(&format!("{CLOSED}: there is no place for the answer"));
        return Exit::Failure;
    }
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
    match to_stdout(|out| out.write_all(text.as_bytes())) {
        Ok(()) if found.can_trace => Exit::Success,
        Ok(()) => Exit::Failure,
        Err(error) => {
            complain(&format!("the answer could not be written: standard output: {error}"));
            Exit::Failure
        }
    }
}
