//! Signals as data: blocked, and read from a descriptor that tells who sent them. The terminal sends Ctrl-C to the traced
//! command itself; only what another process sent to iotrace has to be passed on.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

const FOLLOWED: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Number.
    pub number: i32,
    /// Sent by a process, not by the terminal.
    pub from_process: bool,
}

impl Signal {
    /// Asks for the end of the trace.
    pub fn ends_trace(self) -> bool {
        matches!(self.number, libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT)
    }
}

/// The signals iotrace looks after.
fn set() -> libc::sigset_t {
    // SAFETY: the calls fill the set.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FOLLOWED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Blocks them; to be done before any thread starts.
pub fn block() {
    // SAFETY: a valid set.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set(), std::ptr::null_mut()) };
}

/// Undoes [`block`] in a child.
pub fn unblock() {
    // SAFETY: a valid set.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &set(), std::ptr::null_mut()) };
}

/// Reads blocked signals.
pub struct Signals(AsyncFd<OwnedFd>);

impl Signals {
    /// Opens the descriptor; inside a tokio runtime.
    pub fn open() -> io::Result<Self> {
        // SAFETY: a valid set; the descriptor is ours.
        let fd = unsafe {
            let fd = libc::signalfd(-1, &set(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: the descriptor is owned by the AsyncFd and closed after it is deregistered.
        Ok(Self(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?))
    }

    /// The next signal.
    pub async fn next(&self) -> io::Result<Signal> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|fd| {
                let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
                // SAFETY: the buffer has the size given.
                let read =
                    unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size_of_val(&info)) };
                if read < 0 {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: the kernel writes whole records.
                Ok(unsafe { info.assume_init() })
            });
            if let Ok(info) = read {
                let info = info?;
                // SI_USER, SI_QUEUE, SI_TKILL are at most 0; the terminal's are SI_KERNEL.
                return Ok(Signal { number: info.ssi_signo as i32, from_process: info.ssi_code <= 0 });
            }
        }
    }
}
