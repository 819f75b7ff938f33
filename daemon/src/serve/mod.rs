//! The accept loop of every daemon: HTTP/1.1 with limits, and a clean end.
//!
//! - at most `connections_max` connections at once, and at most a part of the descriptors that the process may have; further ones wait in the listen queue;
//! - connections without any signed request end after some idle seconds, and make room for others ([`guests`]);
//! - streams of events, which have no end, are few without a signature, and whoever opens more ends their own;
//! - a request's head must arrive within `header_timeout` and fit 64 headers and 64 KiB: slow or endless heads cost little;
//! - what comes from other machines is encrypted ([`door`]);
//! - every request that reaches a route has passed [`front`](crate::front);
//! - an answer is produced no faster than its client reads it: hyper's `pipeline_flush` would read a whole body into memory;
//! - on shutdown the service accepts no connection and finishes running requests, for at most `drain_max`; streams of events, which have no end, end then.

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

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::door::{Door, Inside};
use self::guests::{Entered, Guests, Peer as Calling};
use self::line::{Line, STRANGER_IDLE_MAX};
use crate::error::ServeError;
use crate::front::{Guarded, HEAD_BYTES_MAX};
use crate::shares::PART;
use crate::shares::room::{Place, Room};
use crate::{Shutdown, rpc};

pub use self::line::Peer;

/// Headers per request. Clients send a handful.
const HEADERS_MAX: usize = 64;
/// The unit in which bodies are read; a larger head does not fit.
const READ_BUFFER_BYTES_MAX: usize = HEAD_BYTES_MAX;
/// Pause after a failed accept (out of descriptors), to keep the loop from spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Most streams of events on connections without a signed request: of open pages that nobody needs to sign for. One machine, or all programs on this one, have
/// three quarters of them.
const STRANGER_STREAMS_MAX: usize = 256;
/// Such streams are at most one in this many of all connections.
const STRANGER_STREAMS_PART: usize = 8;

/// The kind of an answer that has no end.
const EVENTS: &str = "text/event-stream";

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
}

impl Default for Limits {
    /// 10,000 connections, half of the descriptors, 75 s, 5 s: for many clients, connections that last between the commands of a session, and a quick stop.
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            descriptors_part: 2,
            header_timeout: Duration::from_secs(75),
            drain_max: Duration::from_secs(5),
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

