//! Abstract Unix sockets: named, without a file, gone with their process.
//!
//! They carry no file permissions, so whatever listens on one checks a token or cookie first.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_and_connects() {
        let name = format!("hanno-test-{}", std::process::id());
        let listener = listen(&name).unwrap();
        let _client = connect(&name).unwrap();
        listener.accept().unwrap();
        assert!(connect("hanno-test-nobody").is_err());
    }
}
