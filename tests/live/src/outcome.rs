//! What one run of iotrace printed, and how it ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde_json::Value;

use crate::{Report, assert_conserved, assert_matches};

/// The end of a run.
pub struct Outcome {
    /// Exit status.
    pub status: ExitStatus,
    /// stdout: the report, and before it what the traced command printed there.
    pub stdout: Vec<u8>,
    /// stderr.
    pub stderr: String,
}

impl Outcome {
    /// Exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// stdout as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The report.
    ///
    /// # Panics
    /// When there is none.
    pub fn report(&self) -> Report {
        let found = self.documents().into_iter().find(|value| value.get("schema_version").is_some());
        Report(found.unwrap_or_else(|| panic!("no report on stdout\n{}", self.describe())))
    }

    /// The truth that the workload printed last.
    ///
    /// # Panics
    /// When there is none.
    pub fn truth(&self) -> Value {
        let found = self.documents().into_iter().rfind(|value| value.get("workload").is_some());
        found.unwrap_or_else(|| panic!("no truth of a workload on stdout\n{}", self.describe()))
    }

    /// The report and the truth of a run that ended well and lost nothing.
    pub fn clean(&self) -> (Report, Value) {
        assert_eq!(self.code(), Some(0), "{}", self.describe());
        let report = self.report();
        report.assert_nothing_lost();
        (report, self.truth())
    }

    /// Checks that every process the workload planted is in the report, call for call, and that nothing was lost.
    pub fn assert_truth(&self) -> (Report, Value) {
        let (report, truth) = self.clean();
        assert_matches(&report, &truth);
        assert_conserved(&report);
        (report, truth)
    }

    /// Checks that it refused: a code other than 0 and 101 (a panic), nothing on stdout, and each of `words` on stderr
    /// whatever their case.
    pub fn assert_refused(&self, words: &[&str]) {
        let code = self.code().unwrap_or_else(|| panic!("ended by signal {:?}", self.status.signal()));
        assert!(code != 0 && code != 101, "exit code {code}\n{}", self.describe());
        assert!(self.stdout.is_empty(), "an error belongs on stderr\n{}", self.describe());
        let stderr = self.stderr.to_lowercase();
        for word in words {
            assert!(stderr.contains(&word.to_lowercase()), "no {word:?} in the message\n{}", self.describe());
        }
    }

    /// Everything, for a failure message.
    pub fn describe(&self) -> String {
        format!("{}\nstdout: {}\nstderr: {}", self.status, self.stdout_text(), self.stderr)
    }

    fn documents(&self) -> Vec<Value> {
        let documents = serde_json::Deserializer::from_slice(&self.stdout).into_iter::<Value>();
        documents
            .map(|value| value.unwrap_or_else(|error| panic!("stdout: {error}\n{}", self.describe())))
            .collect()
    }
}
