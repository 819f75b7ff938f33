//! Answers on their way out: what they hold in memory, and what tells that they move.
//!
//! - An answer that was made as a whole counts until it is sent, in pieces, as fast as its client reads. One that is made while it is sent counts with its
//!   largest piece. Whoever has most of what is there loses the answer that has been still for longest, with its connection: clients that ask for much and
//!   read nothing displace their own.
//! - Streams of events, which have no end, are few on strangers' connections, and whoever opens more ends their own.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::{Body as _, Frame, SizeHint};

use super::guests::{Guest, Peer as Calling};
use super::line::Line;
use crate::shares::PART;
use crate::shares::room::{Place, Room};
use crate::{Shutdown, rpc};

/// Answers up to this size are not counted: ten thousand of them are a fraction of the rest.
const COUNTED_BYTES_MIN: usize = 8 << 10;
/// How much of an answer is handed on at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Most streams of events on connections without a signed request: of open pages that nobody needs to sign for. One machine, or all programs on this one, have
/// three quarters of them.
const STRANGER_STREAMS_MAX: usize = 256;
/// Such streams are at most one in this many of all connections.
pub(super) const STRANGER_STREAMS_PART: usize = 8;

/// The kind of an answer that has no end.
pub(super) const EVENTS: &str = "text/event-stream";

/// For whom an answer is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Asker {
    /// The owner of the connection.
    Known(u64),
    Stranger(Calling),
}

/// What answers of a service take. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// Streams of events on strangers' connections, by where they come from.
    streams: Arc<Room<Calling, Arc<Line>>>,
    /// Bytes that were made and are not sent.
    whole: Arc<Room<Asker, Arc<Line>>>,
}

impl Answers {
    /// For a service with `connections_max`, whose whole answers have `bytes_max` in all.
    pub(super) fn new(connections_max: usize, bytes_max: usize) -> Self {
        let streams = STRANGER_STREAMS_MAX.min(connections_max / STRANGER_STREAMS_PART).max(1);
        Answers { streams: Room::new(streams, PART), whole: Room::new(bytes_max, PART) }
    }

    /// Signs an answer that needs a signature, counts it, and notes what decides whether the connection is idle.
    pub(super) fn finish(
        &self,
        mut response: Response,
        (line, address): (&Arc<Line>, SocketAddr),
    ) -> Response {
        if let Some(seal) = line.take_seal() {
            let header = seal.header(response.status().as_u16(), None);
            rpc::insert_seal(&mut response, &header);
        }
        let calling = Calling::at(address.ip());
        let asker = line.owner().map_or(Asker::Stranger(calling), |it| Asker::Known(*it));
        let mut count = Count { room: Arc::clone(&self.whole), asker, bytes: 0, place: None };
        let mut stream = None;
        if is_endless(&response) {
            line.stream();
            if !line.is_trusted() {
                stream = self.streams.displace(calling, 1, Arc::clone(line)).ok();
                if stream.is_none() {
                    response = refused("too many pages are open here: try again later\n");
                }
            }
        }
        if let Some(bytes) = response.body().size_hint().exact() {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            if !count.grow_to(bytes, line) {
                response = refused("too many answers wait to be read: try again later\n");
            }
        }
        let end = NoteEnd { line: Arc::clone(line), _stream: stream };
        response.map(|body| Body::new(Noted { body, rest: Bytes::new(), count, end }))
    }
}

fn refused(text: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// True for an answer without an end of its own: events for an open page or a program.
fn is_endless(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS.as_bytes()))
}

/// Ends an answer without an end at `shutdown`: it would hold up the end of the daemon.
pub(super) fn until(response: Response, shutdown: &Shutdown) -> Response {
    if !is_endless(&response) {
        return response;
    }
    let shutdown = shutdown.clone();
    let end = async move { shutdown.wait().await };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(end)))
}

/// A body of an answer, whose progress and end its connection notes.
struct Noted {
    body: Body,
    /// Of the last frame, what is not handed on yet.
    rest: Bytes,
    count: Count,
    end: NoteEnd,
}

/// What an answer counts.
struct Count {
    room: Arc<Room<Asker, Arc<Line>>>,
    asker: Asker,
    bytes: usize,
    /// From its first piece on that is counted.
    place: Option<Place<Asker, Arc<Line>>>,
}

impl Count {
    /// It holds so many bytes now; false if they do not fit beside what others hold.
    fn grow_to(&mut self, bytes: usize, line: &Arc<Line>) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 || bytes < COUNTED_BYTES_MIN {
            return true;
        }
        if self.place.as_ref().is_none_or(|place| place.grow(more).is_err()) {
            // Others of the same asker give way to this one.
            self.place = None;
            self.place = self.room.displace(self.asker.clone(), bytes, Arc::clone(line)).ok();
        }
        self.bytes = bytes;
        self.place.is_some()
    }
}

struct NoteEnd {
    line: Arc<Line>,
    /// Of a stream of events to a stranger.
    _stream: Option<Place<Calling, Arc<Line>>>,
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
        if self.rest.is_empty() {
            let polled = ready!(Pin::new(&mut self.body).poll_frame(context));
            match polled.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => {
                    let Noted { count, end, .. } = &mut *self;
                    if !count.grow_to(data.len(), &end.line) {
                        let full = io::Error::from(io::ErrorKind::QuotaExceeded);
                        return Poll::Ready(Some(Err(axum::Error::new(full))));
                    }
                    self.rest = data;
                }
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        self.end.line.stir();
        if let Some(place) = &self.count.place {
            place.stir();
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(rest));
        }
        whole
    }
}
