//! Kernel lockdown (`man 7 kernel_lockdown`): what a kernel keeps from root.

use std::fs;

use aya::{
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};

/// The mode in which no program may read the kernel's memory.
pub const CONFIDENTIALITY: &str = "confidentiality";

/// The mode as securityfs shows it, or, where that is not mounted, as far as the kernel's refusals tell it; `None`: not
/// to be had.
pub fn mode() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    shown(&text).map(str::to_owned).or_else(|| hides_memory().then(|| CONFIDENTIALITY.to_owned()))
}

/// The bracketed one of `none [integrity] confidentiality`.
fn shown(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// Whether the kernel refuses the helper that reads its memory, found by loading a program that calls it. Every kernel
/// with a ring buffer (5.8) has that helper (5.5), and no other thing than lockdown hides it from tracing programs.
pub fn hides_memory() -> bool {
    let answer = |helper| is_helper_supported(ProgramType::RawTracePoint, helper);
    matches!(answer(BpfHelper::BPF_FUNC_ringbuf_output), Ok(true))
        && matches!(answer(BpfHelper::BPF_FUNC_probe_read_kernel), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn the_mode_is_the_bracketed_word() {
        assert_eq!(shown("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(shown("[none] integrity confidentiality\n"), Some("none"));
        assert_eq!(shown(""), None);
    }
}
