//! tracefs, which names the perf events of tracepoints, and is not mounted in most containers.

use std::{ffi::CStr, io, path::Path, thread};

/// Where tracefs is looked for.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// Is it mounted?
pub fn mounted() -> bool {
    PLACES.iter().any(|place| Path::new(place).exists())
}

/// Runs `work` where tracefs can be read: when it is not mounted, on a thread that mounts it in a mount namespace of its
/// own, which is gone with the thread. When that fails `work` runs all the same, and says what it lacks.
pub fn with<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if mounted() {
        return work();
    }
    thread::scope(|scope| {
        let private = scope.spawn(|| {
            if let Err(error) = mount_privately() {
                tracing::debug!("tracefs cannot be mounted: {error}");
            }
            work()
        });
        private.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn mount_privately() -> io::Result<()> {
    let check = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let mount = |source: &CStr, target: &CStr, kind: &CStr, flags| {
        // SAFETY: NUL-ended strings that outlive the call.
        let result =
            unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
        check(result)
    };
    // SAFETY: concerns this thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) })?;
    // Without this the mount would spread to the namespace we come from.
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE)?;
    mount(c"tracefs", c"/sys/kernel/tracing", c"tracefs", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}
