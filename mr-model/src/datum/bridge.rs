//! Values of any type that serde knows.

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::datum::{Datum, DecodeError, Put};

/// Longest encoding that is read, bytes. A type that contains itself is read by recursion, whose depth this bounds together with the size
/// of a frame.
const BYTES_MAX: usize = 64 << 20;

/// A value of any type that is [`serde::Serialize`] and [`serde::Deserialize`], in postcard's form. It has no order, so it is no key: derive
/// `Datum` and `Key` for those, or convert it.
///
/// Readers get owned values. As a part of a tuple, zero bytes are escaped, as those of a `Vec<u8>`.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use mr_api::datum::Serde;
/// use mr_api::testing::JobDriver;
/// use mr_api::{Job, reduce_fn, text, text_out};
///
/// type Counts = Serde<BTreeMap<char, u32>>;
///
/// let run = JobDriver::new().file("in", "abba\nbc\n").run(|path| {
///     let job = Job::new("letters")
///         .input(text([path("in")]))
///         .map_fn::<(), Counts, _>(|line, out| {
///             let mut counts = BTreeMap::new();
///             line.to_str_lossy().chars().for_each(|c| *counts.entry(c).or_default() += 1);
///             out.emit((), Serde(counts))
///         })
///         .reduce(reduce_fn::<(), Counts, _>(|_, values, out| {
///             let mut all = BTreeMap::new();
///             while let Some(Serde(counts)) = values.next_value()? {
///                 counts.into_iter().for_each(|(c, count)| *all.entry(c).or_insert(0) += count);
///             }
///             out.write(all[&'b'], ())
///         }))
///         .reducers(1)
///         .output(text_out(path("out")));
///     Ok(job.into())
/// })?;
/// assert_eq!(run.text("part"), "3\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Serde<T>(pub T);

/// Writes behind what a buffer has.
struct Behind<'a>(&'a mut Vec<u8>);

impl Flavor for Behind<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Datum for Serde<T> {
    type View<'a> = Self;
    type Part<'a> = Self;

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > BYTES_MAX {
            return Err(DecodeError::new("a serialised value of more than 64 MiB"));
        }
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(Serde(value)),
            Ok(_) => Err(DecodeError::new("bytes behind a serialised value")),
            Err(_) => Err(DecodeError::new("not a serialised value of this type")),
        }
    }

    fn read_part(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Self::read(&<Vec<u8>>::read_part(bytes)?)
    }

    fn own(view: Self) -> Self {
        view
    }

    fn own_part(part: Self) -> Self {
        part
    }
}

/// # Panics
/// If the type cannot be serialised in postcard's form, such as a sequence of unknown length: the task then fails with the reason.
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Put<Serde<T>> for Serde<T> {
    fn put(&self, out: &mut Vec<u8>) {
        if let Err(error) = postcard::serialize_with_flavor(&self.0, Behind(out)) {
            panic!("{} cannot be serialised: {error}", std::any::type_name::<T>());
        }
    }

    fn put_part(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        Put::<Vec<u8>>::put_part(&bytes, out);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Value = Serde<(BTreeMap<String, Option<i64>>, Vec<f32>, char)>;

    fn encode<D: Datum>(value: &impl Put<D>) -> Vec<u8> {
        let mut bytes = b"before".to_vec();
        value.put(&mut bytes);
        bytes.split_off(6)
    }

    proptest! {
        #[test]
        fn values_read_back_alone_and_in_tuples(
            map: BTreeMap<String, Option<i64>>,
            numbers in prop::collection::vec(-1e9f32..1e9, 0..5),
            letter: char,
            behind: u64,
        ) {
            let value = Serde((map, numbers, letter));
            prop_assert_eq!(&Value::read(&encode::<Value>(&value)).unwrap(), &value);
            let pair = encode::<(Value, u64)>(&(value.clone(), behind));
            prop_assert_eq!(<(Value, u64)>::read(&pair).unwrap(), (value, behind));
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Value::read(&bytes);
            let _ = <(Value, Value)>::read(&bytes);
        }
    }

    #[test]
    fn cut_and_lengthened_encodings_are_refused() {
        let bytes = encode::<Value>(&Serde(([("a".to_owned(), Some(-1))].into(), vec![1.5], 'é')));
        for length in 0..bytes.len() {
            assert!(Value::read(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Value::read(&[&bytes[..], &[0]].concat()).is_err());
        // A length that memory has no room for.
        assert!(Serde::<Vec<u64>>::read(&[0xff; 9]).is_err());
    }
}
