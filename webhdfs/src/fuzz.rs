//! Decoders of untrusted bytes, for `fuzz/`: lines and headers of requests from clients that nobody has checked yet.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use protocol::DfsPath;
use protocol::auth::Key;

use crate::config::Config;
use crate::json::rights;
use crate::op::Op;
use crate::query::Query;
use crate::redirect::{Excluded, location};
use crate::token::{self, DELEGATION_KIND, Delegation, REDIRECT_KIND, Redirect, Sealed};
use crate::{cookie, identity, path, steps};

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("webhdfs_requests", webhdfs_requests),
    ("webhdfs_tokens", webhdfs_tokens),
    ("webhdfs_cookies", webhdfs_cookies),
    ("webhdfs_values", webhdfs_values),
];

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn key() -> Key {
    Key::new([7; 32])
}

/// Path and query of a request, with any method.
pub fn webhdfs_requests(bytes: &[u8]) {
    let text = text(bytes);
    let (url_path, query) = text.split_once('?').unwrap_or((text, text));
    let path =
        path::decode(url_path).or_else(|_| path::decode(&format!("{}/{url_path}", path::PREFIX)));
    if let Ok(path) = &path {
        let again = path::decode(&format!("{}{}", path::PREFIX, path::encode(path)));
        assert_eq!(again.as_ref(), Ok(path));
    }
    let Ok(query) = Query::parse(query) else { return };
    let config = Config::default();
    let user = identity::believed(&query, &config);
    let _ = (identity::unproven(&query), identity::effective("me", &query, &config));
    let _ = (Excluded::of(&query), steps::create_flags(&query));
    let path = path.unwrap_or_else(|_| DfsPath::root());
    for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
        let Ok(op) = Op::find(&method, query.text("op").unwrap_or("OPEN")) else { continue };
        if let Ok(Some(warning)) = op.judge(&query) {
            assert!(HeaderValue::from_str(&warning).is_ok(), "{warning:?}");
        }
        let credentials = ("user.name", user.clone().unwrap_or_default());
        let url = location("host:9864", &path, op, &credentials, "nn:9870", &query);
        assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "{url:?}");
    }
}

/// Tokens as they come, and tokens with a password that fits.
pub fn webhdfs_tokens(bytes: &[u8]) {
    let (key, root) = (key(), DfsPath::root());
    let text = text(bytes);
    assert!(Delegation::open(&key, text).is_err(), "nobody guesses a password");
    assert!(Redirect::open(&key, text, Op::Open, &root, 0).is_err(), "nobody guesses a password");
    let _ = token::hadoop_file::encode(text, &["nn:9870".to_owned()]);
    for kind in [DELEGATION_KIND, REDIRECT_KIND] {
        let sealed = Sealed::new(&key, kind, bytes.to_vec()).encode("nn:9870");
        if let Ok(token) = Delegation::open(&key, &sealed) {
            let again = token.seal(&key, kind, "nn:9870");
            assert_eq!(Delegation::open(&key, &again), Ok(token));
        }
        if let Ok(user) = Redirect::open(&key, &sealed, Op::Open, &root, 0) {
            let again = Redirect { user: user.clone(), expires_ms: 1 }.seal(&key, Op::Open, &root);
            assert_eq!(Redirect::open(&key, &again, Op::Open, &root, 0), Ok(user));
        }
    }
}

/// Headers with cookies.
pub fn webhdfs_cookies(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(header::COOKIE, value);
        }
    }
    assert_eq!(cookie::user(&headers, &key(), 0), None, "nobody guesses a signature");
    let user = text(bytes);
    if identity::is_user(user) && user.len() <= 255 {
        let sealed = cookie::sealed(user, &key(), 0);
        let value = sealed.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        let value = HeaderValue::from_str(value).expect("it is a part of a header");
        let headers = [(header::COOKIE, value)].into_iter().collect();
        assert_eq!(cookie::user(&headers, &key(), 0).as_deref(), Some(user));
    }
}

/// Values of extended attributes.
pub fn webhdfs_values(bytes: &[u8]) {
    let text = text(bytes);
    let _ = (rights::decode_value(text), rights::Encoding::parse(text));
    let value = rights::decode_value(&format!("0x{}", hex(bytes)));
    assert_eq!(value.as_deref(), Some(bytes));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
