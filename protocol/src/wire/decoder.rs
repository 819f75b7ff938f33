//! Reads postcard with a budget ([`super`]).
//!
//! ```text
//! bool, u8, i8   one byte                       f32, f64   little endian
//! u16 … u128     varint: 7 bits a byte, low first, at most as many bytes as the type needs
//! i16 … i128     zigzag, then as unsigned       unit       nothing
//! str, bytes     length as varint, then bytes   char       as str
//! option         0, or 1 and the value          enum       variant as varint of u32, then its content
//! seq, map       count as varint, then elements struct, tuple   fields
//! ```

use std::fmt::Display;
use std::ops::{BitOrAssign, Shl, Shr};

use serde::de::value::U32Deserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// Memory that any message may take: a full batch of the shortest answers fits.
pub const MEMORY_MIN_BYTES: usize = 2 << 20;
/// Memory that a message may take for each of its bytes. Numbers are eight times as long as their encoding, structs of short fields up to fifteen times.
pub const MEMORY_PER_BYTE: usize = 16;
/// Deepest nesting of lists, structs and enums. Our messages nest less than half as deep.
pub const DEPTH_MAX: u8 = 48;
/// Longest text in a message, in bytes of UTF-8: the longest diagnostics and arguments fit.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end within it.
    #[error("it ends too early")]
    End,
    /// They go on behind it.
    #[error("{bytes} bytes follow its end")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A value that no encoder writes.
    #[error("no {expected} where one must be")]
    Value {
        /// The expected value.
        expected: &'static str,
    },
    /// A list that is longer than the rest of the message.
    #[error("a list of {announced} elements in {left} bytes")]
    Count {
        /// Elements.
        announced: u64,
        /// Bytes left.
        left: usize,
    },
    /// A text or run of bytes that is too long.
    #[error("a text of {bytes} bytes; at most {TEXT_BYTES_MAX} are taken")]
    Text {
        /// Its length.
        bytes: usize,
    },
    /// It nests too deep.
    #[error("it nests more than {DEPTH_MAX} deep")]
    Depth,
    /// It would take too much memory for its length.
    #[error("it would take more than {MEMORY_PER_BYTE} times its length in memory")]
    Memory,
    /// The type refuses the value.
    #[error("{0}")]
    Refused(String),
}

impl de::Error for DecodeError {
    fn custom<T: Display>(message: T) -> Self {
        DecodeError::Refused(message.to_string())
    }
}

type Result<T> = std::result::Result<T, DecodeError>;

/// Bytes that are being read.
pub(super) struct Decoder<'de> {
    input: &'de [u8],
    depth: u8,
    memory_left: usize,
    text_bytes_max: usize,
    /// Bytes of the next value that are already charged, because it lies in a list or within another value.
    charged: usize,
}

