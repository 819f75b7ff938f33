//! Pages: neighbouring rows of the checkpoint under one key of the engine.
//!
//! sled keeps a few hundred bytes in memory for every dozen entries, whether they are in its cache or not, and several allocations
//! for each entry that is. So it is given few and larger entries: a page of rows, compressed, under the key of its first row.
//!
//! ```text
//! value  crc32 of the rest u32 | layout u8 = 1 | raw length u32 | LZ4 block of the raw page
//! raw    (key length u16 | value length u16 | key | value)*
//! ```
//!
//! Little endian. Written and read by `store` alone.
//!
//! Invariants of a page: it has at least one row, keys ascend, and all of them begin with the same byte (rows of one kind). Rows of a kind
//! are mostly added at its end, where pages are filled; elsewhere a page that is too large is halved.

use crate::bytes::u32_at;

/// Largest key of a row, in bytes: 8 KiB, a parent's id and the longest name with room to spare.
pub const KEY_BYTES_MAX: usize = 8 << 10;

/// Largest value of a row, in bytes: 16 KiB. sled moves larger pages to files of their own, whose
/// directory grows without end. Callers cut larger values into chunks.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// Size of a full page before compression, in bytes: 8 KiB, about a hundred rows. A row that changes alone costs this much to write.
/// Sixteen of them together, compressed, are still far below the 128 KiB from which on sled makes a separate file.
pub(crate) const PAGE_BYTES: usize = 8 << 10;

/// A page that shrank below this is joined with the next one: a quarter.
pub(crate) const PAGE_BYTES_MIN: usize = PAGE_BYTES / 4;

/// Largest raw page that a reader accepts: the last row may begin just below the limit.
const RAW_BYTES_MAX: usize = PAGE_BYTES + ROW_HEAD_LEN + KEY_BYTES_MAX + VALUE_BYTES_MAX;

const LAYOUT: u8 = 1;
const HEAD_LEN: usize = 9;
const ROW_HEAD_LEN: usize = 4;

/// The kind of a row, by its key: rows of different kinds are never on one page.
pub(crate) fn kind(key: &[u8]) -> Option<u8> {
    key.first().copied()
}

/// Adds a row to a raw page.
///
/// REQUIRES: key and value keep the limits of a row, and the key comes after that of the last row.
pub(crate) fn push_row(raw: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let len = |bytes: &[u8]| u16::try_from(bytes.len()).expect("limits of a row are checked first");
    raw.extend_from_slice(&len(key).to_le_bytes());
    raw.extend_from_slice(&len(value).to_le_bytes());
    raw.extend_from_slice(key);
    raw.extend_from_slice(value);
}

/// The rows of a raw page, or of several one after the other. Ends early if they are not whole; [`decode`] gives whole ones.
pub(crate) struct Rows<'a> {
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    pub(crate) fn of(raw: &'a [u8]) -> Rows<'a> {
        Rows { rest: raw }
    }

    /// Whether nothing is left that is not a row.
    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.rest.split_first_chunk::<ROW_HEAD_LEN>()?;
        let key_len = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value_len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (key, rest) = rest.split_at_checked(key_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        self.rest = rest;
        Some((key, value))
    }
}

/// Cuts rows into raw pages. `grows` if more rows are likely at the end: then all pages but the last are full, else they are of about
/// the same size.
pub(crate) fn cut(raw: &[u8], grows: bool) -> Vec<&[u8]> {
    let page_count = raw.len().div_ceil(PAGE_BYTES).max(1);
    let size = if grows { PAGE_BYTES } else { raw.len().div_ceil(page_count) };
    let mut pages = Vec::with_capacity(page_count);
    let (mut from, mut at) = (0, 0);
    for (key, value) in Rows::of(raw) {
        let end = at + ROW_HEAD_LEN + key.len() + value.len();
        // A row that would make the page too large begins the next one; in even pages, one that passes the middle of the cut.
        let limit = if grows { end } else { at + (end - at) / 2 };
        if at > from && limit - from > size {
            pages.push(&raw[from..at]);
            from = at;
        }
        at = end;
    }
    if at > from {
        pages.push(&raw[from..at]);
    }
    pages
}

/// The value of a raw page.
pub(crate) fn encode(raw: &[u8]) -> Vec<u8> {
    let room = lz4_flex::block::get_maximum_output_size(raw.len());
    let mut out = vec![0; HEAD_LEN + room];
    out[4] = LAYOUT;
    out[5..HEAD_LEN].copy_from_slice(&(raw.len() as u32).to_le_bytes());
    let len = lz4_flex::block::compress_into(raw, &mut out[HEAD_LEN..])
        .expect("there is room for the worst case");
    out.truncate(HEAD_LEN + len);
    let crc = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out.shrink_to_fit();
    out
}

