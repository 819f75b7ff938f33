//! Makes text from others safe for a terminal: names, messages and logs come from whoever wrote them, and a terminal obeys some characters.
//!
//! Invariant: the result of [`printable`] holds no control character but newlines and tabs, and nothing that changes the direction of writing.

use std::borrow::Cow;
use std::fmt::Write;

/// True for a character that a terminal obeys instead of displaying: C0 and C1 but newline and tab, DEL, and those that change the direction of writing.
pub fn steers(c: char) -> bool {
    let is_plain = matches!(c, '\n' | '\t');
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (c.is_control() && !is_plain) || turns
}

/// `text` with everything that steers a terminal escaped: `\x1b`, `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match u32::from(c) {
            _ if !steers(c) => escaped.push(c),
            // Writing to a string cannot fail.
            code @ 0..0x100 => drop(write!(escaped, "\\x{code:02x}")),
            code => drop(write!(escaped, "\\u{{{code:x}}}")),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_is_left() {
        for (text, shown) in [
            ("plain ü 日本 🦀\tx\n", "plain ü 日本 🦀\tx\n"),
            ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
            ("a\rb\x08\x7f", "a\\x0db\\x08\\x7f"),
            ("\u{9b}31m", "\\x9b31m"),
            ("gnp.\u{202e}exe", "gnp.\\u{202e}exe"),
            ("\u{2066}x\u{2069}\u{200f}\u{61c}", "\\u{2066}x\\u{2069}\\u{200f}\\u{61c}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        let every: String = (0..=0x3000).filter_map(char::from_u32).collect();
        let shown = printable(&every);
        assert!(!shown.contains(steers) && shown.contains('ö') && shown.contains("\n"));
        assert_eq!(printable(&shown), shown, "shown twice it is the same");
    }
}