    /// Refuses to advertise `0.0.0.0`, which each receiver would take for itself.
    ///
    /// # Errors
    /// [`ServeError::Uncallable`] names the key and the remedy.
    pub fn check(self, bind: &str) -> Result<(), ServeError> {
        let Advertise::Address { key, remedy, advertise } = self else { return Ok(()) };
        let (key, address) = advertise.map_or((key, bind), |advertise| (remedy, advertise));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_any = host.is_empty() || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        match is_any {
            true => Err(ServeError::Uncallable { key, address: address.to_owned(), remedy }),
            false => Ok(()),
        }
    }
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
    let max = limits.connections_max.min(descriptors::max() / limits.descriptors_part.max(1));
    let (slots, guests) = (Arc::new(Semaphore::new(max.max(1))), Guests::new(max, 0));
    let streams = Streams::new(STRANGER_STREAMS_MAX.min(max / STRANGER_STREAMS_PART).max(1), PART);
    let mut connections = JoinSet::new();
    let mut is_short = false;
    loop {
        if slots.available_permits() == 0 {
            guests.make_room();
        }
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
                let streams = Arc::clone(&streams);
                connections.spawn(async move {
                    let line: Arc<Line> = Arc::clone(&entered.guest);
                    let inside = tokio::select! {
                        inside = door.enter(stream, peer.ip()) => inside,
                        () = line.is_over(STRANGER_IDLE_MAX) => return,
                        () = shutdown.wait() => return,
                    };
                    match inside {
                        Ok(stream) => {
                            let serving = (routes, streams, limits);
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
    (routes, streams, limits): (Guarded, Arc<Streams>, Limits),
    shutdown: Shutdown,
) {
    let line = Arc::clone(&entered.guest);
    let (certificate, is_refused) = (stream.certificate(), stream.is_refused());
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        line.begin();
        request.extensions_mut().insert(Peer { address, certificate, line: Arc::clone(&line) });
        let request = request.map(|body| Coming { body, line: Arc::clone(&line) });
        let answering = (!is_refused).then(|| routes.answer(request));
        let (line, streams, shutdown) = (&line, &streams, &shutdown);
        async move {
            let response = match answering {
                Some(answering) => answering.await,
                None => door::upgrade_required(),
            };
            Ok::<_, Infallible>(finish(until(response, shutdown), (line, address), streams))
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

/// Streams of events on strangers' connections, by where they come from.
type Streams = Room<Calling, Arc<Line>>;

/// True for an answer without an end of its own: events for an open page or a program.
fn is_endless(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS.as_bytes()))
}

/// Ends an answer without an end at `shutdown`: it would hold up the end of the daemon.
fn until(response: Response, shutdown: &Shutdown) -> Response {
    if !is_endless(&response) {
        return response;
    }
    let shutdown = shutdown.clone();
    let end = async move { shutdown.wait().await };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(end)))
}

/// Signs an answer that needs a signature, and notes what decides whether the connection is idle.
fn finish(
    mut response: Response,
    (line, address): (&Arc<Line>, SocketAddr),
    streams: &Arc<Streams>,
) -> Response {
    if let Some(seal) = line.take_seal() {
        let header = seal.header(response.status().as_u16(), None);
        rpc::insert_seal(&mut response, &header);
    }
    let mut place = None;
    let is_endless = is_endless(&response);
    if is_endless {
        line.stream();
    }
    if is_endless && !line.is_trusted() {
        place = streams.displace(Calling::at(address.ip()), 1, Arc::clone(line)).ok();
        if place.is_none() {
            response = too_many_streams();
        }
    }
    let end = NoteEnd { line: Arc::clone(line), _place: place };
    response.map(|body| Body::new(Noted { body, end }))
}

fn too_many_streams() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open here: try again later\n")
        .into_response()
}

/// A body of an answer, whose progress and end its connection notes.
struct Noted {
    body: Body,
    end: NoteEnd,
}

struct NoteEnd {
    line: Arc<Line>,
    /// Of a stream of events to a stranger.
    _place: Option<Place<Calling, Arc<Line>>>,
}

impl Drop for NoteEnd {
    fn drop(&mut self) {
        self.line.end();
    }
}

impl hyper::body::Body for Noted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = hyper::body::Body::poll_frame(Pin::new(&mut self.body), context);
        if polled.is_ready() {
            self.end.line.stir();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        hyper::body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
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
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

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

    /// A service with one route of events, and room for so many connections.
    async fn events(connections_max: usize) -> (SocketAddr, Shutdown, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let board = crate::page::live::Board::default();
        let events = get(move || async move { board.changes() });
        let word = get(|| async { "here" });
        let hosts = crate::hosts::Hosts::new("h:1", &[], "`hosts`");
        let routes = Router::new().route("/live", events).route("/word", word);
        let (door, shutdown) = (Door::new(None, false).unwrap(), Shutdown::new());
        let limits = Limits { connections_max, drain_max: Duration::ZERO, ..Limits::default() };
        let mut server = JoinSet::new();
        server.spawn(serve(
            listener,
            door,
            crate::front::guard(routes, hosts),
            limits,
            shutdown.clone(),
        ));
        (address, shutdown, server)
    }

    /// Asks, and returns the head of the answer; nothing if the connection ends first.
    async fn ask(address: SocketAddr, path: &str) -> (tokio::net::TcpStream, String) {
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
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
    async fn streams_of_strangers_lock_nobody_out_and_displace_each_other() {
        const CONNECTIONS_MAX: usize = 64;
        let (address, _shutdown, _server) = events(CONNECTIONS_MAX).await;
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
