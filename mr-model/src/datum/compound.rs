//! Encodings made of others: [`Desc`], `Option`, tuples.

use mr_formats::ToText;

use crate::datum::{Datum, DecodeError, Key, Put};

/// Reverses the order of a key: `Desc(9u64)` sorts before `Desc(3u64)`.
///
/// ```
/// use mr_api::datum::{Desc, Put};
///
/// let encode = |count: u64| {
///     let mut bytes = Vec::new();
///     Put::<(Desc<u64>, String)>::put(&(Desc(count), "word"), &mut bytes);
///     bytes
/// };
/// assert!(encode(9) < encode(3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Desc<T>(pub T);

impl<T: PartialOrd> PartialOrd for Desc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        other.0.partial_cmp(&self.0)
    }
}

impl<T: Ord> Ord for Desc<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

/// Inverted bytes are read back on the stack up to this length: every number and most pairs.
const STACK_BYTES: usize = 64;

impl<K: Key> Datum for Desc<K> {
    type View<'a> = Desc<K>;
    type Part<'a> = Desc<K>;

    fn read(mut bytes: &[u8]) -> Result<Desc<K>, DecodeError> {
        let value = Self::read_part(&mut bytes)?;
        <()>::read(bytes).map(|()| value)
    }

    fn read_part(bytes: &mut &[u8]) -> Result<Desc<K>, DecodeError> {
        let mut stack = [0; STACK_BYTES];
        let short = bytes.len().min(STACK_BYTES);
        for (plain, inverted) in stack.iter_mut().zip(*bytes) {
            *plain = !inverted;
        }
        let mut rest = &stack[..short];
        let heap: Vec<u8>;
        let value = match K::read_part(&mut rest) {
            Err(_) if bytes.len() > STACK_BYTES => {
                heap = bytes.iter().map(|inverted| !inverted).collect();
                rest = &heap;
                K::own_part(K::read_part(&mut rest)?)
            }
            part => {
                let value = K::own_part(part?);
                *bytes = &bytes[short - rest.len()..];
                return Ok(Desc(value));
            }
        };
        *bytes = &bytes[bytes.len() - rest.len()..];
        Ok(Desc(value))
    }

    fn own(view: Desc<K>) -> Desc<K> {
        view
    }

    fn own_part(part: Desc<K>) -> Desc<K> {
        part
    }

    fn describe(bytes: &[u8]) -> String {
        Self::describe_part(&mut &*bytes).unwrap_or_else(|_| <Vec<u8>>::describe(bytes))
    }

    fn describe_part(bytes: &mut &[u8]) -> Result<String, DecodeError> {
        let plain: Vec<u8> = bytes.iter().map(|inverted| !inverted).collect();
        let mut rest = plain.as_slice();
        let text = K::describe_part(&mut rest)?;
        *bytes = &bytes[bytes.len() - rest.len()..];
        Ok(text)
    }

    fn text(mut bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        Self::text_part(&mut bytes, out)
    }

    fn text_part(bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        let plain: Vec<u8> = bytes.iter().map(|inverted| !inverted).collect();
        let mut rest = plain.as_slice();
        let present = K::text_part(&mut rest, out)?;
        *bytes = &bytes[bytes.len() - rest.len()..];
        Ok(present)
    }
}

impl<K: Key> Key for Desc<K> {}

impl<K: Key, P: Put<K>> Put<Desc<K>> for Desc<P> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.put_part(out);
    }

    #[inline]
    fn put_part(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.0.put_part(out);
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Between the elements of a tuple in text.
const BETWEEN: u8 = b'\t';
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;

impl<T: Datum> Datum for Option<T> {
    type View<'a> = Option<T::View<'a>>;
    type Part<'a> = Option<T::Part<'a>>;

    fn read(bytes: &[u8]) -> Result<Self::View<'_>, DecodeError> {
        match bytes {
            [ABSENT] => Ok(None),
            [PRESENT, rest @ ..] => T::read(rest).map(Some),
            _ => Err(DecodeError::new("not an option")),
        }
    }

    fn read_part<'a>(bytes: &mut &'a [u8]) -> Result<Self::Part<'a>, DecodeError> {
        match *bytes {
            [tag @ (ABSENT | PRESENT), rest @ ..] => {
                *bytes = rest;
                if *tag == ABSENT { Ok(None) } else { T::read_part(bytes).map(Some) }
            }
            _ => Err(DecodeError::new("not an option")),
        }
    }

    fn own(view: Self::View<'_>) -> Self {
        view.map(T::own)
    }

    fn own_part(part: Self::Part<'_>) -> Self {
        part.map(T::own_part)
    }

    fn describe(bytes: &[u8]) -> String {
        match bytes {
            [ABSENT] => "none".to_owned(),
            [PRESENT, rest @ ..] => T::describe(rest),
            _ => <Vec<u8>>::describe(bytes),
        }
    }

    fn describe_part(bytes: &mut &[u8]) -> Result<String, DecodeError> {
        match *bytes {
            [PRESENT, rest @ ..] => {
                *bytes = rest;
                T::describe_part(bytes)
            }
            _ => Self::read_part(bytes).map(|_| "none".to_owned()),
        }
    }

    fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        match bytes {
            [PRESENT, rest @ ..] => T::text(rest, out),
            _ => Self::read(bytes).map(|_| false),
        }
    }

    fn text_part(bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        match *bytes {
            [PRESENT, rest @ ..] => {
                *bytes = rest;
                T::text_part(bytes, out)
            }
            _ => Self::read_part(bytes).map(|_| false),
        }
    }
}

