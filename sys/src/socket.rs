//! Abstract Unix sockets: named, without a file, gone with their process; and sending without waiting.
//!
//! Abstract sockets carry no file permissions, so whatever listens on one checks a token or cookie first.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Listens on `name`.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if another process listens there; else what the system says.
pub fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to `name`.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`] if nobody listens there; else what the system says.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Sends what `socket` takes at once; how many bytes.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if it takes nothing now; else what the system says.
pub fn send_now(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn listens_and_connects() {
        let name = format!("hanno-test-{}", std::process::id());
        let listener = listen(&name).unwrap();
        let _client = connect(&name).unwrap();
        listener.accept().unwrap();
        assert!(connect("hanno-test-nobody").is_err());
    }

    #[test]
    fn sends_what_fits() {
        let (socket, peer) = UnixStream::pair().unwrap();
        let data = vec![7; 1 << 16];
        let mut sent = 0;
        let error = loop {
            match send_now(socket.as_fd(), &[IoSlice::new(&data), IoSlice::new(b"end")]) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(sent > 0);
        drop(peer);
        let error = send_now(socket.as_fd(), &[IoSlice::new(b"x")]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
