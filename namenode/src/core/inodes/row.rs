//! What rows of the checkpoint are made of: keys, values, and how blocks are written in them. A row is in its first form, or states its
//! version (ADR 22).

use protocol::wire::form::{self, Form, FormError};
use protocol::{BlockId, GenerationStamp, InodeId};
use serde::{Deserialize, Serialize};

use crate::error::CoreError;

/// Blocks in one row: 64 take under 2 KB.
pub(in crate::core) const ROW_BLOCKS: usize = 64;

/// A changed row; `None` deletes it.
pub type Row = (Vec<u8>, Option<Vec<u8>>);

#[derive(Serialize, Deserialize)]
pub(in crate::core) struct BlockRow {
    pub(in crate::core) id: BlockId,
    pub(in crate::core) stamp: GenerationStamp,
    pub(in crate::core) length: u64,
    pub(in crate::core) complete: bool,
}

pub(in crate::core) fn id_key(prefix: u8, id: InodeId) -> Vec<u8> {
    let mut key = vec![prefix];
    key.extend(id.0.to_be_bytes());
    key
}

/// Key of a piece of what is too large for one row; big endian as all keys.
pub(in crate::core) fn chunk_key(prefix: u8, id: InodeId, chunk: usize) -> Vec<u8> {
    with_chunk(id_key(prefix, id), chunk)
}

/// A key followed by the number of a piece.
pub(in crate::core) fn with_chunk(mut key: Vec<u8>, chunk: usize) -> Vec<u8> {
    key.extend(u32::try_from(chunk).unwrap_or(u32::MAX).to_be_bytes());
    key
}

/// First bytes of a row that states its version, which follows. A row without them is in its first form.
const VERSION_MARK: [u8; 2] = [0x80, 0];
/// Version of the first form. It is stated only by a row that would otherwise begin with the mark.
const FIRST_VERSION: u8 = 1;

/// The only form so far of a row with this content.
struct First<T>(T);

impl<'a, T: Deserialize<'a>> Form<'a> for First<T> {
    const VERSION: u8 = FIRST_VERSION;
    type Before = Self;
    type Damage = ();

    fn parse(bytes: &'a [u8]) -> Result<Self, ()> {
        exactly(bytes).map(First)
    }
}

/// Reads the postcard encoding of exactly one value.
///
/// # Errors
/// `()` if it is anything else.
pub(in crate::core) fn exactly<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ()> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(()),
    }
}

/// The value of a row in its first form.
pub(in crate::core) fn encode<T: Serialize>(row: &T) -> Vec<u8> {
    encode_as(FIRST_VERSION, row)
}

/// The value of a row in the form of a version: every row is made here. So no content, whoever chose it, passes for a newer form.
pub(in crate::core) fn encode_as<T: Serialize>(version: u8, row: &T) -> Vec<u8> {
    let bytes =
        postcard::to_allocvec(row).expect("rows are plain data: encoding into memory cannot fail");
    match version > FIRST_VERSION || bytes.starts_with(&VERSION_MARK) {
        true => [&VERSION_MARK[..], &[version], &bytes].concat(),
        false => bytes,
    }
}

/// Reads a row that has only one form.
///
/// # Errors
/// As for [`decode_form`].
pub(in crate::core) fn decode<'a, T: Deserialize<'a>>(
    value: &'a [u8],
    what: &'static str,
) -> Result<T, CoreError> {
    decode_form(value, what).map(|First(row)| row)
}

/// Reads a row in any of its forms.
///
/// # Errors
/// [`CoreError::NewerForm`] if a newer program wrote it, [`CoreError::BadRow`] if it is not exactly one row.
pub(in crate::core) fn decode_form<'a, T: Form<'a, Damage = ()>>(
    value: &'a [u8],
    what: &'static str,
) -> Result<T, CoreError> {
    let (version, encoded) = match value.strip_prefix(&VERSION_MARK) {
        None => (FIRST_VERSION, value),
        Some([version, encoded @ ..]) => (*version, encoded),
        Some([]) => return Err(CoreError::BadRow(what)),
    };
    form::read(version, encoded).map_err(|error| match error {
        FormError::Newer { version } => CoreError::NewerForm { what, version },
        FormError::NoVersion | FormError::Damaged(()) => CoreError::BadRow(what),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written_whatever_it_begins_with(
            start in prop_oneof![Just([0x80, 0, 9]), Just([0x80, 0, 1]), any::<[u8; 3]>()],
            number: u64,
        ) {
            let row = (start, number);
            let value = encode(&row);
            prop_assert_eq!(decode::<([u8; 3], u64)>(&value, "a row"), Ok(row));
            for end in 0..value.len() {
                prop_assert!(decode::<([u8; 3], u64)>(&value[..end], "a row").is_err());
            }
        }
    }

    /// A row that has had a field since its second form.
    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Pair(u64, u64);

    impl From<First<u64>> for Pair {
        fn from(First(number): First<u64>) -> Self {
            Pair(number, 7)
        }
    }

    impl<'a> Form<'a> for Pair {
        const VERSION: u8 = 2;
        type Before = First<u64>;
        type Damage = ();

        fn parse(bytes: &'a [u8]) -> Result<Self, ()> {
            exactly(bytes)
        }
    }

    #[test]
    fn a_row_of_an_earlier_form_is_read_as_the_newest() {
        assert_eq!(decode_form(&encode(&300_u64), "a row"), Ok(Pair(300, 7)));
        let newest = encode_as(Pair::VERSION, &Pair(300, 8));
        assert_eq!(newest, [0x80, 0, 2, 0xac, 2, 8]);
        assert_eq!(decode_form(&newest, "a row"), Ok(Pair(300, 8)));
        for end in 0..newest.len() {
            let cut = decode_form::<Pair>(&newest[..end], "a row");
            assert_eq!(cut, Err(CoreError::BadRow("a row")), "{end}");
        }
        let refused = decode::<u64>(&newest, "a row").unwrap_err();
        assert_eq!(refused, CoreError::NewerForm { what: "a row", version: 2 });
    }

    #[test]
    fn golden_bytes_of_a_row_that_begins_with_the_mark() {
        assert_eq!(encode(&([0x80_u8, 0, 9], 5_u64)), [0x80, 0, 1, 0x80, 0, 9, 5]);
        assert_eq!(encode(&([0x80_u8, 1, 9], 5_u64)), [0x80, 1, 9, 5]);
        let refused = |value: &[u8]| decode::<u64>(value, "a row").unwrap_err();
        assert_eq!(refused(&[0x80, 0, 2, 5]), CoreError::NewerForm { what: "a row", version: 2 });
        for damaged in [&[0x80, 0][..], &[0x80, 0, 0, 5], &[0x80]] {
            assert_eq!(refused(damaged), CoreError::BadRow("a row"));
        }
    }
}
