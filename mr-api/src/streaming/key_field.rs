//! `KeyFieldBasedPartitioner` and `KeyFieldBasedComparator`: parts of a text key, selected as in `sort -k`.
//!
//! The comparator becomes an encoding whose bytes sort as it would: the engine's key is `sort key, key, length of the sort key (u32, big
//! endian)`. Sorting therefore stays a comparison of bytes, and the key itself breaks ties. Numbers compare as decimal text of any length,
//! not as floats.

use mr_model::Error;

/// One `-k` option: `FIELD[.CHARACTER][,FIELD[.CHARACTER]]` with `n` and `r`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    /// From this field, counted from 0,
    first_field: usize,
    /// and this byte from its beginning, counted from 0, which may lie in a later field,
    first_byte: usize,
    /// through this field; `None` is the end of the key,
    last_field: Option<usize>,
    /// and this many bytes from its beginning, which may reach into later fields; 0 is to its end.
    last_bytes: usize,
    numeric: bool,
    reverse: bool,
}

/// Options like `-k1,2 -k3,3nr`, with the separator of fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyFields {
    separator: Vec<u8>,
    spans: Vec<Span>,
}

impl KeyFields {
    /// `property` is where the options come from.
    pub(super) fn parse(
        property: &str,
        options: &str,
        separator: &[u8],
    ) -> Result<KeyFields, Error> {
        let (mut spans, mut numeric, mut reverse) = (Vec::new(), false, false);
        let mut words = options.split_whitespace();
        while let Some(word) = words.next() {
            let bad = |word: &str, reason: &str| {
                Error::usage(format!("property {property}: `{word}` in `{options}`: {reason}"))
            };
            match word.strip_prefix('-').ok_or_else(|| bad(word, NO_DASH))? {
                "k" => {
                    let text = words.next().ok_or_else(|| bad(word, NO_POSITION))?;
                    spans.push(span(text).map_err(|reason| bad(text, reason))?);
                }
                flags if flags.starts_with('k') => {
                    spans.push(span(&flags[1..]).map_err(|reason| bad(word, reason))?);
                }
                flags => {
                    for flag in flags.chars() {
                        match flag {
                            'n' => numeric = true,
                            'r' => reverse = true,
                            _ => return Err(bad(word, UNKNOWN)),
                        }
                    }
                }
            }
        }
        if spans.is_empty() {
            let (first_field, first_byte, last_field, last_bytes) = (0, 0, None, 0);
            spans.push(Span { first_field, first_byte, last_field, last_bytes, numeric, reverse });
        }
        for span in spans.iter_mut().filter(|span| !span.numeric && !span.reverse) {
            (span.numeric, span.reverse) = (numeric, reverse);
        }
        Ok(KeyFields { separator: separator.to_vec(), spans })
    }

    /// The first `count` fields.
    pub(super) fn first(count: usize, separator: &[u8]) -> KeyFields {
        let span = Span {
            first_field: 0,
            first_byte: 0,
            last_field: Some(count.saturating_sub(1)),
            last_bytes: 0,
            numeric: false,
            reverse: false,
        };
        KeyFields { separator: separator.to_vec(), spans: vec![span] }
    }

