//! Refusals as pages: what a browser gets in place of a line of plain text, with a way back.

use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use maud::{DOCTYPE, html};

use super::frame::{self, OWN_POLICY, protected};

/// Bytes of a refusal's text that a page shows: those of this project have a few lines.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// True if a person looks at the answer.
pub(crate) fn wants_page(method: &Method, headers: &HeaderMap) -> bool {
    let takes_pages = |value: &header::HeaderValue| {
        value.to_str().is_ok_and(|text| text.split(',').any(|kind| kind.trim() == "text/html"))
    };
    matches!(*method, Method::GET | Method::HEAD)
        && headers.get_all(header::ACCEPT).iter().any(takes_pages)
}

/// The answer, as a page if it is a refusal in plain text.
pub(crate) async fn as_page(answer: Response, has_login: bool) -> Response {
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let is_plain = kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !is_plain || !(status.is_client_error() || status.is_server_error()) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // A text that is cut off or too long is not needed for the page.
    let text = axum::body::to_bytes(body, TEXT_BYTES_MAX).await.unwrap_or_default();
    let page =
        protected(draw(status, String::from_utf8_lossy(&text).trim(), has_login), OWN_POLICY);
    let (fresh, body) = page.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(fresh.headers);
    Response::from_parts(parts, body)
}

fn draw(status: StatusCode, text: &str, has_login: bool) -> String {
    let title = match status {
        StatusCode::NOT_FOUND => "There is no such page",
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => "This is not for everybody",
        status if status.is_server_error() => "This cannot be shown now",
        _ => "This cannot be shown",
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { (frame::head(title)) (frame::style()) }
            body {
                header { strong { "Hanno" } nav aria-label="Pages" { a href="/" { "Overview" } } }
                main #content tabindex="-1" {
                    h1 { (title) }
                    @if !text.is_empty() { div.alert.bad { (text) } }
                    p.soft { "The daemon answered " (status.as_u16()) " " (status.canonical_reason().unwrap_or_default()) "." }
                    p {
                        @match status {
                            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED if has_login => { a href="/login" { "How to sign in" } },
                            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {},
                            status if status.is_server_error() => "Load the page again in a moment.",
                            _ => "What was here may be over and forgotten, or the address has a mistake.",
                        }
                        " " a href="/" { "To the overview" }
                    }
                }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn people_get_pages_and_programs_do_not() {
        for (method, accept, expected) in [
            (Method::GET, "text/html,application/xhtml+xml,*/*;q=0.8", true),
            (Method::GET, "text/html", true),
            (Method::POST, "text/html", false),
            (Method::GET, "*/*", false),
            (Method::GET, "application/json", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(wants_page(&method, &headers), expected, "{method} {accept}");
        }
        assert!(!wants_page(&Method::GET, &HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_refusal_becomes_a_page_that_says_the_same() {
        let refused = (StatusCode::NOT_FOUND, [("x-other", "kept")], "no <job>\n").into_response();
        let page = as_page(refused, false).await;
        assert_eq!(
            (page.status(), &page.headers()["x-other"]),
            (StatusCode::NOT_FOUND, &"kept".parse().unwrap())
        );
        assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        let text = page.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("no &lt;job&gt;") && text.contains("404 Not Found"), "{text}");
        for has_login in [true, false] {
            let page = as_page((StatusCode::FORBIDDEN, "no").into_response(), has_login).await;
            let text = page.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&text).contains("/login"), has_login);
        }
        for answer in [
            (StatusCode::NOT_FOUND, axum::Json("x")).into_response(),
            (StatusCode::OK, "log").into_response(),
        ] {
            let kind = answer.headers()[header::CONTENT_TYPE].clone();
            assert_eq!(as_page(answer, true).await.headers()[header::CONTENT_TYPE], kind);
        }
    }
}
