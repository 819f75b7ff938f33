//! Abstract Unix sockets: they have a name but no file, and disappear with their process. Also sending and receiving without waiting.
//!
//! Abstract sockets have no file permissions. So every listener checks a token or cookie first, and every client checks the listener's user ([`peer_user`]).

#![allow(
    unsafe_code,
    reason = "rustix believes that every peer has a process id; the proof is at the call"
)]

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sendmsg, socket_with,
};

/// Listens on `name`.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if another process listens there; else the system's error.
pub fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to `name`.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`] if nobody listens there; else the system's error.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to `name` without waiting for a listener whose queue is full.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if the queue is full; else as [`connect`].
pub fn connect_now(name: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// The user of the process at the other end: that of the client, or of the listener.
///
/// # Errors
/// The system's error.
pub fn peer_user(socket: &UnixStream) -> io::Result<u32> {
    // The process id of the peer is 0 if it is in no namespace of ours.
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; the call writes at most `length` bytes, which is the size of `peer`, and `length` itself; all
    // fields of `peer` are numbers, of which every value is valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(peer.uid),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if this process can trust a local socket of `user`: the user is its own, or root, whom every user has to trust.
pub fn is_for_us(user: u32) -> bool {
    let own = crate::host::user_id();
    own == 0 || own == user
}

/// Checks that the listener at the other end of a connected socket is `user`.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if it is another; else the system's error.
pub fn check_listener(socket: &UnixStream, user: u32) -> io::Result<()> {
    match peer_user(socket)? {
        peer if peer == user => Ok(()),
        peer => {
            let text = format!("user {peer} listens where user {user} should");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

/// Sends as much as `socket` takes at once; returns the number of bytes.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if it takes nothing now; else the system's error.
pub fn send_now(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)?)
}

/// Takes what has arrived at `socket`, without waiting; returns the number of bytes, 0 at the end.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if nothing has arrived; else the system's error.
pub fn receive_now(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok(count)
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
    fn what_is_there_is_received_at_once() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut bytes = [0; 8];
        let error = receive_now(here.as_fd(), &mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        send_now(there.as_fd(), &[IoSlice::new(b"abc")]).unwrap();
        assert_eq!(receive_now(here.as_fd(), &mut bytes).unwrap(), 3);
        assert_eq!(&bytes[..3], b"abc");
        drop(there);
        assert_eq!(receive_now(here.as_fd(), &mut bytes).unwrap(), 0);
    }

    #[test]
    fn both_sides_tell_whose_they_are() {
        let name = format!("hanno-test-whose-{}", std::process::id());
        let own = crate::host::user_id();
        let users = |listener: &UnixListener, client: UnixStream| {
            let (accepted, _) = listener.accept().unwrap();
            (peer_user(&client).unwrap(), peer_user(&accepted).unwrap())
        };
        let listener = listen(&name).unwrap();
        assert_eq!(users(&listener, connect(&name).unwrap()), (own, own));
        drop(listener);
        let other = crate::sandbox::User::new(1_900_000_200).unwrap();
        if let Err(error) = crate::sandbox::try_user(other, &[]) {
            needs::lacks(needs::Need::Users, error);
            return;
        }
        let listener = other.act(|| listen(&name)).unwrap();
        let connected = connect(&name).unwrap();
        check_listener(&connected, other.number()).unwrap();
        let refused = check_listener(&connected, own).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(users(&listener, connected), (other.number(), own));
        let client = other.act(|| connect_now(&name)).unwrap();
        assert_eq!(users(&listener, client), (other.number(), other.number()));
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
