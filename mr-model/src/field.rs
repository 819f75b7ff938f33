//! Fields of records that are text: what is read from them, or why it cannot be.

use std::fmt::Display;
use std::str::FromStr;

use crate::error::Error;

/// Most characters of a field, and of a record, that an error shows: enough to find it in the input, and still one line of a log.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// Reads a field of a record. The error quotes both, and says what was expected: a noun, as in "`x1` is no number".
///
/// ```
/// # fn main() -> mr_model::Result<()> {
/// let line = b"amsterdam\t117";
/// let tenths: i32 = mr_model::parse(&line[10..], "temperature", line)?;
/// assert_eq!(tenths, 117);
/// let error = mr_model::parse::<i32>("cold", "temperature", "oslo\tcold").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r"`cold` is no temperature (invalid digit found in string), in the record `oslo\tcold`"
/// );
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Field`].
pub fn parse<T: FromStr<Err: Display>>(
    field: impl AsRef<[u8]>,
    expected: &str,
    record: impl AsRef<[u8]>,
) -> Result<T, Error> {
    let refused = |reason: &dyn Display| Error::Field {
        field: shown(field.as_ref()),
        expected: expected.to_owned(),
        reason: reason.to_string(),
        record: shown(record.as_ref()),
    };
    let text = std::str::from_utf8(field.as_ref()).map_err(|error| refused(&error))?;
    text.parse().map_err(|error| refused(&error))
}

/// Text with all that is not printed escaped, cut off where it is long.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut characters = text.chars();
    let mut shown = String::new();
    for character in characters.by_ref().take(SHOWN_CHARACTERS_MAX) {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_parse_is_quoted_with_its_record() {
        assert_eq!(parse::<u32>("7", "number", "7").unwrap(), 7);
        let long = "é".repeat(SHOWN_CHARACTERS_MAX);
        for (field, record, expected) in [
            (
                &b""[..],
                &b"a\t"[..],
                r"`` is no port (cannot parse integer from empty string), in the record `a\t`",
            ),
            (
                b"\xff1",
                b"\xff1 2",
                "`\u{fffd}1` is no port (invalid utf-8 sequence of 1 bytes from index 0), in the record `\u{fffd}1 2`",
            ),
            (
                b"70000",
                b"70000\r\x1b[1m",
                r"`70000` is no port (number too large to fit in target type), in the record `70000\r\u{1b}[1m`",
            ),
            (
                b"x",
                format!("{long}x").as_bytes(),
                &format!("`x` is no port (invalid digit found in string), in the record `{long}…`"),
            ),
        ] {
            let error = parse::<u16>(field, "port", record).unwrap_err();
            assert!(matches!(error, Error::Field { .. }));
            assert_eq!(error.to_string(), expected);
        }
    }
}
