//! Debug lines of the kernel programs: written only under `-vv`, shown on standard error with all others.

use aya::Ebpf;
use aya_log::{EbpfLogger, Level};
use log::{Log, Metadata, Record};

/// aya-log's ring buffer, in bytes, with lines and without: it exists either way.
const RING_BYTES: (u32, u32) = (1 << 17, 1 << 12);

/// What the loader tells the programs: the highest level that is written (0: none), and the size of the ring buffer.
pub fn level_and_size() -> (u8, u32) {
    if wanted() { (Level::Debug as u8, RING_BYTES.0) } else { (0, RING_BYTES.1) }
}

/// `-vv` was given.
fn wanted() -> bool {
    tracing::enabled!(tracing::Level::TRACE)
}

/// The reading end.
pub struct KernelLog(EbpfLogger<ToTracing>);

impl KernelLog {
    /// `None` when no lines were asked for, or there is no way to read them, which is told.
    pub fn open(ebpf: &mut Ebpf) -> Option<Self> {
        if !wanted() {
            return None;
        }
        let opened = EbpfLogger::init_with_logger(ebpf, ToTracing);
        opened.inspect_err(|error| tracing::debug!("no lines of the kernel programs: {error}")).ok().map(Self)
    }

    /// Shows what was written since the last time.
    pub fn flush(&mut self) {
        self.0.flush();
    }
}

/// Hands records to `tracing`.
struct ToTracing;

impl Log for ToTracing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let file = record.file().unwrap_or_default();
        let line = record.line().unwrap_or_default();
        tracing::debug!(target: "kernel", "{} ({file}:{line})", record.args());
    }

    fn flush(&self) {}
}
