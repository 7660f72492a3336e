//! Who is at the other end of a Unix socket (`SO_PEERCRED`, unix(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// The process that connected, or that listened, as the kernel knew it then.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PeerCred {
    /// Its user.
    pub uid: u32,
    /// Its group; of the others that it is in nothing is known.
    pub gid: u32,
    /// Its number; 0 = in a name space that this process does not see.
    pub pid: i32,
}

/// Who is at the other end of a connected socket.
///
/// # Errors
///
/// As `getsockopt(2)`.
pub fn peer_cred(socket: impl AsFd) -> io::Result<PeerCred> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t; // 12
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `cred` lives through the call and has `len` writable bytes, all of which are numbers for which any bits will
    // do.
    let failed =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut cred).cast(), &raw mut len) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCred { uid: cred.uid, gid: cred.gid, pid: cred.pid })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let cred = peer_cred(&one).expect("connected");
        assert_eq!(u32::try_from(cred.pid).expect("a number"), std::process::id());
        assert_eq!(cred.uid, rustix::process::geteuid().as_raw());
    }
}
