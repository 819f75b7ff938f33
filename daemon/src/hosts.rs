//! Names under which a daemon may be reached from a browser. A page elsewhere whose name is made to resolve here (DNS rebinding) must not
//! read or change anything, so requests that were sent to a foreign name are refused.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Arc<Vec<String>>,
    any: bool,
}

impl Hosts {
    /// `localhost`, this machine, the host of `advertised` (`host:port`), and what the operator allows; `*` allows all.
    pub fn new(advertised: &str, more: &[String]) -> Hosts {
        let advertised = advertised.rsplit_once(':').map_or(advertised, |(host, _)| host);
        let own = ["localhost".to_owned(), sys::host::host_name(), advertised.to_owned()];
        let names = own.into_iter().chain(more.iter().cloned());
        let names: Vec<String> = names.map(|name| name.to_lowercase()).collect();
        let any = names.iter().any(|name| name == "*");
        Hosts { names: Arc::new(names), any }
    }

    /// True if the request was sent to a name or address of this daemon. An address cannot be made to point elsewhere, so all
    /// are fine; a name could.
    pub fn allow(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::HOST) else { return true };
        let Ok(text) = value.to_str() else { return false };
        let host = host_part(text).to_lowercase();
        self.any || host.parse::<IpAddr>().is_ok() || self.names.contains(&host)
    }

    /// Middleware: answers foreign names with 421.
    pub async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
        if hosts.allow(request.headers()) {
            return next.run(request).await;
        }
        let text = "This daemon is not known under that name; its configuration lists the names it answers to.\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    }
}

/// The host of `host:port`, without the brackets of an IPv6 address.
pub fn host_part(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => text.split(':').next().unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn foreign_names_are_not_served() {
        let hosts = Hosts::new("nn.local:9870", &["Files.example".to_owned()]);
        for (host, allowed) in [
            ("localhost:9870", true),
            ("127.0.0.1:9870", true),
            ("[::1]:9870", true),
            ("10.1.2.3", true),
            ("NN.local", true),
            ("files.EXAMPLE:80", true),
            ("evil.example:9870", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            assert_eq!(hosts.allow(&headers), allowed, "{host}");
        }
        assert!(hosts.allow(&HeaderMap::new()));
    }
}
