//! The accept loop of every daemon: HTTP/1.1 with limits, and a clean end.
//!
//! - at most `connections_max` connections at once, and at most a part of the descriptors that the process may have; further ones wait in the listen queue;
//! - connections without any signed request end after some idle seconds, and make room for others ([`guests`]);
//! - streams of events are few without a signature, and what answers hold in memory has a bound (`answer`);
//! - a request's head must arrive within `header_timeout` and fit 64 headers and 64 KiB: slow or endless heads cost little;
//! - what comes from other machines is encrypted ([`door`]);
//! - every request that reaches a route has passed [`front`](crate::front);
//! - an answer is produced no faster than its client reads it: hyper's `pipeline_flush` would read a whole body into memory;
//! - on shutdown the service accepts no connection and finishes running requests, for at most `drain_max`; streams of events, which have no end, end then.

mod answer;
pub mod descriptors;
pub mod door;
pub mod guests;
pub mod line;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::answer::Answers;
use self::door::{Door, Inside};
use self::guests::{Entered, Guests, Peer as Calling};
use self::line::{Line, STRANGER_IDLE_MAX};
use crate::Shutdown;
use crate::error::ServeError;
use crate::front::{Guarded, HEAD_BYTES_MAX};

pub use self::line::Peer;

/// Headers per request. Clients send a handful.
const HEADERS_MAX: usize = 64;
/// The unit in which bodies are read; a larger head does not fit.
const READ_BUFFER_BYTES_MAX: usize = HEAD_BYTES_MAX;
/// Connections that were asked to leave and have not ended yet: they end within milliseconds.
const LEAVING_MAX: usize = 64;
/// Pause after a failed accept (out of descriptors), to keep the loop from spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Limits of a service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Connections use at most one in this many of the descriptors that the process may have; the rest is for files and other sockets.
    pub descriptors_part: usize,
    /// Time for a request's head to arrive; also how long an idle connection with signed requests stays open.
    pub header_timeout: Duration,
    /// Time that running requests get on shutdown.
    pub drain_max: Duration,
    /// Bytes of answers that were made and are not sent yet. Whoever has most of them loses the one that has been still for longest.
    pub answer_bytes_max: usize,
}

impl Default for Limits {
    /// 10,000 connections, half of the descriptors, 75 s, 5 s: for many clients, connections that last between the commands of a session, and a quick stop.
    /// 256 MiB: sixteen of the largest answers.
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            descriptors_part: 2,
            header_timeout: Duration::from_secs(75),
            drain_max: Duration::from_secs(5),
            answer_bytes_max: 256 << 20,
        }
    }
}

/// The address of a listening service that others are given.
#[derive(Clone, Copy, Debug)]
pub enum Advertise<'a> {
    /// The value of the second key, or otherwise the listening address, from the first.
    Address {
        /// The key of the listening address.
        key: &'static str,
        /// The key of the other one.
        remedy: &'static str,
        /// Its value.
        advertise: Option<&'a str>,
    },
    /// An address that clients know anyway: from their own configuration, or from their request.
    Nothing,
}

impl<'a> Advertise<'a> {
    /// For the keys `bind` and `advertise`.
    pub fn address(advertise: Option<&'a str>) -> Self {
        Advertise::Address { key: "bind", remedy: "advertise", advertise }
    }

    /// Refuses to advertise `0.0.0.0`, which each receiver would take for itself, and what is no `host:port` at all.
    ///
    /// # Errors
    /// [`ServeError::Uncallable`] names the key and the remedy.
    pub fn check(self, bind: &str) -> Result<(), ServeError> {
        let Advertise::Address { key, remedy, advertise } = self else { return Ok(()) };
        let (key, address) = advertise.map_or((key, bind), |advertise| (remedy, advertise));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_any = host.is_empty() || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        match is_any || advertise.is_some_and(|advertise| !is_callable(advertise)) {
            true => Err(ServeError::Uncallable { key, address: address.to_owned(), remedy }),
            false => Ok(()),
        }
    }
}

