//! The maps. Sizes are defaults; the loader sets those that depend on the machine.

use aya_ebpf::{
    macros::map,
    maps::{Array, CgroupArray, HashMap, LruHashMap, PerCpuArray, Queue, RingBuf, Stack},
};
use iotrace_common::{
    async_io::{AsyncKey, AsyncOp},
    block::{BlockKey, BlockSlot, DeviceLayout, InFlight, QUEUE_IDS, QueueEntry},
    config::RunState,
    file::{CLASSES, FolderKey, LostClass, Session, SessionKey},
    ledger::{BLOCK, LedgerBlock},
    process::Target,
    tally::Tally,
    thread::{ErrnoKey, OpKey, OpSet, ThreadSlot},
};

/// Targets by tgid.
#[map]
pub static TARGETS: HashMap<u32, Target> = HashMap::with_max_entries(65_536, 0);
/// cgroups whose processes are targets (version 2 only).
#[map]
pub static CGROUPS: CgroupArray = CgroupArray::with_max_entries(8, 0);
/// See [`RunState`].
#[map]
pub static RUN_STATE: Array<RunState> = Array::with_max_entries(1, 0);
/// Last thread seen on this CPU: see `target::Cached`.
#[map]
pub static THREAD_CACHE: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
/// Last process that owned a request on this CPU, and the generation: see `target::current_owner`.
#[map]
pub static OWNER_CACHE: PerCpuArray<[u64; 2]> = PerCpuArray::with_max_entries(1, 0);
/// Slot by thread id.
#[map]
pub static THREADS: HashMap<u32, u32> = HashMap::with_max_entries(65_536, 0);
/// 1 for the ids, modulo their number, of threads that have or had a slot.
#[map]
pub static THREAD_MARKS: Array<[u8; THREAD_MARK_COUNT]> = Array::with_max_entries(1, 0);
/// Bytes of `THREAD_MARKS`.
pub const THREAD_MARK_COUNT: usize = 1 << 16;
/// Slots.
#[map]
pub static THREAD_SLOTS: Array<ThreadSlot> = Array::with_max_entries(4096, 0);
/// Slots nobody uses.
#[map]
pub static FREE_SLOTS: Queue<u32> = Queue::with_max_entries(4096, 0);
/// Ledgers, some to a value.
#[map]
pub static LEDGERS: Array<LedgerBlock> = Array::with_max_entries((LEDGER_COUNT as usize / BLOCK) as u32, 0);
/// Place of a thread's ledger by its id.
#[map]
pub static LEDGER_PLACES: HashMap<u32, u32> = HashMap::with_max_entries(LEDGER_COUNT, 0);
/// Ledgers nobody uses: the last given back is the first given out, so that those in use lie together.
#[map]
pub static FREE_LEDGERS: Stack<u32> = Stack::with_max_entries(LEDGER_COUNT, 0);
/// How many, unless the loader says otherwise.
const LEDGER_COUNT: u32 = 16_384;
/// Failed calls.
#[map]
pub static ERRNOS: HashMap<ErrnoKey, u64> = HashMap::with_max_entries(16_384, 0);
/// Place in `OP_STATS` by process and operation.
#[map]
pub static OP_SETS: HashMap<OpKey, u32> = HashMap::with_max_entries(16_384, 0);
/// Statistics of operations that move no data, by process.
#[map]
pub static OP_STATS: Array<OpSet> = Array::with_max_entries(4096, 0);
/// Places nobody uses.
#[map]
pub static FREE_OP_SETS: Queue<u32> = Queue::with_max_entries(4096, 0);
/// What threads put down of open files.
#[map]
pub static SESSIONS: HashMap<SessionKey, Session> = HashMap::with_max_entries(32_768, 0);
/// Asynchronous transfers in flight.
#[map]
pub static ASYNC: HashMap<AsyncKey, AsyncOp> = HashMap::with_max_entries(32_768, 0);
/// Folders already told of.
#[map]
pub static FOLDERS_SEEN: LruHashMap<FolderKey, u32> = LruHashMap::with_max_entries(65_536, 0);
/// What a full ring buffer made of file records, by size class.
#[map]
pub static LOST_CLASSES: Array<LostClass> = Array::with_max_entries(CLASSES as u32, 0);

/// Layout of known devices by number.
#[map]
pub static DEVICES: HashMap<u32, DeviceLayout> = HashMap::with_max_entries(4096, 0);
/// Device numbers chosen by `--device`, partitions included, for reads and writes of files on them.
#[map]
pub static DEVICE_FILTER: HashMap<u32, u32> = HashMap::with_max_entries(1024, 0);
/// Device numbers of the file systems chosen by `--fstype`.
#[map]
pub static FS_FILTER: HashMap<u32, u32> = HashMap::with_max_entries(4096, 0);
/// Folders chosen by `--path`, and the roots of what is mounted below them.
#[map]
pub static PATH_FILTER: HashMap<FolderKey, u32> = HashMap::with_max_entries(4096, 0);
/// Layout by queue id.
#[map]
pub static QUEUES: Array<QueueEntry> = Array::with_max_entries(QUEUE_IDS, 0);
/// Requests in flight, at their device's base plus tag.
#[map]
pub static IN_FLIGHT: Array<InFlight> = Array::with_max_entries(1, 0);
/// Requests in flight that have no place there.
#[map]
pub static IN_FLIGHT_OVERFLOW: HashMap<u64, InFlight> = HashMap::with_max_entries(16_384, 0);
/// Place in `BLOCK_STATS` by key.
#[map]
pub static BLOCK_SETS: HashMap<BlockKey, u32> = HashMap::with_max_entries(16_384, 0);
/// Statistics.
#[map]
pub static BLOCK_STATS: Array<BlockSlot> = Array::with_max_entries(2048, 0);
/// Places nobody uses.
#[map]
pub static FREE_SETS: Queue<u32> = Queue::with_max_entries(2048, 0);
/// Set used last on this CPU, a hint.
#[map]
pub static LAST_SET: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

/// Counters.
#[map]
pub static TALLY: PerCpuArray<Tally> = PerCpuArray::with_max_entries(1, 0);
/// Rare facts.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);
/// BPF_RB_NO_WAKEUP: user space drains the buffer on its own clock, so no record costs a wake-up.
pub const NO_WAKEUP: u64 = 1;

/// Adds to the counter at a byte offset of a tally.
#[inline(always)]
pub fn add_at(tally: *mut Tally, offset: usize, value: u64) {
    crate::mem::atomic_add(tally.cast::<u8>().wrapping_add(offset).cast::<u64>(), value);
}

/// Adds to a field of this CPU's [`Tally`]. Atomic, because newer kernels may preempt a program. A loss is also worth a
/// debug line.
macro_rules! tally {
    ($field:ident) => {
        $crate::maps::tally!($field, 1)
    };
    ($field:ident, $value:expr) => {{
        if let Some(tally) = $crate::maps::TALLY.get_ptr_mut(0) {
            $crate::maps::add_at(tally, core::mem::offset_of!(iotrace_common::tally::Tally, $field), $value);
        }
        const LOSS: Option<$crate::log::Loss> = $crate::log::loss(stringify!($field));
        if let Some(name) = &LOSS
            && $crate::log::enabled()
        {
            $crate::log::write_loss(name, line!());
        }
    }};
}
pub(crate) use tally;
