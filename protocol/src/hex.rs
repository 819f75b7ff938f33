//! Hexadecimal text of keys, signatures and ids: lower case, two digits a byte. Every signed call writes and reads some.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Adds the text of `bytes` to `text`.
pub(crate) fn push(text: &mut String, bytes: &[u8]) {
    text.reserve(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    push(&mut text, bytes);
    text
}

pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&encode(bytes))
}

/// Fills `bytes`; `None` if `text` is something else or has the wrong length. Digits may be upper case.
pub(crate) fn read(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len() != 2 * bytes.len() {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16);
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_text_is_refused() {
        for bad in ["", "0", "00000", "0g00", "+100", "0 00", "é0a"] {
            assert_eq!(read(bad, &mut [0; 2]), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn comes_back_as_the_formatter_writes_it(bytes: [u8; 20]) {
            let text = encode(&bytes);
            let slow: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(&text, &slow);
            for text in [&text, &text.to_uppercase()] {
                let mut found = [0; 20];
                prop_assert_eq!(read(text, &mut found), Some(()));
                prop_assert_eq!(found, bytes);
            }
        }
    }
}