/// True for a name or an address with a port.
fn is_callable(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match inside {
        Some(inside) => inside.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(is_name),
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Listens on `address` (`host:port`, port 0 for any), advertised to others according to `advertise`.
///
/// # Errors
/// [`ServeError`].
pub async fn bind(address: &str, advertise: Advertise<'_>) -> Result<TcpListener, ServeError> {
    advertise.check(address)?;
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Bind { address: address.to_owned(), source })
}

/// Serves `routes` to whom `door` lets in until `shutdown`, then lets running requests finish.
pub async fn serve(
    listener: TcpListener,
    door: Door,
    routes: Guarded,
    limits: Limits,
    shutdown: Shutdown,
) {
    let max =
        limits.connections_max.min(descriptors::max() / limits.descriptors_part.max(1)).max(1);
    // Who makes room for somebody is not gone yet when that one is there.
    let slots = Arc::new(Semaphore::new(max + LEAVING_MAX));
    let (guests, answers) = (Guests::new(max, 0), Answers::new(max, limits.answer_bytes_max));
    let mut connections = JoinSet::new();
    let mut is_short = false;
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot.expect("the semaphore is never closed"),
            () = shutdown.wait() => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.wait() => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                is_short = false;
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot set nodelay");
                }
                let calling = Calling::at(peer.ip());
                let Some(entered) = guests.enter(calling, Arc::default()) else { continue };
                let (door, routes, shutdown) = (door.clone(), routes.clone(), shutdown.clone());
                let answers = answers.clone();
                connections.spawn(async move {
                    let line: Arc<Line> = Arc::clone(&entered.guest);
                    let inside = tokio::select! {
                        inside = door.enter(stream, peer.ip()) => inside,
                        () = line.is_over(STRANGER_IDLE_MAX) => return,
                        () = shutdown.wait() => return,
                    };
                    match inside {
                        Ok(stream) => {
                            let serving = (routes, answers, limits);
                            connection(stream, (peer, entered), serving, shutdown).await;
                        }
                        Err(error) => tracing::debug!(%error, "connection not accepted"),
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                if !is_short {
                    tracing::warn!(%error, "cannot accept connections");
                }
                is_short = true;
                guests.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain_max, drain).await.is_err() {
        tracing::warn!("requests still running at shutdown were cut off");
    }
}

async fn connection(
    stream: Inside,
    (address, entered): (SocketAddr, Entered<Line>),
    (routes, answers, limits): (Guarded, Answers, Limits),
    shutdown: Shutdown,
) {
    let line = Arc::clone(&entered.guest);
    let (certificate, is_refused) = (stream.certificate(), stream.is_refused());
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        line.begin();
        request.extensions_mut().insert(Peer { address, certificate, line: Arc::clone(&line) });
        let request = request.map(|body| Coming { body, line: Arc::clone(&line) });
        let answering = (!is_refused).then(|| routes.answer(request));
        let (line, answers, shutdown) = (&line, &answers, &shutdown);
        async move {
            let response = match answering {
                Some(answering) => answering.await,
                None => door::upgrade_required(),
            };
            Ok::<_, Infallible>(answers.finish(answer::until(response, shutdown), (line, address)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(HEADERS_MAX)
        .max_buf_size(READ_BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = line.is_over(STRANGER_IDLE_MAX) => return,
        () = shutdown.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// A body of a request, whose progress its connection notes.
struct Coming {
    body: Incoming,
    line: Arc<Line>,
}

impl hyper::body::Body for Coming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.line.stir();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::answer::{EVENTS, STRANGER_STREAMS_PART};
    use super::*;

    /// Size of an answer, far beyond the buffers of sockets and a connection.
    const ANSWER_BYTES: usize = 16 << 20;
    /// Bytes that its producer yields at a time.
    const CHUNK_BYTES: usize = 16 << 10;
    /// Buffer size requested for each end's socket; the system doubles it.
    const SOCKET_BYTES: u32 = 64 << 10;
    /// Most bytes produced but not read: both sockets, the connection's own buffer, and a chunk in transit.
    const AHEAD_BYTES_MAX: usize = 1 << 20;

    /// Yields bytes as fast as they are taken, and counts them.
    struct Eager {
        produced: Arc<AtomicUsize>,
        chunk: Bytes,
    }

    impl hyper::body::Body for Eager {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let before = self.produced.fetch_add(self.chunk.len(), Ordering::Relaxed);
            let chunk = (before < ANSWER_BYTES).then(|| Ok(Frame::data(self.chunk.clone())));
            Poll::Ready(chunk)
        }
    }

    #[test]
    fn others_are_told_an_address_that_they_can_call() {
        for (bind, advertise, wrong) in [
            ("127.0.0.1:0", None, None),
            ("nn.local:9870", None, None),
            ("0.0.0.0:9870", Some("nn.local:9870"), None),
            ("[::]:9870", Some("10.0.0.1:9870"), None),
            ("0.0.0.0:9870", None, Some("bind = \"0.0.0.0:9870\"")),
            ("[::]:9870", None, Some("bind = \"[::]:9870\"")),
            (":9870", None, Some("bind = \":9870\"")),
            ("10.0.0.1:9870", Some("0.0.0.0:9870"), Some("advertise = \"0.0.0.0:9870\"")),
            ("127.0.0.1:0", Some("[fd00::1]:9870"), None),
            ("127.0.0.1:0", Some("a-b.c_d:1"), None),
            ("127.0.0.1:0", Some("foo"), Some("advertise = \"foo\"")),
            ("127.0.0.1:0", Some("x:99999"), Some("advertise = \"x:99999\"")),
            ("127.0.0.1:0", Some("x:0"), Some("advertise = \"x:0\"")),
            ("127.0.0.1:0", Some("a b:1"), Some("advertise = \"a b:1\"")),
            ("127.0.0.1:0", Some("http://x:1"), Some("advertise = \"http://x:1\"")),
            ("127.0.0.1:0", Some(""), Some("advertise = \"\"")),
        ] {
            let checked =
                Advertise::address(advertise).check(bind).map_err(|error| error.to_string());
            match wrong {
                None => assert_eq!(checked, Ok(()), "{bind} {advertise:?}"),
                Some(part) => {
                    let text = checked.unwrap_err();
                    assert!(text.contains(part) && text.contains("`advertise = "), "{text}");
                }
            }
        }
        assert!(Advertise::Nothing.check("0.0.0.0:1").is_ok());
    }

    #[tokio::test]
    async fn an_answer_is_produced_no_faster_than_it_is_read() {
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(SOCKET_BYTES).unwrap();
        socket.bind(loopback).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let (produced, chunk) = (Arc::<AtomicUsize>::default(), Bytes::from(vec![7; CHUNK_BYTES]));
        let counted = Arc::clone(&produced);
        let eager = move || async move { Body::new(Eager { produced: counted, chunk }) };
        let shutdown = Shutdown::new();
        let hosts = crate::hosts::Hosts::new("h:1", &[], "`hosts`");
        let router = crate::front::guard(Router::new().route("/", get(eager)), hosts);
        let door = Door::new(None, false).unwrap();
        let serving = serve(listener, door, router, Limits::default(), shutdown.clone());
        let server = tokio::spawn(serving);

        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(SOCKET_BYTES).unwrap();
        let mut client = socket.connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await.unwrap();
        let (mut read, mut buffer) = (0, vec![0; CHUNK_BYTES]);
        loop {
            client.readable().await.unwrap();
            let ahead = produced.load(Ordering::Relaxed).saturating_sub(read);
            assert!(ahead <= AHEAD_BYTES_MAX, "{ahead} bytes were produced for nobody");
            match client.read(&mut buffer).await.unwrap() {
                0 => break,
                count => read += count,
            }
        }
        assert!(read > ANSWER_BYTES, "only {read} bytes came");
        shutdown.begin();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn streams_of_events_do_not_hold_up_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let board = crate::page::live::Board::default();
        let events = get(move || async move { board.changes() });
        let hosts = crate::hosts::Hosts::new("h:1", &[], "`hosts`");
        let router = crate::front::guard(Router::new().route("/live", events), hosts);
        let (door, shutdown) = (Door::new(None, false).unwrap(), Shutdown::new());
        let limits = Limits { drain_max: Duration::from_secs(3600), ..Limits::default() };
        let server = tokio::spawn(serve(listener, door, router, limits, shutdown.clone()));

        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /live HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        assert!(String::from_utf8(head).unwrap().contains(EVENTS));
        shutdown.begin();
        tokio::time::timeout(Duration::from_secs(60), server).await.unwrap().unwrap();
    }

    /// A service with a route of events, one of a word, and large answers: one that was made before it is sent, and one in two pieces.
    async fn service(limits: Limits) -> (SocketAddr, Shutdown, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let board = crate::page::live::Board::default();
        let large = Bytes::from(vec![7; ANSWER_BYTES]);
        let piece = large.clone();
        let routes = Router::new()
            .route("/live", get(move || async move { board.changes() }))
            .route("/word", get(|| async { "here" }))
            .route("/large", get(move || async move { large }))
            .route(
                "/pieces",
                get(move || async move {
                    let pieces = [piece.clone(), piece].map(Ok::<_, Infallible>);
                    Body::from_stream(futures_util::stream::iter(pieces))
                }),
            )
            .route("/known", get(known));
        let hosts = crate::hosts::Hosts::new("h:1", &[], "`hosts`");
        let routes = crate::front::guard(routes, hosts);
        let (door, shutdown) = (Door::new(None, false).unwrap(), Shutdown::new());
        let limits = Limits { drain_max: Duration::ZERO, ..limits };
        let mut server = JoinSet::new();
        server.spawn(serve(listener, door, routes, limits, shutdown.clone()));
        (address, shutdown, server)
    }

    /// Its sender proves who it is.
    async fn known(axum::Extension(peer): axum::Extension<Peer>) {
        peer.line.trust("ann");
    }

    /// Asks, and returns the head of the answer; nothing if the connection ends first.
    async fn ask(address: SocketAddr, path: &str) -> (tokio::net::TcpStream, String) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(SOCKET_BYTES).unwrap();
        let mut client = socket.connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n");
        let _ = client.write_all(request.as_bytes()).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = client.read_u8().await else { return (client, String::new()) };
            head.push(byte);
        }
        (client, String::from_utf8(head).unwrap())
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_displace_their_own() {
        for path in ["/large", "/pieces"] {
            let limits = Limits { answer_bytes_max: 4 * ANSWER_BYTES, ..Limits::default() };
            let (address, _shutdown, _server) = service(limits).await;
            let mut held = Vec::new();
            for _ in 0..8 {
                let (client, head) = ask(address, path).await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                held.push(client);
            }
            let mut whole = Vec::new();
            for client in &mut held {
                let mut body = vec![0; ANSWER_BYTES];
                whole.push(client.read_exact(&mut body).await.is_ok());
            }
            // Three quarters are for one that is alone.
            assert_eq!(whole, [[false; 5].as_slice(), &[true; 3]].concat(), "{path}");
        }
    }

    #[tokio::test]
    async fn known_connections_that_wait_make_room_for_newcomers() {
        const CONNECTIONS_MAX: usize = 16;
        let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
        let (address, _shutdown, _server) = service(limits).await;
        let mut held = Vec::new();
        for number in 0..4 * CONNECTIONS_MAX {
            let (client, head) = ask(address, "/known").await;
            assert!(head.starts_with("HTTP/1.1 200"), "{number}: {head}");
            held.push(client);
        }
        let (_, head) = ask(address, "/word").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }

    #[tokio::test]
    async fn streams_of_strangers_lock_nobody_out_and_displace_each_other() {
        const CONNECTIONS_MAX: usize = 64;
        let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
        let (address, _shutdown, _server) = service(limits).await;
        let mut held = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            let (client, head) = ask(address, "/live").await;
            assert!(head.starts_with("HTTP/1.1 200") && head.contains(EVENTS), "{head}");
            held.push(client);
            let (_, head) = ask(address, "/word").await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        }
        // Three quarters of an eighth are left to those from here.
        let few = CONNECTIONS_MAX / STRANGER_STREAMS_PART / 4 * 3;
        let (ended, open) = held.split_at_mut(3 * CONNECTIONS_MAX - few);
        for client in ended {
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
        let soon = Duration::from_millis(1);
        for client in open {
            let mut rest = Vec::new();
            let read = client.read_to_end(&mut rest);
            assert!(tokio::time::timeout(soon, read).await.is_err(), "an open page was ended");
        }
    }
}
