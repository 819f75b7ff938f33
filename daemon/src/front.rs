//! Checks every request before its route, and adds headers to every answer: one layer around everything that a daemon serves.
//!
//! | a request | gets |
//! |---|---|
//! | with a head of more than [`HEAD_BYTES_MAX`] | 431 |
//! | without a `Host`, with two, with one that is more or less than a host ([`Host`]), or that the address in its first line contradicts | 400 |
//! | for a name that is not one of this daemon's ([`Hosts`]) | 421 |
//! | by a method that no route has (`TRACE`, `CONNECT`, …) | 405 |
//! | whose body has another transfer coding than `chunked`: its bytes would be stored as they are | 501 |
//! | that a browser sends for a page of another site, unless the user followed a link | 403 |
//!
//! A refusal in plain text becomes a page where a browser asks for one and the daemon has pages. Every answer names the parameters that were ignored ([`Ear`]).
//! Every answer says `X-Content-Type-Options: nosniff`: no browser takes bytes of files for a script or a page.
//!
//! Invariant: [`crate::serve::serve`] accepts only a [`Guarded`] router, and only [`guard`] makes one.

use std::future::Future;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use tower::Service;

use crate::hosts::{Host, Hosts};
use crate::metrics;
use crate::page;
use crate::params::Ear;

/// Bytes of a request's line and headers: the longest path as a parameter beside the longest token, each percent-encoded.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes between the parts of a line of a head: `: ` and the line's end.
const LINE_BYTES: usize = 4;
/// Set by browsers, and by nobody else: the site of the page that the request is sent for.
const FETCH_SITE: &str = "sec-fetch-site";
/// Set by browsers: the mode of the request.
const FETCH_MODE: &str = "sec-fetch-mode";
/// Set by browsers: the use of the answer.
const FETCH_DEST: &str = "sec-fetch-dest";
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Routes behind the layer.
#[derive(Clone, Debug)]
pub struct Guarded {
    routes: Router,
    hosts: Hosts,
    /// Those that people look at.
    pages: Pages,
}

/// What people find at a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Nothing: programs call it.
    None,
    /// The style sheet of pages and an overview, both for everybody.
    Open,
    /// Also pages for those who have signed in, which they do at `/login`.
    WithLogin,
}

/// Puts the layer around `routes`, for a daemon reached by the names of `hosts`.
pub fn guard(routes: Router, hosts: Hosts) -> Guarded {
    Guarded { routes, hosts, pages: Pages::None }
}

impl Guarded {
    /// For routes that have pages: refusals become such, too.
    pub fn with_pages(self, pages: Pages) -> Self {
        Guarded { pages, ..self }
    }

    /// Answers a request. Every request of every daemon passes through here: only the one future is boxed.
    pub(crate) fn answer<B>(
        &self,
        mut request: Request<B>,
    ) -> impl Future<Output = Response> + Send + use<B>
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let refused = refusal(&self.hosts, request.method(), request.uri(), request.headers());
        let wants_page =
            self.pages != Pages::None && page::wants_page(request.method(), request.headers());
        let ear = Ear::listen(&mut request);
        let answering = match refused {
            Some((status, text)) => Err((status, format!("{text}\n"))),
            None => Ok(self.routes.clone().call(request)),
        };
        let has_login = self.pages == Pages::WithLogin;
        async move {
            let mut response = match answering {
                Ok(routed) => routed.await.unwrap_or_else(|never| match never {}),
                Err(refusal) => refusal.into_response(),
            };
            if wants_page {
                response = page::as_page(response, has_login).await;
            }
            if let Some(ear) = ear {
                ear.tell(&mut response);
            }
            metrics::note_answer(response.status());
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
            response
        }
    }
}

pub(crate) fn refusal(
    hosts: &Hosts,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<(StatusCode, String)> {
    if head_bytes(method, uri, headers) > HEAD_BYTES_MAX {
        let text = format!("the head of a request has at most {HEAD_BYTES_MAX} bytes");
        return Some((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text));
    }
    let host = match only_host(uri, headers) {
        Ok(host) => host,
        Err(text) => return Some((StatusCode::BAD_REQUEST, text.to_owned())),
    };
    if !hosts.allow(&host) {
        let host: String = host.to_string().chars().take(255).collect();
        let key = hosts.key();
        let text =
            format!("`{host}` is not a name of this daemon; add it to {key} if it should be");
        return Some((StatusCode::MISDIRECTED_REQUEST, text));
    }
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::OPTIONS,
    ];
    if !known.contains(method) {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "no route has this method".to_owned()));
    }
    if headers.get_all(header::TRANSFER_ENCODING).iter().any(|coding| !is_chunked(coding)) {
        let text = "a body has no transfer coding but `chunked`";
        return Some((StatusCode::NOT_IMPLEMENTED, text.to_owned()));
    }
    is_for_another_site(method, headers).then(|| {
        let text = "a page of another site may neither read nor change anything here";
        (StatusCode::FORBIDDEN, text.to_owned())
    })
}

