//! The name of an inode: inline up to 22 bytes, which is most of them, so that it costs no allocation of its own.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// Bytes that fit beside the length and the tag in three words.
const INLINE_BYTES: usize = 22;

/// A path element, or the empty name of the root.
#[derive(Clone)]
pub struct Name(Text);

#[derive(Clone)]
enum Text {
    Short { len: u8, bytes: [u8; INLINE_BYTES] },
    Long(Box<str>),
}

const _: () = assert!(size_of::<Name>() == 24, "a name is part of every inode");

impl Name {
    /// Its bytes; they sort as the text does.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(text) => text.as_bytes(),
        }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Short { .. } => {
                std::str::from_utf8(self.as_bytes()).expect("the bytes were copied from a text")
            }
            Text::Long(text) => text,
        }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(text.as_bytes());
                Name(Text::Short { len, bytes })
            }
            _ => Name(Text::Long(text.into())),
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_is_kept_and_ordered_as_text() {
        let texts: Vec<String> = (0..60).map(|count| "aé".repeat(count)).collect();
        for (left, longer) in texts.iter().zip(texts.iter().skip(1)) {
            let (name, next) = (Name::from(left.as_str()), Name::from(longer.as_str()));
            assert_eq!((&*name, name.as_bytes()), (left.as_str(), left.as_bytes()));
            assert!(name < next && name == name.clone() && name != next);
            assert_eq!(format!("{name:?}"), format!("{left:?}"));
        }
        assert!(matches!(Name::from("a23456789012345678901z").0, Text::Short { len: 22, .. }));
        assert!(matches!(Name::from("a234567890123456789012z").0, Text::Long(_)));
    }
}