    /// The partition of a key: by a hash of the selected parts.
    pub(super) fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        let seed = mr_model::runner::PARTITION_SEED;
        if let [span] = &self.spans[..] {
            let range = self.range(key, span).unwrap_or_default();
            return shuffle::partition_of(&key[range], partitions, seed);
        }
        let mut parts = Vec::with_capacity(key.len() + self.spans.len());
        for span in &self.spans {
            parts.extend_from_slice(&key[self.range(key, span).unwrap_or_default()]);
            parts.push(0);
        }
        shuffle::partition_of(&parts, partitions, seed)
    }

    /// Appends the engine's key for `key`.
    pub(super) fn encode(&self, key: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        for span in &self.spans {
            let at = out.len();
            match self.range(key, span) {
                None => out.push(MISSING),
                Some(range) if span.numeric => put_number(&key[range], out),
                Some(range) => put_text(&key[range], out),
            }
            if span.reverse {
                out[at..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        let length = (out.len() - start) as u32;
        out.extend_from_slice(key);
        out.extend_from_slice(&length.to_be_bytes());
    }

    /// The bytes of `key` that `span` selects; `None` if the key ends before them. As in Hadoop, positions count from the beginning of
    /// their field to the end of the key.
    fn range(&self, key: &[u8], span: &Span) -> Option<std::ops::Range<usize>> {
        let (start, _) = self.field(key, span.first_field)?;
        let first = start.checked_add(span.first_byte).filter(|first| *first < key.len())?;
        let last = match span.last_field.and_then(|field| self.field(key, field)) {
            None => key.len(),
            Some((_, end)) if span.last_bytes == 0 => end,
            Some((start, _)) => start.saturating_add(span.last_bytes).min(key.len()),
        };
        Some(first..last.max(first))
    }

    fn field(&self, key: &[u8], number: usize) -> Option<(usize, usize)> {
        let mut start = 0;
        for _ in 0..number {
            start += memchr::memmem::find(&key[start..], &self.separator)? + self.separator.len();
        }
        let end = memchr::memmem::find(&key[start..], &self.separator);
        Some((start, end.map_or(key.len(), |end| start + end)))
    }
}

/// The key in an engine's key made by [`KeyFields::encode`].
pub(super) fn decode(encoded: &[u8]) -> &[u8] {
    let Some((rest, length)) = encoded.split_last_chunk::<4>() else { return encoded };
    rest.get(u32::from_be_bytes(*length) as usize..).unwrap_or(rest)
}

const NO_DASH: &str = "an option begins with `-`, as `-k1,2`";
const NO_POSITION: &str = "`-k` takes FIELD[.BYTE][,FIELD[.BYTE]]";
const NO_NUMBER: &str = "fields and bytes are whole numbers, as in `-k1.2,3`";
const NO_FIELD: &str = "fields are counted from 1";
const UNKNOWN: &str = "there are `-k`, `-n` for numbers and `-r` for the reverse order";

fn span(text: &str) -> Result<Span, &'static str> {
    let body = text.trim_end_matches(['n', 'r']);
    let flags = &text[body.len()..];
    let (from, to) = match body.split_once(',') {
        Some((from, to)) => (from, Some(to)),
        None => (body, None),
    };
    let position = |text: &str| -> Result<(usize, usize), &'static str> {
        let text = text.trim_end_matches(['n', 'r']);
        let (field, byte) = text.split_once('.').unwrap_or((text, "0"));
        let number = |text: &str| text.parse::<usize>().map_err(|_| NO_NUMBER);
        if text.is_empty() {
            return Err(NO_POSITION);
        }
        Ok((number(field)?.checked_sub(1).ok_or(NO_FIELD)?, number(byte)?))
    };
    let (first_field, first_byte) = position(from)?;
    let (last_field, last_bytes) = match to {
        Some(to) => position(to).map(|(field, bytes)| (Some(field), bytes))?,
        None => (None, 0),
    };
    Ok(Span {
        first_field,
        first_byte: first_byte.saturating_sub(1),
        last_field,
        last_bytes,
        numeric: flags.contains('n') || from.ends_with('n'),
        reverse: flags.contains('r') || from.ends_with('r'),
    })
}

/// Appends text, marked as present, escaped and terminated, so that no text is a prefix of another: `00` as `00 FF`, the end as `00 00`.
fn put_text(part: &[u8], out: &mut Vec<u8>) {
    out.push(PRESENT);
    mr_model::datum::Put::<Vec<u8>>::put_part(part, out);
}

/// Appends sign, length of the integer part, digits, decimals without trailing zeros, end. For negative numbers, all but the sign is
/// inverted.
fn put_number(part: &[u8], out: &mut Vec<u8>) {
    let text = part.trim_ascii();
    let (negative, text) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, rest) = text.split_at(digits(text));
    let decimals = match rest.split_first() {
        Some((b'.', rest)) => &rest[..digits(rest)],
        _ => &[],
    };
    let zeros = whole.iter().take_while(|byte| **byte == b'0').count();
    let whole = &whole[zeros..];
    let decimals =
        &decimals[..decimals.iter().rposition(|byte| *byte != b'0').map_or(0, |i| i + 1)];
    let negative = negative && !(whole.is_empty() && decimals.is_empty());
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    out.extend_from_slice(&(whole.len() as u32).to_be_bytes());
    out.extend_from_slice(whole);
    out.extend_from_slice(decimals);
    out.push(0);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Marks a key that ends before the part: it sorts first.
