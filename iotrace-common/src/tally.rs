//! Counters kept per CPU, and what could not be counted.

macro_rules! tally {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// One CPU's counters.
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        pub struct Tally {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Tally {
            /// Adds another CPU's counters.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

tally! {
    /// Reads and writes of storage that returned.
    ops,
    /// Requests whose start was seen.
    block_started,
    /// Issues, the flush machinery's left out.
    block_issued,
    /// Requests handed back by a driver.
    block_requeued,
    /// Bios merged into a request.
    block_merged_bios,
    /// Requests merged whole into another.
    block_merged_requests,
    /// Completions of started requests.
    block_completed,
    /// Completions with an error.
    block_errors,
    /// Completions whose start was not seen.
    block_completed_without_start,
    /// Starts whose end was not seen, found when their request began again.
    block_ended_unseen,
    /// Issues by the flush machinery.
    block_flush_issued,
    /// Starts taken at the issue, because none was seen before.
    block_started_at_issue,
    /// Lost: no free thread slot; the call was not counted.
    lost_thread_slots,
    /// Lost: the map of threads is full.
    lost_thread_map,
    /// Lost: the map of targets is full; a process was not traced.
    lost_target_map,
    /// Lost: the ring buffer is full; process and file facts were dropped.
    lost_ring,
    /// Lost: no free set of block statistics; the request was not counted.
    lost_block_sets,
    /// Lost: no room for a request in flight.
    lost_in_flight,
    /// Lost: no room for an asynchronous transfer, or more in one call than are followed.
    lost_async,
    /// Lost: no free set of an operation's statistics; the call was not counted.
    lost_op_sets,
    /// Lost: the map of errnos is full.
    lost_errnos,
    /// Lost: no free ledger; a thread's time is not accounted for.
    lost_ledgers,
    /// Lost: kernel memory could not be read; the file behind a descriptor stayed unknown.
    lost_reads,
}

crate::pod!(Tally);
