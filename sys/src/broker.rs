//! Connects on behalf of a process that may not make Unix sockets itself: the process asks over a socket it was started with, and gets the connected one.
//!
//! ```text
//! asks     length of the name (1 byte), the name of an abstract socket
//! answers  1 byte: 1 with the connected socket (`SCM_RIGHTS`), 0 without
//! ```
//!
//! Invariants: one question is in progress at a time, and has at most [`NAME_BYTES_MAX`] bytes; the answering side decides which names are allowed.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Longest name of an abstract socket: the kernel's 108 bytes begin with a zero.
pub const NAME_BYTES_MAX: usize = 107;
/// Time for an answer: connecting to a socket of this machine takes none, so only a stopped process takes this long.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const CONNECTED: u8 = 1;
const REFUSED: u8 = 0;

/// The asking side.
#[derive(Debug)]
pub struct Broker {
    socket: Mutex<UnixStream>,
}

impl Broker {
    /// A broker that asks over `socket`.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        socket.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Broker { socket: Mutex::new(socket) })
    }

    /// A connection to the abstract socket `name`.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] if it was refused or nobody listens there; else the system's error.
    pub fn connect(&self, name: &str) -> io::Result<UnixStream> {
        let length = u8::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut question = vec![length];
        question.extend_from_slice(name.as_bytes());
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.write_all(&question)?;
        receive(&socket)
    }
}

fn receive(socket: &UnixStream) -> io::Result<UnixStream> {
    let mut byte = [REFUSED];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor: Option<OwnedFd> = descriptors.flatten().next();
    match (received.bytes, byte, descriptor) {
        (0, ..) => Err(io::ErrorKind::UnexpectedEof.into()),
        (_, [CONNECTED], Some(descriptor)) => Ok(descriptor.into()),
        _ => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

/// Answers one question over `socket`: with a connection, or none.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if `socket` is non-blocking and its peer reads no answers; else the system's error.
pub fn answer(socket: BorrowedFd<'_>, connected: Option<&UnixStream>) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = connected.iter().map(|socket| socket.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let byte = match connected {
        Some(_) if control.push(SendAncillaryMessage::ScmRights(&descriptors)) => CONNECTED,
        _ => REFUSED,
    };
    let sent = sendmsg(socket, &[IoSlice::new(&[byte])], &mut control, SendFlags::NOSIGNAL)?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn connections_come_through_another_process_and_refusals_too() {
        let name = format!("hanno-test-broker-{}", std::process::id());
        let listener = crate::socket::listen(&name).unwrap();
        let (asking, mut answering) = UnixStream::pair().unwrap();
        let asked = name.clone();
        let other = std::thread::spawn(move || {
            for _ in 0..2 {
                let mut length = [0];
                answering.read_exact(&mut length).unwrap();
                let mut bytes = vec![0; usize::from(length[0])];
                answering.read_exact(&mut bytes).unwrap();
                let connected =
                    (bytes == asked.as_bytes()).then(|| crate::socket::connect(&asked).unwrap());
                answer(answering.as_fd(), connected.as_ref()).unwrap();
            }
        });
        let broker = Broker::new(asking).unwrap();
        let mut connected = broker.connect(&name).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"hello").unwrap();
        drop(accepted);
        let mut said = String::new();
        connected.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello");
        let refused = broker.connect("somebody-else").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        other.join().unwrap();
        assert!(broker.connect(&name).is_err(), "nobody answers any more");
        assert_eq!(
            broker.connect(&"x".repeat(300)).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
