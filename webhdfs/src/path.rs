//! Paths in URLs: percent-decoded exactly once, `+` is a plus sign, and encoded again for a redirect.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use protocol::DfsPath;

use crate::error::{Exception, WebError};

/// Prefix of every URL.
pub const PREFIX: &str = "/webhdfs/v1";

/// Everything but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// In paths slashes stay.
const ENCODED_IN_PATHS: &AsciiSet = &ENCODED.remove(b'/');

/// The path of the file system that the path of a URL names.
///
/// # Errors
/// If it does not begin with [`PREFIX`], is not UTF-8, or breaks a rule for names.
pub fn decode(url_path: &str) -> Result<DfsPath, WebError> {
    let raw = url_path.strip_prefix(PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let invalid = || WebError::new(Exception::InvalidPath, format!("Invalid path name {url_path}"));
    let raw = raw.ok_or_else(invalid)?;
    let text = percent_decode_str(raw).decode_utf8().map_err(|_| invalid())?;
    parse(if text.is_empty() { "/" } else { &text })
}

/// A path that is a parameter's value.
///
/// # Errors
/// If it breaks a rule for names.
pub fn parse(text: &str) -> Result<DfsPath, WebError> {
    DfsPath::parse(text).map_err(|error| WebError::path(text, &error))
}

/// A path of the file system for a URL, without [`PREFIX`].
pub fn encode(path: &DfsPath) -> String {
    utf8_percent_encode(path.as_str(), ENCODED_IN_PATHS).to_string()
}

/// A parameter's value for a URL.
pub fn encode_value(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once() {
        for (url, path) in [
            ("/webhdfs/v1", "/"),
            ("/webhdfs/v1/", "/"),
            ("/webhdfs/v1/a+b", "/a+b"),
            ("/webhdfs/v1/a%2Bb%20c", "/a+b c"),
            ("/webhdfs/v1/100%2525", "/100%25"),
            ("/webhdfs/v1/a%26b;c=d%3Fe%23f", "/a&b;c=d?e#f"),
            ("/webhdfs/v1/%E6%97%A5/%F0%9F%98%80", "/日/😀"),
            ("/webhdfs/v1//a//b/", "/a/b"),
            ("/webhdfs/v1/50%", "/50%"),
        ] {
            assert_eq!(decode(url).unwrap().as_str(), path, "{url}");
        }
        for url in [
            "/webhdfs/v1x",
            "/webhdfs/v1/%FF",
            "/webhdfs/v1/a/../b",
            "/webhdfs/v1/%2e%2e",
            "/webhdfs/v1/a%3Ab",
            "/webhdfs/v1/%00",
        ] {
            assert_eq!(decode(url).unwrap_err().exception, Exception::InvalidPath, "{url}");
        }
    }

    proptest::proptest! {
        #[test]
        fn encoding_and_decoding_are_inverse(elements in proptest::collection::vec("[^/:\\pC]{1,20}", 0..5)) {
            let text = format!("/{}", elements.join("/"));
            if let Ok(path) = DfsPath::parse(&text) {
                let url = format!("{PREFIX}{}", encode(&path));
                proptest::prop_assert!(url.bytes().all(|byte| byte.is_ascii_graphic()));
                proptest::prop_assert_eq!(decode(&url).unwrap(), path);
            }
        }

        #[test]
        fn any_url_is_decoded_without_a_panic(text in ".{0,100}") {
            if let Ok(path) = decode(&format!("{PREFIX}/{text}")) {
                proptest::prop_assert_eq!(DfsPath::parse(path.as_str()).unwrap(), path);
            }
        }
    }
}
