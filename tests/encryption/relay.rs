//! Who stands on the link: passes bytes on and keeps them, or answers with a certificate of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tls::{Certificate, ClientConnection, ServerConnection, ServerName};

/// Most bytes kept of a link: several times what the tests send.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// How long the one in the middle waits for one side before it looks at the other.
const LOOK: Duration = Duration::from_millis(20);

/// A link to a daemon; it lives as long as the test's process.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    kept: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    /// Passes on what comes to a free port beside `daemon`, and keeps it.
    pub(super) fn before(daemon: SocketAddr) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeping = Arc::clone(&kept);
        let address = listen(daemon, move |from| {
            let Ok(to) = TcpStream::connect(daemon) else { return };
            let pairs = [(&from, &to), (&to, &from)];
            let pairs =
                pairs.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()));
            for (from, to) in pairs {
                let keeping = Arc::clone(&keeping);
                thread::spawn(move || pass(from, to, &keeping));
            }
        });
        Relay { address, kept }
    }

    /// Speaks TLS to both sides, with a certificate of its own to whoever connects; passes on what it reads and keeps it.
    pub(super) fn between(daemon: SocketAddr) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (keeping, own) = (Arc::clone(&kept), Certificate::fresh().unwrap());
        let address = listen(daemon, move |from| {
            let Ok(to) = TcpStream::connect(daemon) else { return };
            read_both(from, to, &own, &keeping);
        });
        Relay { address, kept }
    }

    /// What went over the link so far.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.kept.lock().unwrap().clone()
    }
}

/// Has `serve` take each connection to a free port of the daemon's machine.
fn listen(daemon: SocketAddr, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((daemon.ip(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for from in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(from));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, keeping: &Mutex<Vec<u8>>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        keep(keeping, &bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // Either side may be gone already.
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}

fn keep(keeping: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut kept = keeping.lock().unwrap();
    assert!(kept.len() + bytes.len() <= KEPT_BYTES_MAX, "the tests send more than is kept");
    kept.extend_from_slice(bytes);
}

fn read_both(mut from: TcpStream, mut to: TcpStream, own: &Certificate, keeping: &Mutex<Vec<u8>>) {
    let name = ServerName::from(to.peer_addr().unwrap().ip());
    let mut server = ServerConnection::new(own.server()).unwrap();
    let mut client = ClientConnection::new(tls::for_hello(), name).unwrap();
    let shaken = server.complete_io(&mut from).is_ok() && client.complete_io(&mut to).is_ok();
    if !shaken {
        return;
    }
    from.set_read_timeout(Some(LOOK)).unwrap();
    to.set_read_timeout(Some(LOOK)).unwrap();
    loop {
        let moved = [server.complete_io(&mut from), client.complete_io(&mut to)];
        let handed = [
            hand_over(server.reader(), client.writer(), keeping),
            hand_over(client.reader(), server.writer(), keeping),
        ];
        if !moved.into_iter().all(goes_on) || handed.contains(&false) {
            return;
        }
    }
}

/// Passes on and keeps what there is; false after the last byte.
fn hand_over(mut from: impl Read, mut to: impl Write, keeping: &Mutex<Vec<u8>>) -> bool {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => {
                keep(keeping, &bytes[..count]);
                to.write_all(&bytes[..count]).unwrap();
            }
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// False after a failure other than that nothing came within the time of a look.
fn goes_on(moved: std::io::Result<(usize, usize)>) -> bool {
    let is_quiet = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
    moved.map_or_else(|error| is_quiet(error.kind()), |_| true)
}
