//! Addresses of pages and bytes of files.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::DfsPath;

/// A text as a part of an address.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The address of the page of a file or directory.
pub(super) fn target(path: &str) -> String {
    format!("/browse?path={}", encoded(path))
}

/// The address of a file's bytes.
pub(super) fn content(path: &DfsPath) -> String {
    format!("/api/v1/files/content?path={}", encoded(path.as_str()))
}

/// The path of an entry of a directory.
pub(super) fn below(path: &DfsPath, name: &str) -> String {
    format!("{}/{name}", path.as_str().trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_once() {
        let path = DfsPath::parse("/a b/50%+\"<&?#ü").unwrap();
        let address = "/api/v1/files/content?path=%2Fa%20b%2F50%25%2B%22%3C%26%3F%23%C3%BC";
        assert_eq!(content(&path), address);
        assert_eq!(target("/a b&c"), "/browse?path=%2Fa%20b%26c");
    }
}
