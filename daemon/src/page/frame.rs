//! The frame of every page, as text and as an answer with its protective headers; buttons and bars in it.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use protocol::printable::printable;

use super::embedded::{SCRIPTS, STYLE};
use super::format;

/// A daemon's set of pages.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Shown at the top of each page, e.g. `Hanno JobTracker`.
    pub name: &'static str,
    /// Path and name of each entry of the navigation.
    pub entries: &'static [(&'static str, &'static str)],
    /// The search at the top of each page.
    pub search: Option<Search>,
    /// Whether users can sign in.
    pub has_login: bool,
}

/// A field that leads to a page of results.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Path of that page.
    pub path: &'static str,
    /// Its parameter.
    pub parameter: &'static str,
    /// What it can find.
    pub hint: &'static str,
}

/// One page of a site.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// The site.
    pub site: Site,
    /// Title of the window.
    pub title: &'a str,
    /// Path of its entry in the navigation.
    pub place: &'a str,
    /// Path of the event stream that says when the page is out of date.
    pub live: Option<String>,
    /// Another daemon's pages: address and name.
    pub other: Option<(&'a str, &'a str)>,
    /// Who is signed in; `None`: the page is read-only.
    pub user: Option<&'a str>,
}

impl Frame<'_> {
    /// The whole page as text.
    pub fn draw(&self, content: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (head(self.title))
                    (style())
                    @for path in SCRIPTS { script src=(path) defer {} }
                }
                body data-live=[self.live.as_deref()] {
                    a.skip href="#content" { "Skip to the content" }
                    header {
                        strong { (self.site.name) }
                        nav aria-label="Pages" {
                            @for (path, name) in self.site.entries {
                                a href=(path) aria-current=[(*path == self.place).then_some("page")] { (name) }
                            }
                            @if let Some((address, name)) = self.other { a.other href=(address) { (name) " ↗" } }
                        }
                        div.right {
                            @if let Some(search) = self.site.search {
                                form action=(search.path) method="get" role="search" {
                                    input type="search" name=(search.parameter) placeholder=(search.hint) aria-label=(search.hint) title="Press / to come here";
                                }
                            }
                            @match self.user {
                                Some(user) => {
                                    span.who { (user) }
                                    (action("POST", "/logout", "Sign out", &Action { then: Some("/"), ..Action::default() }))
                                }
                                None if self.site.has_login => a.who href="/login" title="How to sign in" { "read-only" },
                                None => span.who { "read-only" },
                            }
                        }
                    }
                    p #connection.lost role="status" hidden {}
                    main #content tabindex="-1" { (content) }
                }
            }
        };
        page.into_string()
    }

    /// The whole page as an answer with its protective headers.
    pub fn answer(&self, content: &Markup) -> Response {
        protected(self.draw(content), OWN_POLICY)
    }
}

/// What the head of every page begins with.
pub(super) fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        title { (title) " · Hanno" }
    }
}

/// The links to the daemon's style sheet and icon.
pub(super) fn style() -> Markup {
    html! {
        link rel="stylesheet" href="/style.css";
        link rel="icon" href="/icon.svg";
    }
}

/// What a page with the daemon's own style and scripts may load.
pub(super) const OWN_POLICY: &str = "default-src 'self'; object-src 'none'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'";

/// A page as an answer with its protective headers. A name in it that turns the direction of writing would show another name, and reverse what follows it: such
/// characters are escaped. Addresses have them encoded.
pub(super) fn protected(page: String, policy: &'static str) -> Response {
    let escaped = match printable(&page) {
        Cow::Owned(escaped) => Some(escaped),
        Cow::Borrowed(_) => None,
    };
    let mut response = Response::new(Body::from(escaped.unwrap_or(page)));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A page as a self-contained file, with its protective headers. Links to other pages would lead nowhere in it, so only their text is drawn.
pub fn alone(title: &str, content: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(title))
                style { (PreEscaped(STYLE)) "main a { color: inherit; text-decoration: none; pointer-events: none; }" }
            }
            body { main { (content) } }
        }
    };
    protected(page.into_string(), "default-src 'none'; style-src 'unsafe-inline'")
}

/// How a button works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Action<'a> {
    /// A question before the action; `None`: no question.
    pub confirm: Option<&'a str>,
    /// JSON sent with the request.
    pub body: Option<&'a str>,
    /// Where to go after; `None`: the page is drawn again.
    pub then: Option<&'a str>,
    /// True if it destroys something.
    pub danger: bool,
}

/// A button that sends a request. It needs the script and a signed-in user.
pub fn action(method: &str, url: &str, text: &str, action: &Action<'_>) -> Markup {
    html! {
        button.scripted.danger[action.danger] type="button" data-method=(method) data-url=(url) data-confirm=[action.confirm]
            data-body=[action.body] data-then=[action.then] { (text) }
    }
}

/// A share as a bar and as text.
pub fn bar(share: f32) -> Markup {
    let percent = format::percent(share);
    html! { progress max="1" value=(share) { (percent) } " " (percent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_addresses_are_escaped() {
        let hostile = "\"><img src=x onerror=alert(1)>";
        let site =
            Site { name: "Hanno", entries: &[("/", "Overview")], search: None, has_login: true };
        let frame = Frame {
            site,
            title: hostile,
            place: "/",
            live: Some(hostile.to_owned()),
            other: Some((hostile, hostile)),
            user: Some(hostile),
        };
        let page = frame.draw(&html! { p { (hostile) } });
        assert!(!page.contains("<img") && page.matches("&lt;img").count() == 6, "{page}");
        assert!(page.contains("aria-current=\"page\""), "{page}");
    }
}
