//! An encrypted stream between machines: TLS 1.3 on a TCP socket, for threads that wait.
//!
//! Reads and writes may come from two threads at once. What both need, the state of the encryption, is locked while bytes are encrypted or decrypted and never
//! while the network is waited for.
//!
//! Invariant: what was received is either still in `received` or has been decrypted; so a socket without new bytes and [`Secure::is_buffered`] false mean that
//! a read has to wait.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use parking_lot::Mutex;
use protocol::auth::Fingerprint;
use tls::{Certificate, ClientConnection, Connection, ServerConnection, ServerName};

use crate::wait::awake_of;

/// Bytes that one system call takes from the socket: two records of TLS. `rustls` itself would ask for a quarter of a record at a time.
const RECEIVE_BYTES: usize = 32 << 10;
/// Bytes that are encrypted before they are sent: few system calls, and they are still in the cache.
const ENCRYPTED_BYTES_MAX: usize = 128 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Secure {
    socket: TcpStream,
    state: Mutex<State>,
    /// Of the end that was connected to.
    certificate: Fingerprint,
}

#[derive(Debug)]
struct State {
    tls: Connection,
    /// Bytes from the socket; those in `left` are not decrypted yet.
    received: Box<[u8]>,
    left: Range<usize>,
}

/// How much of what is encrypted has left.
#[derive(PartialEq, Eq)]
enum Sent {
    All,
    /// The socket takes no more now.
    Part,
}

impl Secure {
    /// The end that connected: takes whatever certificate there is, and knows it when this returns. Each wait lasts at most the socket's timeouts.
    pub(crate) fn connect(socket: TcpStream) -> io::Result<Self> {
        let peer = ServerName::from(socket.peer_addr()?.ip());
        let client = ClientConnection::new(tls::for_hello(), peer).map_err(io::Error::other)?;
        let state = State::new(Connection::Client(client));
        let secure = Secure { socket, state, certificate: Fingerprint([0; 32]) };
        secure.shake()?;
        let seen = tls::fingerprint_of(&secure.state.lock().tls);
        let certificate = seen.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Secure { certificate, ..secure })
    }

    /// The end that was connected to. The handshake takes place in the first reads.
    pub(crate) fn accepted(socket: TcpStream, own: &Certificate) -> io::Result<Self> {
        let server = ServerConnection::new(own.server()).map_err(io::Error::other)?;
        let state = State::new(Connection::Server(server));
        Ok(Secure { socket, state, certificate: own.fingerprint() })
    }

    /// The certificate of the end that was connected to.
    pub(crate) fn certificate(&self) -> Fingerprint {
        self.certificate
    }

    /// The socket, for its timeouts and its end; nothing is read from it or written to it.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// True until both ends have agreed on their keys.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.state.lock().tls.is_handshaking()
    }

    /// True if a read would return what has been received already, or the end.
    pub(crate) fn is_buffered(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.has_plain() {
                return true;
            }
            if state.left.is_empty() {
                return false;
            }
            if state.decrypt().is_err() {
                // The read says why.
                return true;
            }
        }
    }

    fn shake(&self) -> io::Result<()> {
        while self.is_handshaking() {
            self.send_rest()?;
            self.receive()?;
        }
        self.send_rest().map(drop)
    }

    /// Waits for bytes, if there are none, and decrypts some. It waits for the peer to take bytes only in the handshake: later the peer may be waiting for the
    /// same, and then nobody would read.
    fn receive(&self) -> io::Result<()> {
        loop {
            let (is_shaking, received) = {
                let mut state = self.state.lock();
                let is_shaking = state.tls.is_handshaking();
                let received = state.receive(self.as_fd());
                if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
                {
                    // The peer learns why, if it takes it at once.
                    let _ = state.send(self.as_fd());
                }
                (is_shaking, received)
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let timeout = self.socket.read_timeout()?.unwrap_or(Duration::MAX);
                    awake_of(sys::poll::wait_readable_awake([self.as_fd()], timeout)?)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(()) if is_shaking => return self.send_rest().map(drop),
                received => return received,
            }
        }
    }

    /// Sends what is encrypted; returns how long the peer kept it waiting.
    fn send_rest(&self) -> io::Result<Duration> {
        self.write_all_vectored(&mut [])
    }

    /// Writes all of `slices`; returns how long the peer kept it waiting, counting only time while this process ran.
    pub(crate) fn write_all_vectored(
        &self,
        mut slices: &mut [IoSlice<'_>],
    ) -> io::Result<Duration> {
        let mut waited = Duration::ZERO;
        IoSlice::advance_slices(&mut slices, 0);
        loop {
            let sent = {
                let mut state = self.state.lock();
                if !slices.is_empty() {
                    let taken = state.tls.writer().write_vectored(slices)?;
                    IoSlice::advance_slices(&mut slices, taken);
                }
                state.send(self.as_fd())?
            };
            if sent == Sent::All && slices.is_empty() {
                return Ok(waited);
            }
            if sent == Sent::Part {
                let timeout = self.socket.write_timeout()?.unwrap_or(Duration::MAX);
                waited += awake_of(sys::poll::wait_writable_awake(self.as_fd(), timeout)?)?;
            }
        }
    }

    /// As [`Read::read`].
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.state.lock().tls.reader().read(buffer);
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.receive()?,
                read => return read,
            }
        }
    }
}

impl State {
    fn new(mut tls: Connection) -> Mutex<Self> {
        tls.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX));
        let received = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Mutex::new(State { tls, received, left: 0..0 })
    }

    /// True if there is something to read: bytes or the end.
    fn has_plain(&mut self) -> bool {
        match self.tls.reader().fill_buf() {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Takes what the socket has, and decrypts some of it.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.left.is_empty() {
            self.left = 0..sys::socket::receive_now(socket, &mut self.received)?;
        }
        self.decrypt()
    }

    /// Decrypts some of what was received; with nothing left, this is the end.
    fn decrypt(&mut self) -> io::Result<()> {
        let mut bytes = &self.received[self.left.clone()];
        self.left.start += self.tls.read_tls(&mut bytes)?;
        match self.tls.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Now(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Part),
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::All)
    }
}

/// A socket that takes what it can at once.
struct Now<'a>(BorrowedFd<'a>);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::socket::send_now(self.0, &[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::socket::send_now(self.0, slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Secure {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
#[path = "secure_tests.rs"]
mod tests;
