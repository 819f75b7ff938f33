//! Tells open pages when they are out of date: server-sent events that `live.js` waits for.

use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

/// `change` whenever `look`, asked once in a `period`, tells another number than before. The end of the answer once it tells none.
pub fn changes<L, T>(period: Duration, look: L) -> Response
where
    L: FnMut() -> T + Send + 'static,
    T: Future<Output = Option<u64>> + Send + 'static,
{
    let changes = stream::unfold((look, None), move |(mut look, mut shown)| async move {
        loop {
            let seen = Some(look().await?);
            if shown.is_some() && seen != shown {
                let event = Event::default().event("change").data("");
                return Some((Ok::<_, Infallible>(event), (look, seen)));
            }
            shown = seen;
            tokio::time::sleep(period).await;
        }
    });
    Sse::new(changes).keep_alive(KeepAlive::default()).into_response()
}

/// A number that differs when `seen` does.
pub fn number_of(seen: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(seen)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_change_is_told_once_and_the_end_ends_it() {
        let mut told = [Some("a"), Some("a"), Some("b"), Some("b"), Some("a"), None].into_iter();
        let look = move || {
            let seen = told.next().flatten().map(number_of);
            async move { seen }
        };
        let answer = changes(Duration::ZERO, look);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(text.matches("event: change\n").count(), 2, "{text}");
    }
}
