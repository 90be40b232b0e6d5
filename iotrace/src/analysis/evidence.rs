//! The numbers behind each kind of pattern. Times are ns, sizes bytes.

macro_rules! evidence {
    ($($(#[doc = $about:literal])+ $kind:ident $name:literal {
        $($(#[doc = $doc:literal])+ $field:ident,)+
    })+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            pub struct $kind {
                $($(#[doc = $doc])+ pub $field: u64,)+
            }

            impl From<$kind> for Evidence {
                fn from(numbers: $kind) -> Self {
                    Self::$kind(numbers)
                }
            }
        )+

        /// What was measured, by kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Evidence {
            $($(#[doc = $about])+ $kind($kind),)+
        }

        impl Evidence {
            /// The word of reports, e.g. `small_files`.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)+
                }
            }

            /// Every number with its name.
            pub fn numbers(&self) -> Vec<(&'static str, u64)> {
                match self {
                    $(Self::$kind(of) => vec![$((stringify!($field), of.$field),)+],)+
                }
            }
        }

        /// Kinds, each with the names of its numbers.
        pub const KINDS: &[(&str, &[&str])] = &[$(($name, &[$(stringify!($field),)+]),)+];
    };
}

evidence! {
    /// Files on storage that no block device of this machine is behind.
    RemoteStorage "remote_storage" {
        /// Wait for its files.
        wait_ns,
        /// Wait for all files.
        all_wait_ns,
        /// Its files.
        files,
        /// Their openings.
        opens,
        /// Bytes read.
        read_bytes,
        /// Bytes written.
        written_bytes,
    }
    /// Files written like checkpoints.
    CheckpointWrites "checkpoint_writes" {
        /// Files.
        files,
        /// Bytes written.
        bytes,
        /// Write calls.
        writes,
        /// fsync and kin.
        syncs,
        /// Time in these writes and fsyncs, summed.
        stall_ns,
        /// Length of the trace.
        duration_ns,
    }
    /// An fsync after every few small writes.
    SmallSyncedWrites "small_synced_writes" {
        /// fsync and kin.
        syncs,
        /// Writes by the same processes.
        writes,
        /// Their bytes.
        written_bytes,
        /// Time in the fsyncs.
        sync_ns,
    }
    /// Most files are smaller than 128 KiB.
    SmallFiles "small_files" {
        /// Distinct files.
        files,
        /// Of them small.
        small_files,
        /// Openings.
        opens,
        /// Of small files.
        small_opens,
        /// Bytes read and written.
        bytes,
        /// Of small files.
        small_bytes,
        /// Reads of small files.
        small_reads,
        /// Time in calls that opened small files.
        small_open_ns,
        /// Of it asleep.
        small_open_wait_ns,
        /// Time in reads of small files.
        small_read_ns,
        /// Of it asleep.
        small_read_wait_ns,
        /// Time in stat and kin, of any file.
        stat_ns,
        /// Of it asleep.
        stat_wait_ns,
    }
    /// What is read was not in memory.
    ColdReads "cold_reads" {
        /// Reads.
        reads,
        /// Of them with a wait.
        waited_reads,
        /// Bytes read.
        read_bytes,
        /// By reads that waited.
        waited_bytes,
        /// Brought into the page cache by reads.
        cached_bytes,
        /// Time in reads.
        read_ns,
        /// Of it asleep.
        read_wait_ns,
    }
    /// What is read was in memory.
    WarmReads "warm_reads" {
        /// Reads.
        reads,
        /// Of them with a wait.
        waited_reads,
        /// Bytes read.
        read_bytes,
        /// By reads that waited.
        waited_bytes,
        /// Brought into the page cache by reads.
        cached_bytes,
    }
    /// Files are loaded by mapping them: page faults bring them in.
    MmapLoading "mmap_loading" {
        /// Page faults that reached the page cache.
        faults,
        /// Of them with a wait.
        waited_faults,
        /// How long.
        wait_ns,
        /// Wait of all operations.
        all_wait_ns,
        /// Brought into the page cache by them.
        cached_bytes,
    }
    /// Readahead brings in what is then read, ahead of the reads.
    ReadaheadUsed "readahead_used" {
        /// Reads by the processes.
        reads,
        /// Of them with a wait.
        waited_reads,
        /// Bytes they read.
        read_bytes,
        /// Brought into the page cache by these reads.
        cached_bytes,
    }
    /// Much of what reads bring in is not read.
    ReadaheadUnused "readahead_unused" {
        /// Reads by the processes.
        reads,
        /// Of them with a wait.
        waited_reads,
        /// Bytes they read.
        read_bytes,
        /// Brought into the page cache by these reads.
        cached_bytes,
    }
    /// Opens and stats of names that do not exist.
    MissingFiles "missing_files" {
        /// Calls that failed with ENOENT.
        failed,
        /// Opens and stats of the same processes.
        calls,
        /// Failed ones a second of the trace.
        failed_per_second,
    }
    /// A storm of stats.
    StatStorm "stat_storm" {
        /// stat and kin.
        stats,
        /// All calls on storage of the same processes.
        calls,
        /// Stats a second of the trace.
        stats_per_second,
        /// Time in them.
        stat_ns,
        /// Of it asleep.
        stat_wait_ns,
    }
    /// Folders are read for long.
    DirectoryScans "directory_scans" {
        /// getdents calls.
        calls,
        /// Time in them.
        scan_ns,
        /// Of it asleep.
        scan_wait_ns,
        /// Time of the same processes in all operations.
        storage_ns,
    }
    /// Large files are read in pieces of less than 4 KiB.
    TinyReads "tiny_reads" {
        /// Such reads, of files of 1 MiB and more.
        tiny_reads,
        /// All reads of these files.
        reads,
        /// Bytes of all reads of these files.
        read_bytes,
        /// Time in all reads of these files.
        read_ns,
    }
    /// Files are read whole again and again.
    RepeatedWholeReads "repeated_whole_reads" {
        /// Sessions that read a file from start to end.
        whole_file,
        /// Distinct files used.
        files,
    }
    /// One file is read more than once over.
    RepeatedReads "repeated_reads" {
        /// Bytes read of it.
        read_bytes,
        /// Its size.
        size,
        /// Reads.
        reads,
        /// Openings.
        opens,
    }
    /// Where reads begin.
    AccessOrder "access_order" {
        /// Reads whose place is known.
        reads,
        /// Where the one before ended, or at the start of the file.
        sequential_reads,
        /// At the distance of the one before.
        strided_reads,
        /// Anywhere else.
        random_reads,
    }
    /// Files are read from start to end.
    WholeFiles "whole_files" {
        /// Sessions that did.
        whole_file,
        /// Openings by the same processes.
        opens,
    }
}