impl<T: Key> Key for Option<T> {}

impl<T: Datum, P: Put<T>> Put<Option<T>> for Option<P> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(ABSENT),
            Some(value) => {
                out.push(PRESENT);
                value.put(out);
            }
        }
    }

    fn put_part(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(ABSENT),
            Some(value) => {
                out.push(PRESENT);
                value.put_part(out);
            }
        }
    }
}

macro_rules! tuple {
    ($($first:ident $first_put:ident $index:tt),+; $last:ident $last_put:ident $last_index:tt) => {
        impl<$($first: Datum,)+ $last: Datum> Datum for ($($first,)+ $last,) {
            type View<'a> = ($($first::Part<'a>,)+ $last::View<'a>,);
            type Part<'a> = ($($first::Part<'a>,)+ $last::Part<'a>,);

            #[inline]
            fn read(mut bytes: &[u8]) -> Result<Self::View<'_>, DecodeError> {
                Ok(($($first::read_part(&mut bytes)?,)+ $last::read(bytes)?,))
            }

            #[inline]
            fn read_part<'a>(bytes: &mut &'a [u8]) -> Result<Self::Part<'a>, DecodeError> {
                Ok(($($first::read_part(bytes)?,)+ $last::read_part(bytes)?,))
            }

            fn own(view: Self::View<'_>) -> Self {
                ($($first::own_part(view.$index),)+ $last::own(view.$last_index),)
            }

            fn own_part(part: Self::Part<'_>) -> Self {
                ($($first::own_part(part.$index),)+ $last::own_part(part.$last_index),)
            }

            fn describe(bytes: &[u8]) -> String {
                let mut rest = bytes;
                let mut parts = || Ok::<_, DecodeError>([$($first::describe_part(&mut rest)?),+]);
                match parts() {
                    Ok(parts) => format!("{}, {}", parts.join(", "), $last::describe(rest)),
                    Err(_) => <Vec<u8>>::describe(bytes),
                }
            }

            fn describe_part(bytes: &mut &[u8]) -> Result<String, DecodeError> {
                let parts = [$($first::describe_part(bytes)?,)+ $last::describe_part(bytes)?];
                Ok(parts.join(", "))
            }

            fn text(mut bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
                $(
                    $first::text_part(&mut bytes, out)?;
                    out.push(BETWEEN);
                )+
                $last::text(bytes, out)?;
                Ok(true)
            }

            fn text_part(bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
                $(
                    $first::text_part(bytes, out)?;
                    out.push(BETWEEN);
                )+
                $last::text_part(bytes, out)?;
                Ok(true)
            }
        }

        impl<$($first: Key,)+ $last: Key> Key for ($($first,)+ $last,) {}

        impl<$($first: Datum, $first_put: Put<$first>,)+ $last: Datum, $last_put: Put<$last>>
            Put<($($first,)+ $last,)> for ($($first_put,)+ $last_put,)
        {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$index.put_part(out);)+
                self.$last_index.put(out);
            }

            #[inline]
            fn put_part(&self, out: &mut Vec<u8>) {
                $(self.$index.put_part(out);)+
                self.$last_index.put_part(out);
            }
        }
    };
}

tuple!(A PA 0; B PB 1);
tuple!(A PA 0, B PB 1; C PC 2);
tuple!(A PA 0, B PB 1, C PC 2; D PD 3);
tuple!(A PA 0, B PB 1, C PC 2, D PD 3; E PE 4);
tuple!(A PA 0, B PB 1, C PC 2, D PD 3, E PE 4; F PF 5);

impl<T: ToText> ToText for Desc<T> {
    fn write_text(&self, out: &mut Vec<u8>) {
        self.0.write_text(out);
    }

    fn is_absent(&self) -> bool {
        self.0.is_absent()
    }
}
