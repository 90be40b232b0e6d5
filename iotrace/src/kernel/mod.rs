//! What the running kernel has: BTF, the offsets the programs need, system call numbers, block devices, lockdown.

pub mod btf;
pub mod devices;
pub mod layout;
pub mod lockdown;
