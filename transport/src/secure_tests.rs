//! Encrypted streams on real sockets.

use std::net::TcpListener;
use std::thread;

use super::*;

/// More than all buffers on the way take.
const MANY_BYTES: usize = 24 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Two connected sockets.
fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    (client, server)
}

/// Both ends of an encrypted stream, and the certificate of the second one.
fn ends() -> (Secure, Secure, Certificate) {
    let (client, server) = sockets();
    let own = Certificate::fresh().unwrap();
    let server = Secure::accepted(server, &own).unwrap();
    let client = thread::scope(|scope| {
        let shaking = scope.spawn(|| server.shake());
        let client = Secure::connect(client).unwrap();
        shaking.join().unwrap().unwrap();
        client
    });
    (client, server, own)
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..MANY_BYTES).map(|at| (at / 251) as u8 ^ (at as u8) ^ seed).collect()
}

fn read_exact(from: &Secure, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match from.read(bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes = &mut bytes[count..],
        }
    }
    Ok(())
}

#[test]
fn bytes_go_both_ways_at_once() {
    let (client, server, own) = ends();
    assert_eq!(client.certificate(), own.fingerprint());
    assert_eq!(server.certificate(), own.fingerprint());
    let send = |by: &Secure, seed| {
        let bytes = pattern(seed);
        let (head, rest) = bytes.split_at(7);
        let mut slices = [head, b"", rest].map(IoSlice::new);
        by.write_all_vectored(&mut slices).unwrap();
    };
    let receive = |by: &Secure, seed| {
        let mut found = vec![0; MANY_BYTES];
        read_exact(by, &mut found).unwrap();
        assert!(found == pattern(seed));
    };
    thread::scope(|scope| {
        scope.spawn(|| send(&client, 1));
        scope.spawn(|| send(&server, 2));
        scope.spawn(|| receive(&client, 2));
        scope.spawn(|| receive(&server, 1));
    });
}

#[test]
fn what_was_received_is_known_without_the_socket() {
    let (client, server, _) = ends();
    assert!(!server.is_buffered());
    client.write_all_vectored(&mut [IoSlice::new(b"abcdef")]).unwrap();
    let mut bytes = [0; 2];
    read_exact(&server, &mut bytes).unwrap();
    assert_eq!(&bytes, b"ab");
    let has_more = sys::poll::wait_readable([server.as_fd()], Duration::ZERO).unwrap();
    assert_eq!(has_more, [false], "the record has left the socket");
    assert!(server.is_buffered());
    let mut rest = [0; 4];
    read_exact(&server, &mut rest).unwrap();
    assert_eq!(&rest, b"cdef");
    assert!(!server.is_buffered());
    drop(client);
    server.receive().unwrap_or_default();
    assert!(server.is_buffered(), "the end can be read");
}

#[test]
fn waits_end() {
    let (client, server, _) = ends();
    let limit = Some(Duration::from_millis(50));
    client.socket().set_read_timeout(limit).unwrap();
    client.socket().set_write_timeout(limit).unwrap();
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "nobody writes");
    let bytes = pattern(3);
    let error = client.write_all_vectored(&mut [IoSlice::new(&bytes)]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "nobody reads");
    drop(server);
}

#[test]
fn a_plain_peer_gets_nothing() {
    let (mut client, server) = sockets();
    let server = Secure::accepted(server, &Certificate::fresh().unwrap()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
    let error = server.read(&mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(server.is_handshaking());

    let (client, mut server) = sockets();
    server.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let error = Secure::connect(client).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}
