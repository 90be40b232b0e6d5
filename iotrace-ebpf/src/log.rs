//! Debug lines of `-vv`, carried to user space by aya-log. For what is rare: a line takes microseconds.
//!
//! Map: AYA_LOGS, aya-log's own ring buffer. aya-log's level is a frozen global, so without `-vv` the verifier sees that
//! no line is ever written and removes what would write it: a line that is off costs nothing. A line that finds the
//! buffer full is not written.

use aya_log_ebpf::macro_support::{Level, level_enabled};

/// Is `-vv` given? A constant to the verifier.
#[inline(always)]
pub fn enabled() -> bool {
    level_enabled(Level::Debug)
}

/// Writes a line out of line: what makes it would otherwise take registers and stack of the program around it. Not
/// `#[cold]`: that moves it to a section of its own, and aya 0.14 takes functions of two sections at one address for the
/// same.
#[inline(never)]
pub fn apart(line: impl FnOnce()) {
    line();
}

/// Writes a debug line if they are on. Takes a format string of aya-log and its arguments: integers and strings.
macro_rules! debug_line {
    ($($line:tt)+) => {
        if $crate::log::enabled() {
            $crate::log::apart(move || aya_log_ebpf::debug!((), $($line)+));
        }
    };
}
pub(crate) use debug_line;

/// Name of a loss, filled up with blanks: of one length, so that one function writes them all.
pub type Loss = [u8; 20];

/// The name of a field of the tally if it counts losses: each growth of one is worth a line.
pub const fn loss(field: &str) -> Option<Loss> {
    let bytes = field.as_bytes();
    if !matches!(bytes, [b'l', b'o', b's', b't', b'_', ..]) {
        return None;
    }
    let mut name = [b' '; size_of::<Loss>()];
    name.split_at_mut(bytes.len()).0.copy_from_slice(bytes);
    Some(name)
}

/// Writes that a loss was counted at `line` of a source file.
#[inline(never)]
pub fn write_loss(name: &'static Loss, line: u32) {
    // SAFETY: made from a `str` and blanks.
    let name = unsafe { core::str::from_utf8_unchecked(name) };
    aya_log_ebpf::debug!((), "{} counted at line {}", name, line);
}
