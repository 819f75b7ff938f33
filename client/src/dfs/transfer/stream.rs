//! A byte stream to a DataNode: TCP, or an abstract Unix socket to one on the same machine.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use protocol::namenode::DatanodeInfo;

use super::{Timeouts, TransferFailure};

/// A connected socket with timeouts on reads and writes.
#[derive(Debug)]
pub enum Stream {
    /// To another machine, or where Unix sockets do not reach.
    Tcp(TcpStream),
    /// To a process on this machine.
    Unix(UnixStream),
}

impl Stream {
    /// Connects to `datanode`: by its Unix socket if `boot_id` says that it runs on this machine, else by TCP.
    ///
    /// # Errors
    /// [`TransferFailure::Connect`].
    pub fn connect(
        datanode: &DatanodeInfo,
        boot_id: &str,
        timeouts: Timeouts,
    ) -> Result<Self, TransferFailure> {
        let fail = |source| TransferFailure::Connect {
            address: datanode.transfer_address.clone(),
            source,
        };
        let stream = match Self::connect_local(datanode, boot_id) {
            Some(stream) => stream,
            None => {
                Self::connect_tcp(&datanode.transfer_address, timeouts.connect).map_err(fail)?
            }
        };
        stream.set_timeouts(timeouts.io).map_err(fail)?;
        Ok(stream)
    }

    /// Connects to the Unix socket of a DataNode on this machine; `None` if there is none that answers.
    fn connect_local(datanode: &DatanodeInfo, boot_id: &str) -> Option<Self> {
        if boot_id.is_empty() || datanode.boot_id != boot_id || datanode.local_socket.is_empty() {
            return None;
        }
        sys::socket::connect(&datanode.local_socket).ok().map(Stream::Unix)
    }

    fn connect_tcp(address: &str, timeout: Duration) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sets the time in which each read and each write must make progress.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Ends the connection; whoever waits on it is woken.
    pub fn shutdown(&self) {
        // Fails only if the peer was faster.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// True if something is there to read now: bytes or the end.
    pub fn is_readable(&self) -> bool {
        !matches!(sys::poll::wait_readable([self.as_fd()], Duration::ZERO), Ok([false]))
    }

    /// The Unix socket, if it is one.
    pub fn unix(&self) -> Option<&UnixStream> {
        match self {
            Stream::Tcp(_) => None,
            Stream::Unix(stream) => Some(stream),
        }
    }

    /// Writes all of `slices`, with as few calls as the system allows.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_all_vectored(&self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut stream = self;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match stream.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(slices),
            Stream::Unix(stream) => (&mut &*stream).write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