/// True for the one transfer coding that is undone here (RFC 9112, 6.1).
fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// The size of the head on the wire, as far as it can be reconstructed.
fn head_bytes(method: &Method, uri: &Uri, headers: &HeaderMap) -> usize {
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    let line = method.as_str().len() + target + " HTTP/1.1".len() + LINE_BYTES;
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + LINE_BYTES);
    line + lines.sum::<usize>()
}

/// The one host that a request is for.
fn only_host<'a>(uri: &Uri, headers: &'a HeaderMap) -> Result<Host<'a>, &'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("a request has one Host header, neither none nor several");
    };
    let host = host.to_str().map_err(|_| "the Host header is no name")?;
    let parsed = Host::parse(host).ok_or("the Host header is no name or address with a port")?;
    match uri.authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => {
            Err("the Host header names another host than the address does")
        }
        _ => Ok(parsed),
    }
}

/// True if a browser sends this for a page of another site. A followed link does not count: its target is visible only to the user.
fn is_for_another_site(method: &Method, headers: &HeaderMap) -> bool {
    let says = |name: &str, text: &str| headers.get_all(name).iter().any(|value| value == text);
    let is_followed = matches!(*method, Method::GET | Method::HEAD)
        && says(FETCH_MODE, "navigate")
        && says(FETCH_DEST, "document");
    says(FETCH_SITE, "cross-site") && !is_followed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let hosts = Hosts::new("nn.local:9870", &[], "`hosts`");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: header::HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let (method, uri) = (method.parse().unwrap(), target.parse().unwrap());
        refusal(&hosts, &method, &uri, &map).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn a_request_is_for_one_host_that_is_this_daemon() {
        let (own, other) = (("host", "nn.local:9870"), ("host", "evil.example"));
        for (target, headers, expected) in [
            ("/", &[own][..], None),
            ("http://nn.local:9870/", &[own], None),
            ("/", &[], Some(400)),
            ("/", &[own, own], Some(400)),
            ("/", &[own, other], Some(400)),
            ("http://evil.example/", &[own], Some(400)),
            ("http://nn.local:9870/", &[other], Some(400)),
            ("http://evil.example/", &[other], Some(421)),
            ("/", &[other], Some(421)),
            ("/", &[("host", "evil.example:80")], Some(421)),
            ("/", &[("host", "")], Some(400)),
            ("/", &[("host", "nn.local:9870@evil.example")], Some(400)),
            ("/", &[("host", "nn.local@evil.example")], Some(400)),
            ("/", &[("host", "[::1]evil.example")], Some(400)),
            ("http://nn.local:1@evil.example/", &[("host", "nn.local:1@evil.example")], Some(400)),
            ("/", &[("host", "[::1]:9870")], None),
            ("/healthz", &[("host", "nn.local.evil.example")], Some(421)),
        ] {
            assert_eq!(status("GET", target, headers), expected, "{target} {headers:?}");
        }
    }

    #[test]
    fn pages_of_other_sites_get_nothing_but_a_followed_link() {
        let own = ("host", "localhost:1");
        let (cross, mode, dest) = (
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        );
        for (method, headers, expected) in [
            ("GET", &[own, cross][..], Some(403)),
            ("PUT", &[own, cross], Some(403)),
            ("GET", &[own, cross, mode], Some(403)),
            ("GET", &[own, cross, mode, ("sec-fetch-dest", "iframe")], Some(403)),
            ("GET", &[own, cross, dest], Some(403)),
            ("GET", &[own, cross, mode, dest], None),
            ("POST", &[own, cross, mode, dest], Some(403)),
            ("GET", &[own, ("sec-fetch-site", "same-origin")], None),
            ("GET", &[own, ("sec-fetch-site", "none")], None),
            ("GET", &[own, ("sec-fetch-site", "none"), cross], Some(403)),
        ] {
            assert_eq!(status(method, "/", headers), expected, "{method} {headers:?}");
        }
    }

    #[test]
    fn heads_are_bounded_and_methods_known() {
        let own = ("host", "localhost:1");
        let half = "x".repeat(HEAD_BYTES_MAX / 2);
        assert_eq!(status("GET", "/", &[own, ("a", &half)]), None);
        assert_eq!(status("GET", "/", &[own, ("a", &half), ("b", &half)]), Some(431));
        assert_eq!(status("GET", &format!("/{half}"), &[own, ("a", &half)]), Some(431));
        for method in ["TRACE", "CONNECT", "PROPFIND", "get"] {
            assert_eq!(status(method, "/", &[own]), Some(405), "{method}");
        }
    }

    #[test]
    fn bodies_are_undone_as_they_say_or_refused() {
        for (coding, expected) in [
            ("chunked", None),
            ("Chunked ", None),
            ("gzip, chunked", Some(501)),
            ("gzip", Some(501)),
            ("chunked, chunked", Some(501)),
            ("", Some(501)),
        ] {
            let headers = [("host", "localhost:1"), ("transfer-encoding", coding)];
            assert_eq!(status("PUT", "/", &headers), expected, "{coding}");
        }
    }
}
