//! The maps of the loaded object, typed.

use aya::{
    Ebpf,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, Queue, Stack},
};
use iotrace_common::{
    async_io::{AsyncKey, AsyncOp},
    block::{BlockKey, BlockSlot, DeviceLayout},
    config::RunState,
    file::{FolderKey, LostClass, Session as FileSession, SessionKey},
    ledger::LedgerBlock,
    process::Target,
    tally::Tally,
    thread::{ErrnoKey, OpKey, OpSet, ThreadSlot},
};

use super::error::StartError;

macro_rules! maps {
    ($($(#[doc = $doc:literal])+ $field:ident: $kind:ty = $name:literal,)+) => {
        /// Handles, taken out of the object; closed with this value.
        pub struct Maps {
            $($(#[doc = $doc])+ pub $field: $kind,)+
        }

        impl Maps {
            /// Takes every map user space works with.
            pub fn take(ebpf: &mut Ebpf) -> Result<Self, StartError> {
                Ok(Self { $($field: take(ebpf, $name)?,)+ })
            }
        }
    };
}

maps! {
    /// Targets by tgid.
    targets: HashMap<MapData, u32, Target> = "TARGETS",
    /// What changes while a trace runs.
    run_state: Array<MapData, RunState> = "RUN_STATE",
    /// Slot by thread id.
    threads: HashMap<MapData, u32, u32> = "THREADS",
    /// Slots.
    thread_slots: Array<MapData, ThreadSlot> = "THREAD_SLOTS",
    /// Slots nobody uses.
    free_slots: Queue<MapData, u32> = "FREE_SLOTS",
    /// Place of an operation's statistics.
    op_sets: HashMap<MapData, OpKey, u32> = "OP_SETS",
    /// Statistics of operations.
    op_stats: Array<MapData, OpSet> = "OP_STATS",
    /// Places nobody uses.
    free_op_sets: Queue<MapData, u32> = "FREE_OP_SETS",
    /// What threads put down of open files.
    sessions: HashMap<MapData, SessionKey, FileSession> = "SESSIONS",
    /// Asynchronous transfers in flight.
    transfers: HashMap<MapData, AsyncKey, AsyncOp> = "ASYNC",
    /// What a full ring buffer dropped, by size class.
    lost_classes: Array<MapData, LostClass> = "LOST_CLASSES",
    /// Ledgers of threads, some to a value.
    ledgers: Array<MapData, LedgerBlock> = "LEDGERS",
    /// Ledgers nobody uses.
    free_ledgers: Stack<MapData, u32> = "FREE_LEDGERS",
    /// Failed calls.
    errnos: HashMap<MapData, ErrnoKey, u64> = "ERRNOS",
    /// Layout by device number.
    devices: HashMap<MapData, u32, DeviceLayout> = "DEVICES",
    /// Devices chosen.
    device_filter: HashMap<MapData, u32, u32> = "DEVICE_FILTER",
    /// Devices of the file systems chosen.
    fs_filter: HashMap<MapData, u32, u32> = "FS_FILTER",
    /// Folders chosen.
    path_filter: HashMap<MapData, FolderKey, u32> = "PATH_FILTER",
    /// Place of a block set.
    block_sets: HashMap<MapData, BlockKey, u32> = "BLOCK_SETS",
    /// Block statistics.
    block_stats: Array<MapData, BlockSlot> = "BLOCK_STATS",
    /// Places nobody uses.
    free_sets: Queue<MapData, u32> = "FREE_SETS",
    /// Counters.
    tally: PerCpuArray<MapData, Tally> = "TALLY",
}

/// Takes a map out of the object.
pub fn take<T: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, StartError> {
    let map = ebpf.take_map(name).ok_or(MapError::InvalidName { name: name.into() });
    map.and_then(T::try_from).map_err(|error| StartError::Map { name, error })
}

impl Maps {
    /// Counters summed over CPUs.
    pub fn counters(&self) -> Tally {
        let mut sum = Tally::default();
        if let Ok(values) = self.tally.get(&0, 0) {
            values.iter().for_each(|cpu| sum.add(cpu));
        }
        sum
    }
}

/// Names the map in an error.
pub fn named(name: &'static str) -> impl Fn(MapError) -> StartError {
    move |error| StartError::Map { name, error }
}
