//! What clients and doors say to each other: one packet of JSON each, descriptors along with it where it says so.
//!
//! ```text
//! client: Begin                             door: Begun, with the page for the keeper of a program
//!         Serve, with its held calls              Served
//!         Show                                    Program and Sockets, any number, and Counts
//!         Explain                                 Program
//!         anything                                Refused, with why
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::view::{DoorCounts, ProgramView, SocketView};

/// Longest request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 1024;
/// Longest answer, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 128 << 10;
/// What of that sockets fill, so that the rest has room.
pub(crate) const PART_BYTES_MAX: usize = 32 << 10;
/// Descriptors that come along with one packet.
pub(crate) const FDS_MAX: usize = 4;

/// What a client asks for.
#[derive(Serialize, Deserialize)]
pub(crate) enum DoorRequest {
    /// A program is about to be started.
    Begin,
    /// Serve it: the descriptor of its held calls comes along.
    Serve { program: String },
    /// Say which sockets there are.
    Show,
    /// Say what the calls of one program came to, which may have ended.
    Explain { number: u64 },
}

/// What it is told.
#[derive(Serialize, Deserialize)]
pub(crate) enum DoorReply {
    /// Its page comes along.
    Begun,
    Served {
        number: u64,
    },
    Refused(String),
    Program(ProgramView),
    Sockets(Vec<SocketView>),
    /// The last part.
    Counts(DoorCounts),
}

/// Says something; the other side may be gone, or not read.
pub(crate) fn say(to: impl AsFd, what: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(what)?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)), "there is room for a few");
    sendmsg(to, &[io::IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What the other side says, of at most so many bytes, and what comes along.
///
/// # Errors
/// `UnexpectedEof`: it has closed the connection; `InvalidData`: it says something else.
pub(crate) fn heard<T: DeserializeOwned>(from: impl AsFd, bytes_max: usize) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut text = vec![0; bytes_max];
    let (count, fds) = part(from, &mut text)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let said = serde_json::from_slice(&text[..count]).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((said, fds))
}

/// Some bytes, and at most a few descriptors that come along; no bytes: the other side has closed the connection.
pub(crate) fn part(from: impl AsFd, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(from, &mut [io::IoSliceMut::new(into)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((got.bytes, fds.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn what_is_said_is_heard_with_what_comes_along() {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
        say(&here, &DoorRequest::Serve { program: "nginx".to_owned() }, &[here.as_fd()]).expect("said");
        let (request, fds) = heard::<DoorRequest>(&there, REQUEST_BYTES_MAX).expect("heard");
        assert!(matches!(request, DoorRequest::Serve { program } if program == "nginx"));
        assert_eq!(fds.len(), 1);
        say(&here, &DoorReply::Refused("x".repeat(2000)), &[]).expect("said");
        let error = heard::<DoorReply>(&there, REQUEST_BYTES_MAX).err().expect("it is cut short");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop((here, fds));
        let error = heard::<DoorReply>(&there, REQUEST_BYTES_MAX).err().expect("it is over");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