/// Adds the raw page of `value`, which is stored at `key`, to `out`; `None`, with anything added, if it is damaged.
pub(crate) fn decode(key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let raw_len = u32_at(value, 5)? as usize;
    let good = value[4] == LAYOUT
        && raw_len <= RAW_BYTES_MAX
        && crc32fast::hash(&value[4..]) == u32_at(value, 0)?;
    good.then_some(())?;
    let from = out.len();
    out.resize(from + raw_len, 0);
    let raw = &mut out[from..];
    if lz4_flex::block::decompress_into(&value[HEAD_LEN..], raw).ok()? != raw_len {
        return None;
    }
    let mut rows = Rows::of(raw);
    let (first, _) = rows.next()?;
    let mut previous = first;
    let sound = first == key
        && rows.by_ref().all(|(key, _)| {
            let ascends = previous < key && kind(previous) == kind(key);
            previous = key;
            ascends
        });
    (sound && rows.is_done()).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(rows: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut raw = Vec::new();
        rows.iter().for_each(|(key, value)| push_row(&mut raw, key, value));
        raw
    }

    fn read(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        decode(key, value, &mut out)?;
        assert_eq!(out[..6], *b"before");
        Some(out[6..].to_vec())
    }

    #[test]
    fn golden_bytes() {
        let page = raw(&[(b"a1", b"x"), (b"a2", b"")]);
        assert_eq!(page, *b"\x02\0\x01\0a1x\x02\0\0\0a2");
        let value = encode(&page);
        // One LZ4 sequence of 13 literals.
        assert_eq!(value[4..], *b"\x01\x0d\0\0\0\xd0\x02\0\x01\0a1x\x02\0\0\0a2");
        assert_eq!(value[..4], crc32fast::hash(&value[4..]).to_le_bytes());
        assert_eq!(read(b"a1", &value), Some(page));
    }

    #[test]
    fn each_truncation_and_each_flipped_bit_is_noticed() {
        let page = raw(&[(b"a1", &[7; 40]), (b"a2", b"something else"), (b"a3", &[7; 40])]);
        let value = encode(&page);
        assert_eq!(read(b"a1", &value), Some(page));
        for cut in 0..value.len() {
            assert_eq!(read(b"a1", &value[..cut]), None, "cut at {cut}");
        }
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(b"a1", &flipped), None, "bit {bit}");
        }
        assert_eq!(read(b"a0", &value), None, "under another key");
    }

    #[test]
    fn unsound_pages_are_refused() {
        let bad: [(&str, Vec<u8>); 5] = [
            ("none", Vec::new()),
            ("twice", raw(&[(b"a1", b""), (b"a1", b"")])),
            ("descending", raw(&[(b"a2", b""), (b"a1", b"")])),
            ("two kinds", raw(&[(b"a1", b""), (b"b1", b"")])),
            ("surplus", [raw(&[(b"a1", b"")]), vec![9]].concat()),
        ];
        for (what, page) in bad {
            let key = Rows::of(&page).next().map_or(&b""[..], |(key, _)| key).to_vec();
            assert_eq!(read(&key, &encode(&page)), None, "{what}");
        }
    }

    #[test]
    fn pages_are_filled_where_rows_come_and_halved_elsewhere() {
        let mut rows = Vec::new();
        for number in 0..100_u8 {
            push_row(&mut rows, &[b'i', number], &[number; 100]);
        }
        assert!(rows.len() > PAGE_BYTES && rows.len() < 2 * PAGE_BYTES);
        let full = cut(&rows, true);
        assert_eq!(full.len(), 2);
        assert!(full[0].len() <= PAGE_BYTES && full[0].len() > PAGE_BYTES - 106);
        let even = cut(&rows, false);
        assert_eq!(even.len(), 2);
        assert!(even[0].len().abs_diff(even[1].len()) <= 106);
        for pages in [full, even] {
            assert_eq!(pages.concat(), rows);
        }
        assert!(cut(&[], true).is_empty());
        let mut large = Vec::new();
        push_row(&mut large, b"i1", &[1; VALUE_BYTES_MAX]);
        push_row(&mut large, b"i2", &[2; VALUE_BYTES_MAX]);
        assert_eq!(cut(&large, false).len(), 2);
        assert_eq!(cut(&large, true).len(), 2);
    }

    proptest! {
        #[test]
        fn decode_is_total(key: Vec<u8>, bytes: Vec<u8>) {
            let _ = read(&key, &bytes);
            let mut with_crc = crc32fast::hash(&bytes).to_le_bytes().to_vec();
            with_crc.extend(bytes);
            let _ = read(&key, &with_crc);
        }

        #[test]
        fn cuts_lose_nothing_and_keep_the_limit(
            sizes in prop::collection::vec(0..9000_usize, 0..40), grows: bool,
        ) {
            let mut rows = Vec::new();
            for (number, size) in (0_u8..).zip(&sizes) {
                push_row(&mut rows, &[b'i', number], &vec![number; *size]);
            }
            let pages = cut(&rows, grows);
            prop_assert_eq!(pages.concat(), &rows[..]);
            for page in pages {
                prop_assert!(page.len() <= RAW_BYTES_MAX);
                let key = Rows::of(page).next().unwrap().0;
                prop_assert_eq!(read(key, &encode(page)), Some(page.to_vec()));
            }
        }
    }
}