const MISSING: u8 = 0;
const PRESENT: u8 = 1;
const NEGATIVE: u8 = 1;
const POSITIVE: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(fields: &KeyFields, key: &str) -> Vec<u8> {
        let mut out = Vec::new();
        fields.encode(key.as_bytes(), &mut out);
        assert_eq!(decode(&out), key.as_bytes());
        out
    }

    fn sorted<'a>(options: &str, separator: &str, keys: &[&'a str]) -> Vec<&'a str> {
        let fields = KeyFields::parse("o", options, separator.as_bytes()).unwrap();
        let mut keys = keys.to_vec();
        keys.sort_by_key(|key| encoded(&fields, key));
        keys
    }

    #[test]
    fn keys_sort_as_sort_does() {
        let keys = ["11.12.1.2", "11.14.2.3", "11.11.4.1", "11.12.1.1", "11.14.2.2"];
        assert_eq!(
            sorted("-k2,2nr -k4,4n", ".", &keys),
            ["11.14.2.2", "11.14.2.3", "11.12.1.1", "11.12.1.2", "11.11.4.1"]
        );
        assert_eq!(
            sorted("-n", "\t", &["10", "9", "-3", "1.5", "1.25", "", "007"]),
            ["", "-3", "1.25", "1.5", "007", "9", "10"]
        );
        assert_eq!(
            sorted("-k1.2,1.3 -k2r", " ", &["xab 1", "yaa 1", "zab 2"]),
            ["yaa 1", "zab 2", "xab 1"]
        );
        assert_eq!(
            sorted("-k1.2,1.3", " ", &["a z", "a b", "ab", "a"]),
            ["a", "a b", "a z", "ab"],
            "positions go on into the next field, and a key that ends before them comes first"
        );
        assert_eq!(sorted("-k1.3,1.3", " ", &["x b", "yya", "z"]), ["z", "yya", "x b"]);
        assert_eq!(
            sorted("-k2,2n", " ", &["a 0", "b -1", "c", "d 1"]),
            ["c", "b -1", "a 0", "d 1"],
            "a field that is missing is less than any number"
        );
        assert_eq!(sorted("-k2,2nr", " ", &["a 0", "c", "d 1"]), ["d 1", "a 0", "c"]);
        assert_eq!(sorted("-r", "\t", &["a", "ab", "b"]), ["b", "ab", "a"]);
    }

    #[test]
    fn partitions_see_only_the_chosen_fields() {
        let fields = KeyFields::parse("o", "-k1,2", b".").unwrap();
        let of = |key: &str| fields.partition(key.as_bytes(), 1000);
        assert_eq!(of("11.12.1.2"), of("11.12.9.9"));
        assert_ne!(of("11.12.1.2"), of("11.13.1.2"));
        assert_eq!(of("11.12"), KeyFields::first(2, b".").partition(b"11.12.1", 1000));
        let two = KeyFields::parse("o", "-k1,1 -k3,3", b".").unwrap();
        assert_eq!(two.partition(b"a.b.c", 1000), two.partition(b"a.x.c", 1000));
    }

    #[test]
    fn bad_options_are_named() {
        for (options, word, reason) in [
            ("-k", "-k", NO_POSITION),
            ("-n -kx", "-kx", NO_NUMBER),
            ("-k0", "-k0", NO_FIELD),
            ("-x", "-x", UNKNOWN),
            ("k1", "k1", NO_DASH),
            ("-k1,0", "-k1,0", NO_FIELD),
            ("-k 1. -r", "1.", NO_NUMBER),
            ("-k1,", "-k1,", NO_POSITION),
        ] {
            let error = KeyFields::parse("some.options", options, b"\t").unwrap_err().to_string();
            let expected = format!("property some.options: `{word}` in `{options}`: {reason}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn numbers_order_by_value(a in -1_000_000_000i64..1_000_000_000, b in -1_000_000_000i64..1_000_000_000, reverse: bool) {
            let fields = KeyFields::parse("o", if reverse { "-k1,1nr" } else { "-k1,1n" }, b"\t").unwrap();
            let text = |value: i64| format!("{}{}.{:03}", if value < 0 { "-" } else { "" }, value.abs() / 1000, value.abs() % 1000);
            let (x, y) = (encoded(&fields, &text(a)), encoded(&fields, &text(b)));
            let order = if reverse { b.cmp(&a) } else { a.cmp(&b) };
            prop_assert_eq!(x.cmp(&y), order, "{} {}", text(a), text(b));
        }
    }
}
