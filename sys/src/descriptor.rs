//! Passes open files from one process to another over a Unix socket (`SCM_RIGHTS`).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors in one message: a block and its meta file.
const DESCRIPTORS_MAX: usize = 2;
/// The byte that accompanies the descriptors; a message without data would be lost.
const CARRIER: u8 = 0xfd;

/// Sends up to two open files, with one carrier byte.
///
/// # Errors
/// The system's error.
pub fn send_files(socket: &UnixStream, files: &[&File]) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors for one message",
        ));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&[CARRIER])], &mut control, SendFlags::NOSIGNAL)?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives what [`send_files`] sent: exactly `count` files.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if the peer sent something else; else the system's error.
pub fn receive_files(socket: &UnixStream, count: usize) -> io::Result<Vec<File>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::with_capacity(count);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors.map(File::from));
        }
    }
    match (received.bytes, byte) {
        (1, [CARRIER]) if files.len() == count => Ok(files),
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "peer did not send the expected descriptors",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn files_arrive_open_and_other_bytes_are_refused() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut one = tempfile::tempfile().unwrap();
        one.write_all(b"one").unwrap();
        let two = tempfile::tempfile().unwrap();
        send_files(&left, &[&one, &two]).unwrap();
        let mut files = receive_files(&right, 2).unwrap();
        drop(one);
        let mut text = String::new();
        files[0].rewind().unwrap();
        files[0].read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");

        right.write_all(&[CARRIER]).unwrap();
        assert_eq!(receive_files(&left, 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(right);
        assert_eq!(receive_files(&left, 2).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
