//! Signals as data: blocked, and read from a descriptor that tells who sent them. The terminal sends Ctrl-C to the traced
//! command itself; only what another process sent to iotrace has to be passed on. They stay blocked to the end: two that
//! come together must not cost the report.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr, thread,
    time::{Duration, Instant},
};

use tokio::io::{Interest, unix::AsyncFd};

const FOLLOWED: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Signals that come within this time of the one that ended the trace belong to it: service managers, `timeout` and
/// closing terminals send several.
const TOGETHER: Duration = Duration::from_millis(300);

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

    /// Asks once more, after a request at `first`.
    pub fn insists(self, first: Instant) -> bool {
        matches!(self.number, libc::SIGINT | libc::SIGTERM) && first.elapsed() > TOGETHER
    }
}

/// The signals iotrace looks after, blocked.
#[derive(Clone, Copy)]
pub struct Blocked {
    followed: libc::sigset_t,
    /// The mask on entry.
    before: libc::sigset_t,
    /// SIGINT was ignored on entry. A shell without job control does so for every command it puts in the background, to
    /// spare it the terminal's Ctrl-C; `kill -INT` still means it.
    spared_by_terminal: bool,
}

/// Blocks them; to be done before any thread starts. Those ignored on entry (SIGHUP under nohup) are left alone.
pub fn block() -> Blocked {
    let mut spared_by_terminal = false;
    // SAFETY: the calls fill both sets; a null action changes none.
    unsafe {
        let mut followed = MaybeUninit::uninit();
        libc::sigemptyset(followed.as_mut_ptr());
        for signal in FOLLOWED {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
            let ignored = action.assume_init().sa_sigaction == libc::SIG_IGN;
            if signal == libc::SIGINT {
                spared_by_terminal = ignored;
            } else if ignored {
                continue;
            }
            libc::sigaddset(followed.as_mut_ptr(), signal);
        }
        let mut before = MaybeUninit::uninit();
        libc::sigprocmask(libc::SIG_BLOCK, followed.as_ptr(), before.as_mut_ptr());
        Blocked { followed: followed.assume_init(), before: before.assume_init(), spared_by_terminal }
    }
}

impl Blocked {
    /// Undoes [`block`] in a child.
    pub fn undo(&self) {
        // SAFETY: a valid set.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }

    /// To be called when the trace has ended: from now on SIGINT and SIGTERM end iotrace, unless they belong to the
    /// signal that ended the trace. All others are ignored.
    pub fn quit_at_next(self) -> io::Result<()> {
        let ended = Instant::now();
        let watch = move || {
            loop {
                if let Some(signal) = self.wait().filter(|signal| signal.insists(ended)) {
                    die_of(signal.number);
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
    }

    /// The next signal, or none when the wait was interrupted.
    fn wait(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: a valid set, and a record that the call fills.
        let (number, code) = unsafe {
            let number = libc::sigwaitinfo(&raw const self.followed, info.as_mut_ptr());
            (number, info.assume_init().si_code)
        };
        if number > 0 { self.meant(number, code) } else { None }
    }

    /// The signal, unless it is not meant for iotrace.
    fn meant(&self, number: i32, code: i32) -> Option<Signal> {
        // SI_USER, SI_QUEUE, SI_TKILL are at most 0; the terminal's are SI_KERNEL.
        let signal = Signal { number, from_process: code <= 0 };
        let spared = number == libc::SIGINT && self.spared_by_terminal && !signal.from_process;
        (!spared).then_some(signal)
    }
}

/// Ends this process by the signal, so that a shell sees what it was.
fn die_of(number: i32) -> ! {
    // SAFETY: plain calls; the signal is unblocked for this thread only, and its default is to end the process.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), number);
        libc::signal(number, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        libc::raise(number);
        libc::_exit(128 + number)
    }
}

/// Reads blocked signals.
pub struct Signals {
    blocked: Blocked,
    fd: AsyncFd<OwnedFd>,
}

impl Signals {
    /// Opens the descriptor; inside a tokio runtime.
    pub fn open(blocked: Blocked) -> io::Result<Self> {
        // SAFETY: a valid set; the descriptor is ours.
        let fd = unsafe {
            let fd = libc::signalfd(-1, &raw const blocked.followed, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: the descriptor is owned by the AsyncFd and closed after it is deregistered.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { blocked, fd })
    }

    /// The next signal.
    pub async fn next(&self) -> io::Result<Signal> {
        loop {
            let mut ready = self.fd.readable().await?;
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
                if let Some(signal) = self.blocked.meant(info.ssi_signo as i32, info.ssi_code) {
                    return Ok(signal);
                }
            }
        }
    }
}
