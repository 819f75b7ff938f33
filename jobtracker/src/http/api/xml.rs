//! Hadoop's APIs in XML, for requests with `Accept: application/xml`: converts a route's JSON, with Hadoop's names of elements.
//!
//! ```text
//! {"tasks": {"task": [{"id": "a"}, {"id": "b"}]}}
//! <tasks><task><id>a</id></task><task><id>b</id></task></tasks>
//! ```
//!
//! Invariants: routes answer in JSON, but for lists that have no bound ([`list`]), which are written one after the other in the form that is wanted; both
//! forms have the same content. Nothing is converted on a thread of the runtime.

use std::io::{self, Write};

use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;

use super::stream;

/// Largest answer to convert, bytes: several times the largest description of a job, which has its properties.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const JSON: &str = "application/json";
const XML: &str = "application/xml";
/// The beginning of Hadoop's XML files.
const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
/// Elements of this name have their kind in an attribute.
const ATTEMPT: &str = "taskAttempt";
const SCHEMA_INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// The element around a lone state, which JSON has no name for.
const STATE_ROOT: &str = "jobTaskAttemptState";
/// XML has no way to write most control characters.
const REPLACEMENT: char = '\u{fffd}';

/// Has the routes answer in the requested form.
pub(super) async fn negotiate(request: Request, next: Next) -> Response {
    let [json, xml] = [JSON, XML].map(|form| quality(request.headers(), form));
    if json <= 0.0 && xml <= 0.0 {
        let text = format!("This can be had as {JSON} and as {XML}.\n");
        return (StatusCode::NOT_ACCEPTABLE, text).into_response();
    }
    let answer = next.run(request).await;
    let is_json = answer
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == JSON.as_bytes());
    if json >= xml || !is_json {
        return answer;
    }
    match turned(answer).await {
        Some(answer) => answer,
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn turned(answer: Response) -> Option<Response> {
    let (mut head, content) = answer.into_parts();
    let bytes = body::to_bytes(content, ANSWER_BYTES_MAX).await.ok()?;
    let convert = move || document(serde_json::from_slice(&bytes).ok()?);
    let xml = tokio::task::spawn_blocking(convert).await.ok()??;
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(XML));
    head.headers.remove(header::CONTENT_LENGTH);
    Some(Response::from_parts(head, Body::from(xml)))
}

/// An answer of many objects within two names, in the form that the header prefers. Each is made when the one before it was written.
pub(super) fn list(
    headers: &HeaderMap,
    names: [&'static str; 2],
    objects: impl Iterator<Item = Value> + Send + 'static,
) -> Response {
    let is_xml = quality(headers, XML) > quality(headers, JSON);
    let kind = if is_xml { XML } else { JSON };
    let content = stream::body(move |out| match is_xml {
        true => write_xml(names, objects, out),
        false => write_json(names, objects, out),
    });
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

fn write_json(
    [outer, inner]: [&str; 2],
    objects: impl Iterator<Item = Value>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, r#"{{"{outer}":{{"{inner}":["#)?;
    for (place, object) in objects.enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &object)?;
    }
    out.write_all(b"]}}")
}

fn write_xml(
    [outer, inner]: [&str; 2],
    objects: impl Iterator<Item = Value>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut objects = objects.peekable();
    if objects.peek().is_none() {
        return write!(out, "{DECLARATION}<{outer}/>");
    }
    write!(out, "{DECLARATION}<{outer}>")?;
    for mut object in objects {
        prepare(inner, &mut object);
        let element = quick_xml::se::to_string_with_root(inner, &object);
        out.write_all(element.map_err(io::Error::other)?.as_bytes())?;
    }
    write!(out, "</{outer}>")
}

/// The quality of a form, 0 to 1: from the range of the `Accept` header that matches it most closely.
pub(crate) fn quality(headers: &HeaderMap, form: &str) -> f32 {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(',')).peekable();
    if ranges.peek().is_none() {
        return 1.0;
    }
    let closeness = |range: &str| match range {
        "*/*" => Some(0),
        "application/*" => Some(1),
        range if range.eq_ignore_ascii_case(form) => Some(2),
        _ => None,
    };
    let fitting = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let closeness = closeness(parts.next()?)?;
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        Some((closeness, quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0))))
    });
    fitting.max_by_key(|(closeness, _)| *closeness).map_or(0.0, |(_, quality)| quality)
}

