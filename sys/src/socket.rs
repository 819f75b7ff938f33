//! Abstract Unix sockets: named, without a file, gone with their process; and sending without waiting.
//!
//! Abstract sockets carry no file permissions, so whatever listens on one checks a token or cookie first.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sendmsg, socket_with,
};

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

/// Connects to `name` without waiting for a listener that has too many callers already.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if it has; else as [`connect`].
pub fn connect_now(name: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
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
        assert!(connect("hanno-test-nobody").is_err() && connect_now("hanno-test-nobody").is_err());
        let mut callers = Vec::new();
        let error = loop {
            match connect_now(&name) {
                Ok(caller) => callers.push(caller),
                Err(error) => break error,
            }
        };
        assert!(!callers.is_empty());
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
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
