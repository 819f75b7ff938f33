//! Reads a cookie of a request.

use axum::http::{HeaderMap, header};

/// The value of the cookie `name`. Two of one name with different values count as none: another service of this host may have set one of them, and nobody can tell
/// which is ours.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(of, _)| of.trim() == name).map(|(_, value)| value.trim());
    let first = values.next()?;
    values.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_differ_neither_counts() {
        for (lines, expected) in [
            (&["a=1; id=x"][..], Some("x")),
            (&["id = x "], Some("x")),
            (&["id=x; id=x", "id=x"], Some("x")),
            (&["id=x; id=y"], None),
            (&["id=x", "id=y"], None),
            (&["id=; id=x"], None),
            (&["idx=1", "id"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, line.parse().unwrap());
            }
            assert_eq!(cookie(&headers, "id"), expected, "{lines:?}");
        }
    }
}
