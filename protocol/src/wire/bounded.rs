//! Lists with a stated maximum length.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Decodes a list or map of at most `MAX` elements: `#[serde(deserialize_with = "at_most::<MAX, _, _>")]`. One that announces more is refused before any of it
/// is allocated.
///
/// # Errors
/// The decoder's error, or one that there are too many.
pub fn at_most<'de, const MAX: usize, D, C>(deserializer: D) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    C: Bounded<'de>,
{
    C::decode(deserializer, MAX)
}

/// Collections that [`at_most`] can decode.
pub trait Bounded<'de>: Sized {
    /// Decodes one of at most `max` elements.
    ///
    /// # Errors
    /// The decoder's error, or one that there are too many.
    fn decode<D: Deserializer<'de>>(deserializer: D, max: usize) -> Result<Self, D::Error>;
}

fn too_many<E: Error>(max: usize) -> E {
    E::custom(format_args!("a list of more than {max} elements"))
}

impl<'de, T: Deserialize<'de>> Bounded<'de> for Vec<T> {
    fn decode<D: Deserializer<'de>>(deserializer: D, max: usize) -> Result<Self, D::Error> {
        struct List<T>(usize, PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {} elements", self.0)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let announced = list.size_hint().unwrap_or_default();
                if announced > self.0 {
                    return Err(too_many(self.0));
                }
                // The announced elements are not here yet: reserve room for all of them only if they are small.
                let sized = announced.min(ROOM_BYTES_MAX / size_of::<T>().max(1));
                let mut elements = Vec::with_capacity(sized);
                while let Some(element) = list.next_element()? {
                    if elements.len() == self.0 {
                        return Err(too_many(self.0));
                    }
                    elements.push(element);
                }
                Ok(elements)
            }
        }

        deserializer.deserialize_seq(List(max, PhantomData))
    }
}

impl<'de, K, V> Bounded<'de> for BTreeMap<K, V>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
{
    fn decode<D: Deserializer<'de>>(deserializer: D, max: usize) -> Result<Self, D::Error> {
        struct Map<K, V>(usize, PhantomData<(K, V)>);

        impl<'de, K, V> Visitor<'de> for Map<K, V>
        where
            K: Deserialize<'de> + Ord,
            V: Deserialize<'de>,
        {
            type Value = BTreeMap<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a map of at most {} entries", self.0)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                if map.size_hint().is_some_and(|announced| announced > self.0) {
                    return Err(too_many(self.0));
                }
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = map.next_entry()? {
                    if entries.len() == self.0 {
                        return Err(too_many(self.0));
                    }
                    entries.insert(key, value);
                }
                Ok(entries)
            }
        }

        deserializer.deserialize_map(Map(max, PhantomData))
    }
}

/// Memory reserved for a list before its elements arrive.
const ROOM_BYTES_MAX: usize = 64 << 10;
