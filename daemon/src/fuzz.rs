//! Entry points for `fuzz/`: heads of requests from anybody, and the configuration of a daemon.

use std::path::Path;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use serde::{Deserialize, Serialize};

use crate::config;
use crate::front::refusal;
use crate::hosts::{Host, Hosts};

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] =
    &[("request_heads", request_heads), ("daemon_config", daemon_config)];

/// A method and an address, then headers, one a line.
pub fn request_heads(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let (method, uri) = first.split_once(' ').unwrap_or(("GET", &first));
    let (Ok(method), Ok(uri)) = (method.parse::<Method>(), uri.parse::<Uri>()) else { return };
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..at]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()))
        {
            headers.append(name, value);
        }
    }
    let hosts = Hosts::new("nn.local:9870", &["files.example".to_owned()], "`hosts`");
    let refusal = refusal(&hosts, &method, &uri, &headers);
    let named = headers.get("host").and_then(|host| host.to_str().ok());
    match Host::of(&headers) {
        Some(host) if !hosts.allow(&host) => assert!(refusal.is_some(), "{host}"),
        // It leads nowhere else when it is part of an address.
        Some(host) => {
            let address: Uri = format!("http://{host}/").parse().expect("a host fits an address");
            let (found, named) = (address.authority().map(|it| it.as_str()), host.to_string());
            assert_eq!(found, Some(named.as_str()));
        }
        None if named.is_some() => assert!(refusal.is_some()),
        None => assert!(refusal.is_some_and(|(status, _)| status == StatusCode::BAD_REQUEST
            || status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)),
    }
}

/// A configuration with a key of each kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sample {
    bind: String,
    heartbeat_ms: u64,
    share: f64,
    names: Vec<String>,
    rack: Option<String>,
}

impl Default for Sample {
    fn default() -> Self {
        let (bind, names) = ("127.0.0.1:0".to_owned(), Vec::new());
        Sample { bind, heartbeat_ms: 3000, share: 0.5, names, rack: None }
    }
}

/// A configuration file, and a variable that overrides a key.
pub fn daemon_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parse = |text: &str, variables: &[(String, String)]| {
        config::parse::<Sample>(text, Path::new("x.toml"), "datanode", &["rack"], variables)
    };
    let _ = parse(&text, &[]);
    let (name, value) = text.split_once('=').unwrap_or(("BIND", &text));
    let _ = parse("", &[(format!("HANNO_DATANODE_{name}"), value.to_owned())]);
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
