//! Names of error numbers, from libc's constants, and of those the kernel keeps to itself.

use std::borrow::Cow;

macro_rules! names {
    ($($name:ident)*) => {
        /// The C name of `errno`, e.g. `ENOENT`; the number as text when it has none.
        pub fn name(errno: i32) -> Cow<'static, str> {
            Cow::Borrowed(match errno {
                $(libc::$name => stringify!($name),)*
                // Seen by probes inside the kernel, never by a process (include/linux/errno.h).
                512 => "ERESTARTSYS",
                513 => "ERESTARTNOINTR",
                514 => "ERESTARTNOHAND",
                515 => "ENOIOCTLCMD",
                516 => "ERESTART_RESTARTBLOCK",
                517 => "EPROBE_DEFER",
                518 => "EOPENSTALE",
                519 => "ENOPARAM",
                521 => "EBADHANDLE",
                522 => "ENOTSYNC",
                523 => "EBADCOOKIE",
                524 => "ENOTSUPP",
                525 => "ETOOSMALL",
                526 => "ESERVERFAULT",
                527 => "EBADTYPE",
                528 => "EJUKEBOX",
                529 => "EIOCBQUEUED",
                530 => "ERECALLCONFLICT",
                other => return Cow::Owned(other.to_string()),
            })
        }
    };
}

names! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM
    ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG
    EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG
    EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC
    ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE
    ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL
    ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT
    ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL
    EHWPOISON
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn errors_have_their_c_names() {
        assert_eq!(name(2), "ENOENT");
        assert_eq!(name(11), "EAGAIN");
        assert_eq!(name(28), "ENOSPC");
        assert_eq!(name(529), "EIOCBQUEUED");
        assert_eq!(name(9999), "9999");
    }
}
