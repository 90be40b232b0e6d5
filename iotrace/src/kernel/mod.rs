//! What the running kernel has: BTF, the offsets the programs need, system call numbers, block devices, mounts.

pub mod btf;
pub mod call_classes;
pub mod devices;
pub mod fstype;
pub mod layout;
pub mod lockdown;
pub mod mountinfo;
