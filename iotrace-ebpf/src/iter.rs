//! A walk over all processes: which pid of iotrace's own pid namespace is which process. Only run inside a nested
//! namespace, where /proc does not tell.

use core::ffi::c_void;

use aya_ebpf::{bindings::seq_file, helpers::generated::bpf_seq_write};

use crate::mem::{config, load, offset, probe};

/// Depth limit of nested namespaces (MAX_PID_NS_LEVEL).
const LEVELS: u32 = 32;

/// Context: `struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; }`; each process writes its
/// pid there and its tgid. (aya has no macro for iterators.)
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn pids_of_namespace(ctx: *mut c_void) -> i32 {
    let task: u64 = load(ctx as u64, 8);
    if task == 0 {
        return 0;
    }
    let (pid, tgid): (u32, u32) = (load(task, offset!(task_pid)), load(task, offset!(task_tgid)));
    if pid != tgid {
        return 0;
    }
    let upids: u64 = load::<u64>(task, offset!(task_thread_pid));
    let level: u32 = load(upids, offset!(pid_level));
    for index in 0..LEVELS {
        if index > level {
            break;
        }
        // struct upid { int nr; struct pid_namespace *ns; }
        let upid = offset!(pid_numbers) + index * 16;
        let namespace: u64 = probe(upids, upid + 8).unwrap_or(0);
        if probe(namespace, offset!(pid_namespace_inum)) == Some(config!(pid_namespace)) {
            let found: [u32; 2] = [probe(upids, upid).unwrap_or(0), tgid];
            let seq: u64 = load(load(ctx as u64, 0), 0);
            // SAFETY: `seq` is the iterator's own file; 8 bytes of ours.
            unsafe { bpf_seq_write(seq as *mut seq_file, found.as_ptr().cast(), 8) };
            break;
        }
    }
    0
}
