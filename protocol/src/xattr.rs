//! Extended attributes: names in namespaces, values of any bytes.

use serde::{Deserialize, Serialize};

use crate::wire::at_most;

/// Most bytes of an attribute's name (without its namespace) and value together.
pub const XATTR_BYTES_MAX: usize = 16_384;
/// Most bytes of a value that a message has room for; the NameNode refuses one over [`XATTR_BYTES_MAX`], in HDFS's words.
pub(crate) const VALUE_BYTES_SENT_MAX: usize = 1 << 20;
/// Most attributes of one file or directory.
pub const XATTRS_MAX: usize = 32;

/// Who may see and set an attribute. The order is that of lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum XattrSpace {
    /// Everybody with the rights on the file.
    User,
    /// The superuser alone.
    Trusted,
    /// The system's security code.
    Security,
    /// The system.
    System,
    /// The system, for copies that must not interpret the content.
    Raw,
}

/// The name of an attribute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct XattrName {
    /// Its namespace.
    pub space: XattrSpace,
    /// Its name there.
    pub name: String,
}

/// An attribute.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Xattr {
    /// Its name with its namespace, e.g. `user.a`.
    pub name: String,
    /// Its value.
    #[serde(deserialize_with = "at_most::<VALUE_BYTES_SENT_MAX, _, _>")]
    pub value: Vec<u8>,
}

/// What may happen when an attribute is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum XattrFlag {
    /// It is created or replaced.
    CreateOrReplace,
    /// It is created; it must not exist.
    Create,
    /// It is replaced; it must exist.
    Replace,
}

impl XattrSpace {
    const ALL: [XattrSpace; 5] = [
        XattrSpace::User,
        XattrSpace::Trusted,
        XattrSpace::Security,
        XattrSpace::System,
        XattrSpace::Raw,
    ];

    /// Its prefix, without the dot.
    pub fn as_str(self) -> &'static str {
        match self {
            XattrSpace::User => "user",
            XattrSpace::Trusted => "trusted",
            XattrSpace::Security => "security",
            XattrSpace::System => "system",
            XattrSpace::Raw => "raw",
        }
    }
}

impl XattrName {
    /// Reads `namespace.name`.
    ///
    /// # Errors
    /// [`XattrNameError`] in Hadoop's words.
    pub fn parse(text: &str) -> Result<XattrName, XattrNameError> {
        let (prefix, name) = text.split_once('.').ok_or(XattrNameError::Space)?;
        let mut spaces = XattrSpace::ALL.into_iter();
        let space = spaces.find(|space| space.as_str().eq_ignore_ascii_case(prefix));
        let space = space.ok_or(XattrNameError::Space)?;
        match name.is_empty() {
            true => Err(XattrNameError::Empty),
            false => Ok(XattrName { space, name: name.to_owned() }),
        }
    }

    /// `namespace.name`
    pub fn prefixed(&self) -> String {
        format!("{}.{}", self.space.as_str(), self.name)
    }
}

/// Text that names no attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum XattrNameError {
    /// No known namespace.
    #[error(
        "An XAttr name must be prefixed with user/trusted/security/system/raw, followed by a '.'"
    )]
    Space,
    /// Nothing after it.
    #[error("XAttr name cannot be empty.")]
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_namespaces() {
        for (text, canonical) in
            [("user.a", "user.a"), ("TRUSTED.B.c", "trusted.B.c"), ("raw.x", "raw.x")]
        {
            assert_eq!(XattrName::parse(text).unwrap().prefixed(), canonical);
        }
        for (text, error) in [
            ("a", XattrNameError::Space),
            ("", XattrNameError::Space),
            ("other.a", XattrNameError::Space),
            ("user.", XattrNameError::Empty),
        ] {
            assert_eq!(XattrName::parse(text), Err(error), "{text}");
        }
    }
}
