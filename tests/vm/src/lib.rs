//! What the init of a test VM and `cargo xtask` agree on: the plan of a boot, and how test results are counted.

mod tally;

pub use tally::Tally;

use serde::{Deserialize, Serialize};

/// Where the plan lies in the initramfs, as JSON.
pub const PLAN_PATH: &str = "/etc/iotrace-vm.json";

/// Folder of the test binaries in the initramfs; each one there is run, in order of name.
pub const TESTS_DIR: &str = "/tests";

/// Folder of the kernel modules in the initramfs, flat: `/lib/modules/null_blk.ko`.
pub const MODULES_DIR: &str = "/lib/modules";

/// Lists each module of [`MODULES_DIR`] with all it needs, first things first: `null_blk: configfs`.
pub const MODULE_ORDER_PATH: &str = "/lib/modules/order";

/// Where the guest mounts the ext4 file system of the virtio disk.
pub const SCRATCH_DIR: &str = "/data";

/// What one boot is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Modules loaded before anything else. Those the kernel has built in are passed over.
    pub load: Vec<String>,
    /// Whether `/sys/kernel/btf` is to be empty.
    pub hide_btf: bool,
    /// Environment of the test binaries.
    pub env: Vec<(String, String)>,
    /// Arguments of the test binaries: libtest options and name filters.
    pub args: Vec<String>,
}
