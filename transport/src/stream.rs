//! A byte stream to a DataNode: TCP, encrypted if it leaves the machine, or an abstract Unix socket to one on the same machine.
//!
//! Both ends decide by the other's address, so neither asks: what comes from or goes to loopback is plain, everything else encrypted.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::auth::Fingerprint;
use protocol::namenode::DatanodeInfo;
use protocol::transfer::local_socket_user;
use sys::broker::Broker;

use tls::Certificate;

use crate::secure::Secure;
use crate::wait::awake_of;
use crate::{Silent, Timeouts, TransferFailure};

/// Bytes read and dropped after a refusal.
const DRAIN_BYTES_MAX: usize = 4 << 20;
/// Bytes of them read at once.
const DRAIN_STEP_BYTES: usize = 16 << 10;

/// How to reach DataNodes on this machine.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// Boot id of this machine; empty to use no Unix sockets.
    pub boot_id: String,
    /// Connects where this process may not.
    pub broker: Option<Arc<Broker>>,
}

impl Local {
    /// True if `datanode` reports that it runs on this machine and offers a Unix socket meant for us, and Unix sockets may be used.
    pub(crate) fn reaches(&self, datanode: &DatanodeInfo) -> bool {
        self.listener(datanode).is_some()
    }

    /// The user who listens on the Unix socket of a DataNode.
    fn listener(&self, datanode: &DatanodeInfo) -> Option<u32> {
        let is_here = !self.boot_id.is_empty() && datanode.boot_id == self.boot_id;
        let user = local_socket_user(&datanode.local_socket).filter(|_| is_here)?;
        // A broker checks the user itself.
        (self.broker.is_some() || sys::socket::is_for_us(user)).then_some(user)
    }
}

/// A connected socket with timeouts on reads and writes. Once one has passed, the error is [`Silent`].
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// The address of a DataNode that this end has connected to.
    peer: Option<String>,
}

#[derive(Debug)]
enum Socket {
    /// To this machine, where Unix sockets do not reach.
    Tcp(TcpStream),
    /// To another machine.
    Secure(Box<Secure>),
    /// To a process on this machine.
    Unix(UnixStream),
}

