//! Notifies open pages when they are out of date: server-sent events that `live.js` waits for.
//!
//! Invariant: state is read once for all open pages, and never while none is open; an open page gets beats alone while nothing changes.

use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

/// Header in which a page that is drawn again names the change it was notified of: a cached copy of the content that is as new will do.
const SEEN_HEADER: &str = "x-hanno-change";
/// The text sent to a page that must be drawn as of now. Browsers drop an event that has no data at all.
pub const AS_OF_NOW: &str = "now";

/// Time between two beats: `live.js` takes more than two of them without any for a daemon that is away.
const BEAT: Duration = Duration::from_secs(5);

/// The beats of a stream that a page listens to. The comments by which streams are usually kept alive are not seen by scripts.
pub fn beat() -> KeepAlive {
    KeepAlive::new().interval(BEAT).event(Event::default().event("beat").data(AS_OF_NOW))
}

/// The content that several open pages display, as a number that grows whenever the content changes. Clones are one board.
#[derive(Clone, Debug)]
pub struct Board {
    seen: Arc<watch::Sender<Seen>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Number of changes so far.
    number: u64,
    /// The fingerprint at that change.
    fingerprint: u64,
}

impl Default for Board {
    fn default() -> Self {
        Board { seen: Arc::new(watch::Sender::new(Seen::default())) }
    }
}

impl Board {
    /// True while a page is open.
    pub fn is_watched(&self) -> bool {
        self.seen.receiver_count() > 0
    }

    /// Notifies the watching pages if `fingerprint` ([`fingerprint_of`] the content that they display) differs from the last one.
    pub fn publish(&self, fingerprint: u64) {
        self.seen.send_if_modified(|seen| {
            let is_new = seen.fingerprint != fingerprint;
            *seen = Seen { number: seen.number + u64::from(is_new), fingerprint };
            is_new
        });
    }

    /// Notifies the watching pages, whatever it is that has changed.
    pub fn touch(&self) {
        self.seen.send_if_modified(|seen| {
            seen.number += 1;
            true
        });
    }

    /// Number of changes so far.
    pub fn number(&self) -> u64 {
        self.seen.borrow().number
    }

    /// Sends `change`, with its number, at every change from now on. The answer ends when the board is gone.
    pub fn changes(&self) -> Response {
        self.changes_beside(&Board::default())
    }

    /// The same for a page that displays what is on `other`, too. The number is this board's: what is cached of its content is still as new.
    pub fn changes_beside(&self, other: &Board) -> Response {
        let (other, seen) = (other.clone(), self.seen.subscribe());
        let both = (seen, other.seen.subscribe(), other);
        let changes = stream::unfold(both, |(mut seen, mut beside, other)| async move {
            tokio::select! {
                changed = seen.changed() => changed.ok()?,
                changed = beside.changed() => changed.ok()?,
            }
            beside.mark_unchanged();
            let number = seen.borrow_and_update().number;
            let event = Event::default().event("change").data(number.to_string());
            Some((Ok::<_, Infallible>(event), (seen, beside, other)))
        });
        Sse::new(changes).keep_alive(beat()).into_response()
    }
}

/// The change because of which a page is drawn again.
pub fn seen(headers: &HeaderMap) -> Option<u64> {
    headers.get(SEEN_HEADER)?.to_str().ok()?.parse().ok()
}

/// A number that differs when `seen` does.
pub fn fingerprint_of(seen: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(seen)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_change_is_told_once_to_each_and_the_end_ends_it() {
        let board = Board::default();
        board.publish(fingerprint_of("before"));
        assert!(!board.is_watched());
        let answers = [board.changes(), board.changes()];
        assert!(board.is_watched());
        for content in ["before", "before"] {
            board.publish(fingerprint_of(content));
        }
        let mut bodies = answers.map(|answer| {
            assert_eq!(answer.headers()["content-type"], "text/event-stream");
            answer.into_body()
        });
        for (content, number) in [("after", 2), ("again", 3), ("after", 4)] {
            board.publish(fingerprint_of(content));
            board.publish(fingerprint_of(content));
            assert_eq!(board.number(), number);
            for body in &mut bodies {
                let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
                assert_eq!(frame, format!("event: change\ndata: {number}\n\n"));
            }
        }
        drop(board);
        for body in bodies {
            assert!(body.collect().await.unwrap().to_bytes().is_empty());
        }
    }

    #[test]
    fn a_page_names_the_change_it_was_told_of() {
        for (text, number) in [("7", Some(7)), ("", None), ("-1", None), (AS_OF_NOW, None)] {
            let headers = HeaderMap::from_iter([(
                axum::http::HeaderName::from_static(SEEN_HEADER),
                text.parse().unwrap(),
            )]);
            assert_eq!(seen(&headers), number, "{text}");
        }
        assert_eq!(seen(&HeaderMap::new()), None);
    }
}
