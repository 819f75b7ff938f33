//! The cookie `hadoop.auth` of HttpFS's clients: they say their name once, with `OPTIONS`, and send back what they were given.
//!
//! ```text
//! hadoop.auth="u=<user>&p=<user>&t=simple&e=<expires ms>&s=<HMAC-SHA256 of what stands before it, as base64>"
//! ```
//!
//! It proves no more than `user.name` does, and is honoured only where that is believed. Reading is total: any text is a user or nothing.

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use daemon::session::cookie;
use protocol::auth::Key;

use crate::identity::is_user;

/// Its name.
const NAME: &str = "hadoop.auth";
/// How long it is valid, as in Hadoop: ten hours.
const LIFETIME_MS: u64 = 10 * 3_600_000;
/// Longest value that is parsed: a user's name and a hundred bytes.
const BYTES_MAX: usize = 1024;
/// Stands between what is signed and the signature.
const SIGNATURE: &str = "&s=";

/// The header that sets it.
pub fn sealed(user: &str, key: &Key, now_ms: u64) -> HeaderValue {
    let text = format!("u={user}&p={user}&t=simple&e={}", now_ms.saturating_add(LIFETIME_MS));
    let mac = STANDARD.encode(cookie_key(key).mac(&[text.as_bytes()]));
    let cookie = format!("{NAME}=\"{text}{SIGNATURE}{mac}\"; Path=/; HttpOnly; SameSite=Strict");
    HeaderValue::from_str(&cookie).expect("names of users and base64 are ASCII")
}

/// Who a request with it comes from.
pub fn user(headers: &HeaderMap, key: &Key, now_ms: u64) -> Option<String> {
    let value = cookie(headers, NAME)?.trim_matches('"');
    let (text, mac) = value.split_once(SIGNATURE).filter(|_| value.len() <= BYTES_MAX)?;
    let mac = STANDARD.decode(mac).ok()?;
    if !cookie_key(key).mac_matches(&[text.as_bytes()], &mac) {
        return None;
    }
    let (user, rest) = text.strip_prefix("u=")?.split_once("&p=")?;
    let (_, expires_ms) = rest.split_once("&t=simple&e=")?;
    let is_good = is_user(user) && expires_ms.parse::<u64>().is_ok_and(|end| end >= now_ms);
    is_good.then(|| user.to_owned())
}

fn cookie_key(key: &Key) -> Key {
    key.derive("hadoop.auth cookie")
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn sent(value: &str) -> HeaderMap {
        let value = format!("other=1; {value}");
        [(header::COOKIE, HeaderValue::from_str(&value).unwrap())].into_iter().collect()
    }

    #[test]
    fn what_was_given_is_known_again_until_it_ends() {
        let key = Key::new([1; 32]);
        let given = sealed("alice", &key, NOW);
        let value = given.to_str().unwrap().split(';').next().unwrap();
        assert!(value.starts_with("hadoop.auth=\"u=alice&p=alice&t=simple&e=1700036000000&s="));
        assert_eq!(user(&sent(value), &key, NOW + LIFETIME_MS).as_deref(), Some("alice"));
        assert_eq!(user(&sent(&value.replace('"', "")), &key, NOW).as_deref(), Some("alice"));
        assert_eq!(user(&sent(value), &key, NOW + LIFETIME_MS + 1), None);
        assert_eq!(user(&sent(value), &Key::new([2; 32]), NOW), None);
        for index in "hadoop.auth=".len() + 1..value.len() - 3 {
            let mut bad = value.as_bytes().to_vec();
            bad[index] = if bad[index] == b'A' { b'B' } else { b'A' };
            let bad = String::from_utf8(bad).unwrap();
            assert_eq!(user(&sent(&bad), &key, NOW), None, "{bad}");
            assert_eq!(user(&sent(&value[..index]), &key, NOW), None, "{index}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[ -~]{0,200}") {
            let headers = sent(&format!("hadoop.auth={text}"));
            proptest::prop_assert_eq!(user(&headers, &Key::new([1; 32]), NOW), None);
        }
    }
}
