//! Where connections come in: a TCP port, or an abstract Unix socket for processes of this machine.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use sys::wake::Wake;
use tls::Certificate;

use crate::Stream;

/// Longest sleep of [`Listener::wait`]; connections and `stop` wake it.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Who has connected, as the system says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A peer at an address.
    Address(IpAddr),
    /// A process of a user of this machine.
    User(u32),
}

/// A listening socket. Accepting never blocks.
#[derive(Debug)]
pub struct Listener(Socket);

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener, Certificate),
    Unix(UnixListener),
}

impl Listener {
    /// Listens at an address of this machine. Connections from other machines are encrypted, with this certificate.
    ///
    /// # Errors
    /// The system's error.
    pub fn tcp(address: &str, certificate: Certificate) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener(Socket::Tcp(listener, certificate)))
    }

    /// Listens at the abstract Unix socket `name`.
    ///
    /// # Errors
    /// The system's error.
    pub fn unix(name: &str) -> io::Result<Self> {
        let listener = sys::socket::listen(name)?;
        listener.set_nonblocking(true)?;
        Ok(Listener(Socket::Unix(listener)))
    }

    /// The TCP address at which it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Socket::Tcp(listener, _) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// Waits for a connection; false once `stop` is notified.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&self, stop: &Wake) -> io::Result<bool> {
        let socket = match &self.0 {
            Socket::Tcp(listener, _) => listener.as_fd(),
            Socket::Unix(listener) => listener.as_fd(),
        };
        loop {
            match sys::poll::wait_readable([socket, stop.as_fd()], WAIT_MAX)? {
                [_, true] => return Ok(false),
                [true, _] => return Ok(true),
                _ => {}
            }
        }
    }

    /// The next connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; else the system's error.
    pub fn accept(&self) -> io::Result<(Stream, Origin)> {
        match &self.0 {
            Socket::Tcp(listener, certificate) => {
                let (stream, address) = listener.accept()?;
                let stream = Stream::accepted_tcp(stream, address.ip(), certificate)?;
                Ok((stream, Origin::Address(address.ip())))
            }
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                let user = sys::socket::peer_user(&stream)?;
                Ok((Stream::from(stream), Origin::User(user)))
            }
        }
    }
}