/// An answer as a document; `None` if it is not one object.
pub(crate) fn document(answer: Value) -> Option<String> {
    let Value::Object(entries) = &answer else { return None };
    let (root, mut content) = match entries.iter().next() {
        Some((name, content @ Value::Object(_))) if entries.len() == 1 => {
            (name.as_str(), content.clone())
        }
        _ => (STATE_ROOT, answer.clone()),
    };
    prepare(root, &mut content);
    let document = quick_xml::se::to_string_with_root(root, &content).ok()?;
    Some(format!("{DECLARATION}{document}"))
}

/// Converts a value to one that can be written as an element of this name.
fn prepare(name: &str, value: &mut Value) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries.iter_mut() {
                prepare(name, value);
            }
            if name == ATTEMPT {
                let is_reduce = entries.get("type").is_some_and(|kind| kind == "REDUCE");
                let kind = if is_reduce { "reduceTaskAttemptInfo" } else { "mapTaskAttemptInfo" };
                entries.insert("@xmlns:xsi".to_owned(), SCHEMA_INSTANCE.into());
                entries.insert("@xsi:type".to_owned(), kind.into());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| prepare(name, value)),
        Value::String(text) if !text.chars().all(is_writable) => {
            *text = text.chars().map(|c| if is_writable(c) { c } else { REPLACEMENT }).collect();
        }
        _ => {}
    }
}

/// True for the characters of XML 1.0.
fn is_writable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..)
}

