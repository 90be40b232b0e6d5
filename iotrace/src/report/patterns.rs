//! Patterns as sentences: one of fact, with its numbers and their denominators.

use super::units::{bytes, count, counted, duration, share};
use crate::analysis::{AccessOrder, Evidence, Pattern};

/// What `pattern` says, without the place and the processes.
pub fn sentence(pattern: &Pattern) -> String {
    match &pattern.evidence {
        Evidence::RemoteStorage(of) => format!(
            "Remote storage: {} of {} of wait for files ({}) is for those on {}: {} opened, {} read, {} written.",
            duration(of.wait_ns),
            duration(of.all_wait_ns),
            share(of.wait_ns, of.all_wait_ns),
            pattern.detail,
            counted(of.opens, "file", "files"),
            bytes(of.read_bytes),
            bytes(of.written_bytes)
        ),
        Evidence::CheckpointWrites(of) => format!(
            "Checkpoint writes: {}, {} in {} and {}, which took {} ({} of the trace); the longest counts as one by {}.",
            counted(of.files, "file", "files"),
            bytes(of.bytes),
            counted(of.writes, "write", "writes"),
            counted(of.syncs, "fsync", "fsyncs"),
            duration(of.stall_ns),
            share(of.stall_ns, of.duration_ns),
            pattern.detail
        ),
        Evidence::SmallSyncedWrites(of) => format!(
            "Small synchronous writes: {} for {} of {} together ({} an fsync); the fsyncs took {}.",
            counted(of.syncs, "fsync", "fsyncs"),
            counted(of.writes, "write", "writes"),
            bytes(of.written_bytes),
            bytes(of.written_bytes / of.syncs.max(1)),
            duration(of.sync_ns)
        ),
        Evidence::SmallFiles(of) => small_files(of),
        Evidence::ColdReads(of) => format!(
            "Cold reads: {} of {} ({}) waited, {} of {} of read time; of {} read, {} came by reads that waited, and {} were brought into memory.",
            count(of.waited_reads),
            counted(of.reads, "read", "reads"),
            share(of.waited_reads, of.reads),
            duration(of.read_wait_ns),
            duration(of.read_ns),
            bytes(of.read_bytes),
            bytes(of.waited_bytes),
            bytes(of.cached_bytes)
        ),
        Evidence::WarmReads(of) => format!(
            "Warm reads: {} of {} reads ({}) waited, for {} of {}; the rest was in memory.",
            count(of.waited_reads),
            count(of.reads),
            share(of.waited_reads, of.reads),
            bytes(of.waited_bytes),
            bytes(of.read_bytes)
        ),
        Evidence::MmapLoading(of) => format!(
            "Loading by mmap: page faults brought in {}; {} of {} waited, {} ({} of all wait).",
            bytes(of.cached_bytes),
            count(of.waited_faults),
            counted(of.faults, "fault", "faults"),
            duration(of.wait_ns),
            share(of.wait_ns, of.all_wait_ns)
        ),
        Evidence::ReadaheadUsed(of) => format!(
            "Readahead used: reads brought in {} for {} read, and {} of {} waited ({}).",
            bytes(of.cached_bytes),
            bytes(of.read_bytes),
            count(of.waited_reads),
            counted(of.reads, "read", "reads"),
            share(of.waited_reads, of.reads)
        ),
        Evidence::ReadaheadUnused(of) => format!(
            "Readahead not used: reads brought in {} and read {}: at least {} was for nothing.",
            bytes(of.cached_bytes),
            bytes(of.read_bytes),
            share(of.cached_bytes.saturating_sub(of.read_bytes), of.cached_bytes)
        ),
        Evidence::MissingFiles(of) => format!(
            "Missing files: {} of {} opens and stats ({}) failed with ENOENT, {} a second.",
            count(of.failed),
            count(of.calls),
            share(of.failed, of.calls),
            count(of.failed_per_second)
        ),
        Evidence::StatStorm(of) => format!(
            "Stat storm: {} of {} calls ({}) are stats, {} a second; they took {}, {} of it waiting.",
            count(of.stats),
            count(of.calls),
            share(of.stats, of.calls),
            count(of.stats_per_second),
            duration(of.stat_ns),
            duration(of.stat_wait_ns)
        ),
        Evidence::DirectoryScans(of) => format!(
            "Directory scans: {} took {}, {} of these processes' storage time; {} of it waiting.",
            counted(of.calls, "getdents call", "getdents calls"),
            duration(of.scan_ns),
            share(of.scan_ns, of.storage_ns),
            duration(of.scan_wait_ns)
        ),
        Evidence::TinyReads(of) => format!(
            "Tiny reads: {} of {} reads ({}) of files of 1 MiB and more moved less than 4 KiB; all of these reads took {} for {}.",
            count(of.tiny_reads),
            count(of.reads),
            share(of.tiny_reads, of.reads),
            duration(of.read_ns),
            bytes(of.read_bytes)
        ),
        Evidence::RepeatedWholeReads(of) => format!(
            "Read again: {} from start to end of {}, {} for each.",
            counted(of.whole_file, "read", "reads"),
            counted(of.files, "distinct file", "distinct files"),
            times(of.whole_file, of.files)
        ),
        Evidence::RepeatedReads(of) => format!(
            "Read again: {} read of one file of {}, {} its size, in {} and {}.",
            bytes(of.read_bytes),
            bytes(of.size),
            times(of.read_bytes, of.size),
            counted(of.reads, "read", "reads"),
            counted(of.opens, "opening", "openings")
        ),
        Evidence::AccessOrder(of) => access_order(of),
        Evidence::WholeFiles(of) => format!(
            "Whole files: {} of {} ({}) read the file from start to end.",
            count(of.whole_file),
            counted(of.opens, "opening", "openings"),
            share(of.whole_file, of.opens)
        ),
    }
}

fn small_files(of: &crate::analysis::SmallFiles) -> String {
    let wait = of.small_open_wait_ns + of.small_read_wait_ns;
    let time = of.small_open_ns + of.small_read_ns;
    let mut text = format!(
        "Small files: {} of {} ({}) are smaller than 128 KiB; theirs are {} of openings and {} of bytes, {:.1} reads an opening.",
        count(of.small_files),
        counted(of.files, "file", "files"),
        share(of.small_files, of.files),
        share(of.small_opens, of.opens),
        share(of.small_bytes, of.bytes),
        of.small_reads as f64 / of.small_opens.max(1) as f64
    );
    if time > 0 {
        text.push_str(&format!(
            " Opening them is {} of {} of open and read time",
            share(of.small_open_ns, time),
            duration(time)
        ));
        text.push_str(&if wait > 0 {
            format!(", and {} of {} of wait.", share(of.small_open_wait_ns, wait), duration(wait))
        } else {
            ".".to_owned()
        });
    }
    if of.stat_ns > 0 {
        text.push_str(&format!(" Stats took {} beside.", duration(of.stat_ns)));
    }
    text
}

fn access_order(of: &AccessOrder) -> String {
    let kinds =
        [(of.sequential_reads, "sequential"), (of.strided_reads, "strided"), (of.random_reads, "random")];
    let used: Vec<_> = kinds
        .into_iter()
        .filter(|(reads, _)| *reads > 0)
        .map(|(reads, order)| format!("{} {order}", share(reads, of.reads)))
        .collect();
    format!("Access order: {} are {}.", counted(of.reads, "read", "reads"), used.join(", "))
}

/// `2.5 times`.
fn times(number: u64, of: u64) -> String {
    format!("{:.1} times", number as f64 / of.max(1) as f64)
}
