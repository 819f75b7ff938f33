//! Decoders that accept any bytes, for `fuzz/`: records of the journal, rows of the checkpoint, bodies of requests, lines of histories.

use axum::http::{HeaderMap, HeaderValue, header};
use journal::{Recover, Txid};
use protocol::history::HistoryEvent;
use serde_json::Value;

use crate::config::Config;
use crate::core::edit::Edit;
use crate::core::rights::AccessList;
use crate::http::xml;
use crate::store::Replay;

use pieces::piece;

#[path = "../../fuzz/pieces.rs"]
mod pieces;

/// The name of a target, and its decoder.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("jobtracker_records", jobtracker_records),
    ("jobtracker_rows", jobtracker_rows),
    ("state_bodies", state_bodies),
    ("history_events", history_events),
];

/// Records one after the other: each is a length and a body.
pub fn jobtracker_records(bytes: &[u8]) {
    if let Ok(edit) = Edit::decode(bytes) {
        let encoded = edit.encode();
        let again = Edit::decode(&encoded).expect("it was encoded");
        assert_eq!(again.encode(), encoded);
    }
    let (mut replay, mut rest) = (Replay::new(Config::default().rules()), bytes);
    for txid in 1.. {
        let Some(body) = piece(&mut rest) else { break };
        if replay.replay(Txid(txid), body).is_err() {
            break;
        }
    }
}

/// Rows one after the other: length and key, length and value.
pub fn jobtracker_rows(bytes: &[u8]) {
    let (mut replay, mut rest) = (Replay::new(Config::default().rules()), bytes);
    while let (Some(key), Some(value)) = (piece(&mut rest), piece(&mut rest)) {
        if replay.load(key, value).is_err() {
            return;
        }
    }
    let _ = replay.loaded(Txid(1));
}

/// Requested changes of a job, as JSON and as XML; the quality of each form; and lists of users.
pub fn state_bodies(bytes: &[u8]) {
    for kind in ["application/json", "application/xml"] {
        let kind = HeaderValue::from_static(kind);
        let headers: HeaderMap = [(header::CONTENT_TYPE, kind)].into_iter().collect();
        let _ = xml::wanted::<Value>(&headers, bytes);
    }
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let _ = xml::document(value);
    }
    if let Ok(accept) = HeaderValue::from_bytes(bytes) {
        let headers: HeaderMap = [(header::ACCEPT, accept)].into_iter().collect();
        let _ = xml::quality(&headers, "application/xml");
    }
    let _ = AccessList::parse(&String::from_utf8_lossy(bytes));
}

/// Lines of a history.
pub fn history_events(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let Ok(event) = serde_json::from_str::<HistoryEvent>(line) else { continue };
        let shown = serde_json::to_string(&event).expect("events are plain data");
        let again: HistoryEvent = serde_json::from_str(&shown).expect("it was just written");
        assert_eq!(serde_json::to_string(&again).ok(), Some(shown));
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