impl<'de> Decoder<'de> {
    #[inline]
    pub(super) fn new(input: &'de [u8]) -> Self {
        let memory_left =
            input.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_MIN_BYTES);
        Decoder { input, depth: 0, memory_left, text_bytes_max: TEXT_BYTES_MAX, charged: 0 }
    }

    /// A decoder for bytes that this program wrote itself.
    pub(super) fn of_stored(input: &'de [u8]) -> Self {
        let (memory_left, text_bytes_max) = (usize::MAX, usize::MAX);
        Decoder { input, depth: 0, memory_left, text_bytes_max, charged: 0 }
    }

    /// Checks that nothing is left.
    #[inline]
    pub(super) fn end(&self) -> Result<()> {
        match self.input.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }

    #[inline]
    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.memory_left = self.memory_left.checked_sub(bytes).ok_or(DecodeError::Memory)?;
        Ok(())
    }

    /// Reads something that is one level deeper. Memory of it that is not charged yet lies in a box.
    #[inline]
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(DecodeError::Depth);
        }
        self.charge(size_of::<T>().saturating_sub(self.charged))?;
        self.charged = size_of::<T>();
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Reads one element of a list or map.
    #[inline]
    fn element<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        self.charge(size_of::<T::Value>())?;
        self.charged = size_of::<T::Value>();
        seed.deserialize(self)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Result<&'de [u8]> {
        let (taken, rest) = self.input.split_at_checked(count).ok_or(DecodeError::End)?;
        self.input = rest;
        Ok(taken)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.input.split_first().ok_or(DecodeError::End)?;
        self.input = rest;
        Ok(*first)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were asked for"))
    }

    /// A number of at most `bits` bits.
    #[inline]
    fn varint(&mut self, bits: u32) -> Result<u128> {
        match self.input.split_first() {
            // Most numbers take one byte.
            Some((&byte, rest)) if byte < 0x80 => {
                self.input = rest;
                Ok(u128::from(byte))
            }
            _ if bits <= u64::BITS => Ok(u128::from(self.varint_in_parts::<u64>(bits)?)),
            _ => self.varint_in_parts::<u128>(bits),
        }
    }

    /// Reads 64 bits where they suffice: a wider number costs twice as much.
    #[inline]
    fn varint_in_parts<T>(&mut self, bits: u32) -> Result<T>
    where
        T: From<u8>
            + Default
            + PartialEq
            + BitOrAssign
            + Shl<u32, Output = T>
            + Shr<u32, Output = T>
            + Copy,
    {
        let mut value = T::default();
        for place in 0..bits.div_ceil(7) {
            let byte = self.byte()?;
            let (part, shift) = (T::from(byte & 0x7f), place * 7);
            if shift + 7 > bits && part >> (bits - shift) != T::default() {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Value { expected: "number" })
    }

    #[inline]
    fn zigzag(&mut self, bits: u32) -> Result<i128> {
        let value = self.varint(bits)?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The announced number of elements; each takes at least one byte.
    #[inline]
    fn count(&mut self) -> Result<usize> {
        let announced = self.varint(u64::BITS)? as u64;
        let left = self.input.len();
        let count = usize::try_from(announced).ok().filter(|count| *count <= left);
        count.ok_or(DecodeError::Count { announced, left })
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'de [u8]> {
        let bytes = self.count().map_err(|_| DecodeError::End)?;
        if bytes > self.text_bytes_max {
            return Err(DecodeError::Text { bytes });
        }
        self.take(bytes)
    }

    #[inline]
    fn text(&mut self) -> Result<&'de str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Value { expected: "UTF-8" })
    }

    #[inline]
    fn fields<V: Visitor<'de>>(&mut self, count: usize, visitor: V) -> Result<V::Value> {
        self.nested(|decoder| visitor.visit_seq(Fields { decoder, left: count }))
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $read:ident $type:ty;)*) => {
        $(#[inline] fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            visitor.$visit(self.$read(<$type>::BITS)? as $type)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = DecodeError;

    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        Err(DecodeError::Value { expected: "value of a known type" })
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            _ => Err(DecodeError::Value { expected: "yes or no" }),
        }
    }

    #[inline]
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_u8(self.byte()?)
    }

    #[inline]
    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_i8(self.byte()?.cast_signed())
    }

    numbers! {
        deserialize_u16 visit_u16 varint u16;
        deserialize_u32 visit_u32 varint u32;
        deserialize_u64 visit_u64 varint u64;
        deserialize_u128 visit_u128 varint u128;
        deserialize_i16 visit_i16 zigzag i16;
        deserialize_i32 visit_i32 zigzag i32;
        deserialize_i64 visit_i64 zigzag i64;
        deserialize_i128 visit_i128 zigzag i128;
    }

    #[inline]
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_f32(f32::from_le_bytes(self.array()?))
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_f64(f64::from_le_bytes(self.array()?))
    }

    #[inline]
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let mut chars = self.text()?.chars();
        match (chars.next(), chars.next()) {
            (Some(only), None) => visitor.visit_char(only),
            _ => Err(DecodeError::Value { expected: "character" }),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text()?)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    #[inline]
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => self.nested(|decoder| visitor.visit_some(decoder)),
            _ => Err(DecodeError::Value { expected: "option" }),
        }
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        self.nested(|decoder| visitor.visit_newtype_struct(decoder))
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let left = self.count()?;
        self.nested(|decoder| visitor.visit_seq(Elements { decoder, left }))
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value> {
        self.fields(count, visitor)
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.fields(count, visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let left = self.count()?;
        self.nested(|decoder| visitor.visit_map(Elements { decoder, left }))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.fields(fields.len(), visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.nested(|decoder| visitor.visit_enum(Variant { decoder }))
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }
}

/// The remaining fields of a struct or tuple; they lie within its memory.
struct Fields<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Fields<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.decoder.charged = size_of::<T::Value>();
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The remaining elements of a list or map; each takes memory of its own.
struct Elements<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.decoder.element(seed).map(Some)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.next_element_seed(seed)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.decoder.element(seed)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

struct Variant<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = DecodeError;
    type Variant = Self;

    #[inline]
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let number = self.decoder.varint(u32::BITS)? as u32;
        let number: U32Deserializer<DecodeError> = number.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        self.decoder.charged = size_of::<T::Value>();
        seed.deserialize(self.decoder)
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value> {
        self.decoder.fields(count, visitor)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.decoder.fields(fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::DfsPath;
    use crate::jobs::Split;
    use crate::wire::{at_most, decode, decode_stored, encode};

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    enum Sample {
        Unit,
        Number(i64),
        Pair(u16, bool),
        Fields { text: String, map: BTreeMap<u32, Option<i8>>, wide: (u128, f64, char) },
        List(Vec<Sample>),
    }

    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Few(#[serde(deserialize_with = "at_most::<3, _, _>")] Vec<Sample>);

    fn cause(bytes: &[u8]) -> DecodeError {
        decode::<Sample>(bytes, "sample").unwrap_err().cause().clone()
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels| [[4, 1].repeat(levels), vec![0]].concat();
        assert!(decode::<Sample>(&nested(8), "sample").is_ok());
        assert_eq!(cause(&nested(20_000)), DecodeError::Depth);
    }

    #[test]
    fn memory_is_bounded_by_the_bytes_that_are_there() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, clippy::large_enum_variant, reason = "only its size matters")]
        enum Large {
            Small,
            Much([u64; 32]),
        }
        let bytes = [encode(&100_000u32), vec![0; 100_000]].concat();
        let error = decode::<Vec<Large>>(&bytes, "list").unwrap_err();
        assert_eq!(*error.cause(), DecodeError::Memory);
        let error = decode::<Vec<Box<Large>>>(&bytes, "list").unwrap_err();
        assert_eq!(*error.cause(), DecodeError::Memory, "what lies in boxes counts, too");
        assert!(decode_stored::<Vec<Large>>(&bytes, "list").is_ok(), "it was taken once");
    }

    /// Splits of numbered rows are the shortest structs that messages hold many of.
    #[test]
    fn what_lies_within_a_value_is_charged_with_it_alone() {
        let split = |row| Split {
            path: DfsPath::root(),
            offset: row,
            length: 1,
            hosts: Vec::new(),
            racks: Vec::new(),
            input: 0,
            more: Vec::new(),
        };
        let splits: Vec<Split> = (0..100_000).map(split).collect();
        assert_eq!(decode::<Vec<Split>>(&encode(&splits), "splits"), Ok(splits));
    }

    #[test]
    fn lists_are_counted_before_they_are_read() {
        let of = |count: usize| encode(&vec![Sample::Unit; count]);
        assert!(decode::<Few>(&of(3), "few").is_ok());
        let error = decode::<Few>(&of(4), "few").unwrap_err();
        assert_eq!(
            *error.cause(),
            DecodeError::Refused("a list of more than 3 elements".to_owned())
        );
        // None of the announced elements are present.
        let huge = [vec![4], encode(&u64::MAX)].concat();
        assert_eq!(cause(&huge), DecodeError::Count { announced: u64::MAX, left: 0 });
        let long = [encode(&(2 * TEXT_BYTES_MAX)), vec![b'x'; 2 * TEXT_BYTES_MAX]].concat();
        let error = decode::<String>(&long, "text").unwrap_err();
        assert_eq!(*error.cause(), DecodeError::Text { bytes: 2 * TEXT_BYTES_MAX });
        assert!(decode_stored::<String>(&long, "text").is_ok(), "it was taken once");
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(cause(&[]), DecodeError::End);
        assert_eq!(cause(&[0, 7]), DecodeError::Trailing { bytes: 1 });
        assert_eq!(cause(&[2, 1, 2]), DecodeError::Value { expected: "yes or no" });
        assert_eq!(cause(&[2, 0xff, 0xff, 4, 1]), DecodeError::Value { expected: "number" });
        assert!(matches!(cause(&[9]), DecodeError::Refused(_)));
    }

    fn samples() -> impl Strategy<Value = Sample> {
        let wide = (any::<u128>(), -1e300..1e300, any::<char>());
        let map = proptest::collection::btree_map(any::<u32>(), any::<Option<i8>>(), 0..4);
        let leaf = prop_oneof![
            Just(Sample::Unit),
            any::<i64>().prop_map(Sample::Number),
            any::<(u16, bool)>().prop_map(|(number, flag)| Sample::Pair(number, flag)),
            (".{0,9}", map, wide).prop_map(|(text, map, wide)| Sample::Fields { text, map, wide }),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            proptest::collection::vec(inner, 0..4).prop_map(Sample::List)
        })
    }

    proptest! {
        #[test]
        fn what_postcard_writes_is_read(sample in samples()) {
            let bytes = encode(&sample);
            prop_assert_eq!(decode::<Sample>(&bytes, "sample"), Ok(sample));
            for end in 0..bytes.len() {
                prop_assert!(decode::<Sample>(&bytes[..end], "sample").is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_as_postcard_reads_them(bytes: Vec<u8>) {
            let theirs = match postcard::take_from_bytes::<Sample>(&bytes) {
                Ok((sample, [])) => Some(sample),
                _ => None,
            };
            // Compared as text, since NaN equals nothing.
            let ours = decode::<Sample>(&bytes, "sample").ok();
            prop_assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        }
    }
}