/// A requested state, in the form that the header names.
pub(crate) fn wanted<T: for<'a> Deserialize<'a>>(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<T, String> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with(XML)) {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        return quick_xml::de::from_str(text).map_err(|error| error.to_string());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::routing::get;
    use axum::{Json, Router};
    use futures_util::StreamExt;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;

    fn accepting(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, text.parse().unwrap())])
    }

    #[test]
    fn the_closest_range_decides() {
        let cases = [
            ("application/xml", (0.0, 1.0)),
            ("application/json", (1.0, 0.0)),
            ("*/*", (1.0, 1.0)),
            ("application/*;q=0.5, application/xml;q=0.7", (0.5, 0.7)),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", (0.8, 0.9)),
            ("application/xml;q=0, */*", (1.0, 0.0)),
            ("text/plain", (0.0, 0.0)),
            ("application/xml; charset=utf-8 ; q=0.3", (0.0, 0.3)),
            ("application/xml;q=nonsense", (0.0, 0.0)),
        ];
        for (text, (json, xml)) in cases {
            let headers = accepting(text);
            assert_eq!([JSON, XML].map(|form| quality(&headers, form)), [json, xml], "{text}");
        }
        assert_eq!(quality(&HeaderMap::new(), JSON), 1.0);
    }

    #[test]
    fn elements_have_hadoops_names() {
        let tasks = json!({ "tasks": { "task": [{ "id": "a", "progress": 100.0 }, { "id": "b", "progress": 0 }] } });
        assert_eq!(
            document(tasks).unwrap(),
            format!(
                "{DECLARATION}<tasks><task><id>a</id><progress>100</progress></task><task><id>b</id><progress>0</progress></task></tasks>"
            )
        );
        let conf = json!({ "conf": { "path": "", "property": [{ "name": "n", "source": ["job", "user"] }] } });
        assert_eq!(
            document(conf).unwrap(),
            format!(
                "{DECLARATION}<conf><path/><property><name>n</name><source>job</source><source>user</source></property></conf>"
            )
        );
        assert_eq!(
            document(json!({ "jobs": { "job": [] } })).unwrap(),
            format!("{DECLARATION}<jobs/>")
        );
        assert_eq!(
            document(json!({ "state": "KILLED" })).unwrap(),
            format!(
                "{DECLARATION}<jobTaskAttemptState><state>KILLED</state></jobTaskAttemptState>"
            )
        );
        let attempt = json!({ "taskAttempt": { "id": "x", "type": "REDUCE" } });
        assert_eq!(
            document(attempt).unwrap(),
            format!(
                r#"{DECLARATION}<taskAttempt xmlns:xsi="{SCHEMA_INSTANCE}" xsi:type="reduceTaskAttemptInfo"><id>x</id><type>REDUCE</type></taskAttempt>"#
            )
        );
        assert_eq!(document(json!([1])), None);
    }

    #[tokio::test]
    async fn a_list_is_written_as_the_whole_would_be() {
        let object = |n: u32| json!({ "id": n.to_string(), "state": "<\u{1}>" });
        for count in [0, 1, 2, 5_000] {
            let whole = json!({ "tasks": { "task": Vec::from_iter((0..count).map(object)) } });
            let forms = [(JSON, whole.to_string()), (XML, document(whole).unwrap())].into_iter();
            for (form, wanted) in forms {
                let answer = list(&accepting(form), ["tasks", "task"], (0..count).map(object));
                assert_eq!(answer.headers()[header::CONTENT_TYPE], form);
                let written = body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
                assert_eq!(String::from_utf8_lossy(&written), wanted);
            }
        }
    }

    /// A reader that takes nothing has a bounded number of objects made for it, whatever the length of the list.
    #[tokio::test]
    async fn a_list_is_made_as_it_is_read() {
        let (made, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(()));
        let (count, alive) = (Arc::clone(&made), Arc::clone(&ended));
        let objects = (0..1_000_000).map(move |n: u32| {
            let _ = &alive;
            count.fetch_add(1, Ordering::Relaxed);
            json!({ "id": format!("{n:01000}") })
        });
        let answer = list(&accepting(JSON), ["tasks", "task"], objects);
        let mut content = answer.into_body().into_data_stream();
        content.next().await.unwrap().unwrap();
        drop(content);
        while Arc::strong_count(&ended) > 1 {
            tokio::task::yield_now().await;
        }
        assert!(made.load(Ordering::Relaxed) < 2_000);
    }

    #[test]
    fn texts_stay_texts() {
        let name = "\"><img src=x onerror=alert(1)>&amp;\u{0}\u{1b}[31m\u{ffff}]]>\n\u{1f600}";
        let text = document(json!({ "job": { "name": name } })).unwrap();
        assert!(!text.contains("<img") && text.contains("&lt;img"), "{text}");
        #[derive(Deserialize)]
        struct Job {
            name: String,
        }
        let read: Job = quick_xml::de::from_str(&text).unwrap();
        let shown =
            "\"><img src=x onerror=alert(1)>&amp;\u{fffd}\u{fffd}[31m\u{fffd}]]>\n\u{1f600}";
        assert_eq!(read.name, shown);
    }

    #[test]
    fn a_wanted_state_is_read_in_both_forms() {
        #[derive(Deserialize, PartialEq, Debug)]
        struct State {
            state: String,
        }
        let killed = Ok(State { state: "KILLED".to_owned() });
        let xml =
            HeaderMap::from_iter([(header::CONTENT_TYPE, "application/xml".parse().unwrap())]);
        let text = format!(
            "{DECLARATION}<jobTaskAttemptState><state>KILLED</state></jobTaskAttemptState>"
        );
        assert_eq!(wanted(&xml, text.as_bytes()), killed);
        assert_eq!(wanted(&HeaderMap::new(), br#"{"state":"KILLED"}"#), killed);
        for bad in ["", "<", "<a><b>", "<a><other>KILLED</other></a>", "\u{0}"] {
            assert!(wanted::<State>(&xml, bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(wanted::<State>(&xml, b"\xff").is_err());
    }

    #[tokio::test]
    async fn refusals_are_turned_too_and_other_forms_are_refused() {
        let refusal = || async {
            (StatusCode::NOT_FOUND, Json(json!({ "RemoteException": { "message": "gone" } })))
        };
        let routes =
            Router::new().route("/", get(refusal)).layer(axum::middleware::from_fn(negotiate));
        for (accept, status, text) in [
            ("application/xml", 404, "<RemoteException><message>gone</message></RemoteException>"),
            ("application/json", 404, r#"{"RemoteException":{"message":"gone"}}"#),
            ("text/csv", 406, "application/xml"),
        ] {
            let request = Request::get("/").header("accept", accept).body(Body::empty()).unwrap();
            let answer = routes.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), status, "{accept}");
            let body = body::to_bytes(answer.into_body(), 1 << 10).await.unwrap();
            let body = String::from_utf8_lossy(&body).into_owned();
            assert!(body.contains(text), "{accept}: {body}");
        }
    }
}