impl Stream {
    /// A TCP connection that was accepted from `peer`, by a DataNode with this certificate.
    pub(crate) fn accepted_tcp(
        stream: TcpStream,
        peer: IpAddr,
        own: &Certificate,
    ) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Stream::of(match is_here(peer) {
            true => Socket::Tcp(stream),
            false => Socket::Secure(Box::new(Secure::accepted(stream, own)?)),
        }))
    }

    /// Connects to `datanode`: over its Unix socket if it runs on this machine, else over TCP.
    ///
    /// # Errors
    /// [`TransferFailure::Connect`].
    pub(crate) fn connect(
        datanode: &DatanodeInfo,
        local: &Local,
        timeouts: Timeouts,
    ) -> Result<Self, TransferFailure> {
        let address = datanode.transfer_address.clone();
        let fail = |source: io::Error| match is_late(&source) {
            // It took the connection, and nothing else.
            true => TransferFailure::Silent(silent(Some(&address), timeouts.connect)),
            false => TransferFailure::Connect { address: address.clone(), source },
        };
        let stream = match Self::connect_local(datanode, local) {
            Some(stream) => {
                stream.set_timeouts(timeouts.io).map_err(fail)?;
                stream
            }
            None => Self::connect_tcp(&address, timeouts).map_err(fail)?,
        };
        Ok(Stream { peer: Some(address), ..stream })
    }

    /// Connects to the Unix socket of a DataNode on this machine; `None` if none answers.
    fn connect_local(datanode: &DatanodeInfo, local: &Local) -> Option<Self> {
        let user = local.listener(datanode)?;
        let name = &datanode.local_socket;
        let connected = match &local.broker {
            Some(broker) => broker.connect(name),
            None => sys::socket::connect(name),
        };
        let connected = connected.ok()?;
        match sys::socket::check_listener(&connected, user) {
            Ok(()) => Some(Stream::of(Socket::Unix(connected))),
            Err(error) => {
                tracing::warn!(name, %error, "not a DataNode's local socket any more, TCP is used");
                None
            }
        }
    }

    fn connect_tcp(address: &str, timeouts: Timeouts) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeouts.connect) {
                Ok(stream) => return Stream::connected_tcp(stream, address.ip(), timeouts),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connected_tcp(stream: TcpStream, peer: IpAddr, timeouts: Timeouts) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let stream = match is_here(peer) {
            true => Stream::of(Socket::Tcp(stream)),
            false => {
                stream.set_read_timeout(Some(timeouts.connect))?;
                stream.set_write_timeout(Some(timeouts.connect))?;
                Stream::of(Socket::Secure(Box::new(Secure::connect(stream)?)))
            }
        };
        stream.set_timeouts(timeouts.io)?;
        Ok(stream)
    }

    /// The certificate of the DataNode's end, if it is encrypted.
    pub(crate) fn certificate(&self) -> Option<Fingerprint> {
        match &self.socket {
            Socket::Secure(secure) => Some(secure.certificate()),
            Socket::Tcp(_) | Socket::Unix(_) => None,
        }
    }

    /// True if there is no key yet by which anything could be said.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(&self.socket, Socket::Secure(secure) if secure.is_handshaking())
    }

    /// The TCP socket, if it is one, with or without encryption.
    fn tcp(&self) -> Option<&TcpStream> {
        match &self.socket {
            Socket::Tcp(stream) => Some(stream),
            Socket::Secure(secure) => Some(secure.socket()),
            Socket::Unix(_) => None,
        }
    }

    /// Sets the time within which each read and each write must make progress.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Socket::Secure(secure) => {
                secure.socket().set_read_timeout(Some(timeout))?;
                secure.socket().set_write_timeout(Some(timeout))
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Sends nothing more, and reads and drops what the peer has sent already, within `time` however the peer spaces it. Otherwise a reset could lose the
    /// answer that was sent last.
    pub(crate) fn drain(&self, time: Duration) -> io::Result<()> {
        let Some(tcp) = self.tcp() else { return Ok(()) };
        tcp.shutdown(Shutdown::Write)?;
        let (deadline, mut left) = (Instant::now() + time, DRAIN_BYTES_MAX);
        let mut bytes = vec![0; DRAIN_STEP_BYTES];
        while left > 0 {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            self.set_timeouts(rest)?;
            let count = (&mut &*self).read(&mut bytes)?;
            if count == 0 {
                break;
            }
            left = left.saturating_sub(count);
        }
        Ok(())
    }

    /// Ends the connection; wakes whoever waits on it.
    pub fn shutdown(&self) {
        // Fails only if the peer was faster.
        let _ = match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Secure(secure) => secure.socket().shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// True if bytes were received that nobody has read.
    pub(crate) fn is_buffered(&self) -> bool {
        matches!(&self.socket, Socket::Secure(secure) if secure.is_buffered())
    }

    /// True if there is something to read now: bytes or the end.
    pub fn is_readable(&self) -> bool {
        self.is_buffered()
            || !matches!(sys::poll::wait_readable([self.as_fd()], Duration::ZERO), Ok([false]))
    }

    /// The Unix socket, if it is one.
    pub(crate) fn unix(&self) -> Option<&UnixStream> {
        match &self.socket {
            Socket::Tcp(_) | Socket::Secure(_) => None,
            Socket::Unix(stream) => Some(stream),
        }
    }

    fn of(socket: Socket) -> Self {
        Stream { socket, peer: None }
    }

    /// An error of the socket; if its time is over, says whose answer it was that did not come.
    fn error(&self, error: io::Error) -> io::Error {
        match is_late(&error) {
            true => {
                let limit = self.read_timeout().unwrap_or_default();
                io::Error::new(io::ErrorKind::TimedOut, silent(self.peer.as_deref(), limit))
            }
            false => error,
        }
    }

    /// Writes all of `slices` with as few calls as the system allows. Returns how long the peer kept it waiting, counting only time while this process ran.
    ///
    /// # Errors
    /// [`Silent`] if the peer takes nothing for the time of [`Stream::set_timeouts`]; else the system's error.
    pub fn write_all_vectored(&self, slices: &mut [IoSlice<'_>]) -> io::Result<Duration> {
        self.write_slices(slices).map_err(|error| self.error(error))
    }

    fn write_slices(&self, mut slices: &mut [IoSlice<'_>]) -> io::Result<Duration> {
        if let Socket::Secure(secure) = &self.socket {
            return secure.write_all_vectored(slices);
        }
        let mut waited = Duration::ZERO;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match sys::socket::send_now(self.as_fd(), slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let timeout = self.write_timeout()?;
                    let wait = sys::poll::wait_writable_awake(self.as_fd(), timeout)?;
                    waited += awake_of(wait)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(waited)
    }

    /// Waits until a read would not block; returns how long, counting only time while this process ran.
    ///
    /// # Errors
    /// [`Silent`] if nothing comes for the time of [`Stream::set_timeouts`]; else the system's error.
    pub fn wait_readable(&self) -> io::Result<Duration> {
        if self.is_buffered() {
            return Ok(Duration::ZERO);
        }
        let waited = sys::poll::wait_readable_awake([self.as_fd()], self.read_timeout()?);
        waited.and_then(awake_of).map_err(|error| self.error(error))
    }

    fn read_timeout(&self) -> io::Result<Duration> {
        let timeout = match &self.socket {
            Socket::Tcp(stream) => stream.read_timeout(),
            Socket::Secure(secure) => secure.socket().read_timeout(),
            Socket::Unix(stream) => stream.read_timeout(),
        };
        Ok(timeout?.unwrap_or(Duration::MAX))
    }

    fn write_timeout(&self) -> io::Result<Duration> {
        let timeout = match &self.socket {
            Socket::Tcp(stream) => stream.write_timeout(),
            Socket::Secure(secure) => secure.socket().write_timeout(),
            Socket::Unix(stream) => stream.write_timeout(),
        };
        Ok(timeout?.unwrap_or(Duration::MAX))
    }
}

/// True if the time for a socket is over: the system says that it would block, our own waits that they ended.
fn is_late(error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::WouldBlock => true,
        io::ErrorKind::TimedOut => error.raw_os_error().is_none() && error.get_ref().is_none(),
        _ => false,
    }
}

fn silent(peer: Option<&str>, limit: Duration) -> Silent {
    let name = |address: &str| format!("DataNode {address}");
    Silent { peer: peer.map_or_else(|| "the other side".to_owned(), name), limit }
}

/// True if what an address sends and receives stays on this machine.
fn is_here(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

impl Stream {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Secure(secure) => secure.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Stream::of(Socket::Unix(stream))
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.socket {
            Socket::Tcp(stream) => (&mut &*stream).read(buffer),
            Socket::Secure(secure) => secure.read(buffer),
            Socket::Unix(stream) => (&mut &*stream).read(buffer),
        }
        .map_err(|error| self.error(error))
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.socket {
            Socket::Tcp(stream) => (&mut &*stream).write(bytes),
            Socket::Secure(secure) => {
                secure.write_all_vectored(&mut [IoSlice::new(bytes)]).map(|_| bytes.len())
            }
            Socket::Unix(stream) => (&mut &*stream).write(bytes),
        }
        .map_err(|error| self.error(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_answer_is_named_once() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let stream = Stream { socket: Socket::Unix(socket), peer: Some("d1:9866".to_owned()) };
        let limit = Duration::from_millis(50);
        stream.set_timeouts(limit).unwrap();
        let mut connection = crate::Connection::new(stream);
        let failures = [
            connection.wait_readable().unwrap_err(),
            connection.read_answer().unwrap_err(),
            connection.read_ack().unwrap_err(),
            connection.send_bytes(&vec![0; 4 << 20]).unwrap_err(),
        ];
        for failure in failures {
            let text = protocol::error::chain(&failure);
            assert_eq!(text, "DataNode d1:9866 did not answer within 0 s");
            assert!(
                matches!(&failure, TransferFailure::Silent(found) if found.limit >= limit),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn a_write_waits_for_its_peer_and_no_longer_than_it_may() {
        let (socket, mut peer) = UnixStream::pair().unwrap();
        let stream = Stream::from(socket);
        let timeout = Duration::from_millis(50);
        stream.set_timeouts(timeout).unwrap();
        let data: Vec<u8> = (0..4 << 20).map(|at: u32| (at / 4096) as u8).collect();
        let send = || {
            let mut slices = [b"", &b"head"[..], &data].map(IoSlice::new);
            stream.write_all_vectored(&mut slices)
        };
        assert_eq!(send().unwrap_err().kind(), io::ErrorKind::TimedOut, "nobody reads");
        assert_eq!(stream.wait_readable().unwrap_err().kind(), io::ErrorKind::TimedOut);

        peer.set_nonblocking(true).unwrap();
        while peer.read(&mut [0; 4096]).is_ok() {}
        peer.set_nonblocking(false).unwrap();
        stream.set_timeouts(Duration::from_secs(60)).unwrap();
        let mut found = vec![0; 4 + data.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                peer.read_exact(&mut found).unwrap();
                peer.write_all(b"x").unwrap();
            });
            send().unwrap();
        });
        assert!(found[..4] == *b"head" && found[4..] == data);
        stream.wait_readable().unwrap();
    }
}
