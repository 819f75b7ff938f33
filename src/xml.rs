//! Text and elements of XML, for what programs of others read.

use std::fmt::Display;

/// Text for XML. Characters that XML cannot represent are replaced.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | '\r' => out.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

/// An element with this content and no other element in it.
pub(crate) fn element(name: &str, content: impl Display) -> String {
    format!("<{name}>{}</{name}>", encoded(&content.to_string()))
}

/// Bytes that are no text: two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_its_element() {
        assert_eq!(element("a", "</a>&\"b"), "<a>&lt;/a&gt;&amp;&quot;b</a>");
        assert_eq!(encoded("a\nb\u{1}"), "a&#10;b\u{fffd}");
        assert_eq!(element("n", 7), "<n>7</n>");
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
