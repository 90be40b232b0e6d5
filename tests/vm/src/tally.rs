//! Counts tests from the lines that libtest prints.

/// Starts the line that closes a VM's log. Its absence means that the boot did not finish.
const CLOSING: &str = "IOTRACE-VM-RESULT";

/// Test results, summed over any number of test binaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that checked something and found it right.
    pub passed: u64,
    /// Tests that found something wrong, and steps that broke off.
    pub failed: u64,
    /// Tests that could not check anything here.
    pub skipped: u64,
    /// `<test>: <reason>` for each skip that gave a reason.
    pub skips: Vec<String>,
    /// `SKIP` lines since the last summary. libtest calls these tests passed, because they return.
    returned: u64,
}

impl Tally {
    /// A step that broke off before it could count its tests.
    pub fn broken() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// Something that could not be tested at all, and why.
    pub fn skip(reason: String) -> Self {
        Self { skipped: 1, skips: vec![reason], ..Self::default() }
    }

    /// Reads one line of a test binary's output. Lines that say nothing about results are ignored.
    pub fn feed(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(skip) = line.strip_prefix("SKIP ") {
            if !self.skips.iter().any(|known| known == skip) {
                self.skips.push(skip.to_owned());
                self.returned += 1;
            }
        } else if let Some(summary) = line.strip_prefix("test result: ") {
            let count = |what| summary.split([';', '.']).find_map(|part| part.trim().strip_suffix(what));
            let count = |what| count(what).and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0);
            let returned = std::mem::take(&mut self.returned);
            self.passed += count("passed").saturating_sub(returned);
            self.failed += count("failed");
            self.skipped += count("ignored") + returned;
        }
    }

    /// Adds the results of another run.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.skips.extend_from_slice(&other.skips);
    }

    /// The line that closes a VM's log.
    pub fn closing_line(&self) -> String {
        format!("{CLOSING} passed={} failed={} skipped={}", self.passed, self.failed, self.skipped)
    }

    /// The results in a VM's log, or `None` if it has no closing line.
    pub fn from_vm_log(log: &str) -> Option<Self> {
        let closing = log.lines().rev().find_map(|line| line.trim().strip_prefix(CLOSING))?;
        let count = |key: &str| {
            closing
                .split_whitespace()
                .find_map(|field| field.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
        };
        let mut read = Self::default();
        log.lines().for_each(|line| read.feed(line));
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("skipped")?,
            skips: read.skips,
            returned: 0,
        })
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    const OUTPUT: &str = "running 4 tests\n\
        test a ... ok\n\
        SKIP b: needs a loop device\n\
        test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.31s\n\
        test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 12.00s\n";

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.feed(line));
        tally
    }

    #[test]
    fn a_test_that_says_skip_did_not_pass() {
        let tally = tally(OUTPUT);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (6, 1, 2));
        assert_eq!(tally.skips, ["b: needs a loop device"]);
    }

    #[test]
    fn the_closing_line_carries_the_counts_over_a_serial_line() {
        let log = format!("{OUTPUT}{}\n", tally(OUTPUT).closing_line()).replace('\n', "\r\n");
        assert_eq!(Tally::from_vm_log(&log), Some(tally(OUTPUT)));
    }

    #[test]
    fn a_log_without_a_closing_line_has_no_result() {
        assert_eq!(Tally::from_vm_log(OUTPUT), None);
    }
}
