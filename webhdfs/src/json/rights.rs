//! Access control lists and extended attributes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::acl::AclStatus;
use protocol::permission::STICKY;
use protocol::xattr::Xattr;
use serde_json::{Value, json};

/// How values of attributes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// In quotes.
    Text,
    /// After `0x`.
    Hex,
    /// After `0s`.
    Base64,
}

impl Encoding {
    /// Reads its name in any case.
    pub fn parse(text: &str) -> Option<Encoding> {
        let names =
            [("text", Encoding::Text), ("hex", Encoding::Hex), ("base64", Encoding::Base64)];
        let found = names.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, encoding)| encoding)
    }

    fn encode(self, value: &[u8]) -> String {
        match self {
            Encoding::Text => format!("\"{}\"", String::from_utf8_lossy(value)),
            Encoding::Hex => {
                let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits}")
            }
            Encoding::Base64 => format!("0s{}", STANDARD.encode(value)),
        }
    }
}

/// A value as it was sent: in quotes, hexadecimal after `0x`, base64 after `0s`, else as it is. `None` if it is not what its
/// beginning says.
pub fn decode_value(text: &str) -> Option<Vec<u8>> {
    let prefix = text.get(..2).map(str::to_ascii_lowercase);
    match prefix.as_deref() {
        Some("0x") => decode_hex(&text[2..]),
        Some("0s") => STANDARD.decode(&text[2..]).ok(),
        _ => {
            let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            Some(quoted.unwrap_or(text).as_bytes().to_vec())
        }
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect()
}

/// `AclStatus`.
pub fn acl_status(status: &AclStatus) -> Value {
    let entries: Vec<String> = status.entries.iter().map(ToString::to_string).collect();
    json!({ "AclStatus": {
        "entries": entries,
        "group": status.group,
        "owner": status.owner,
        "permission": format!("{:o}", status.mode & !STICKY),
        "stickyBit": status.mode & STICKY != 0,
    }})
}

/// `XAttrs`.
pub fn xattrs(xattrs: &[Xattr], encoding: Encoding) -> Value {
    let entry = |xattr: &Xattr| {
        let value = (!xattr.value.is_empty()).then(|| encoding.encode(&xattr.value));
        json!({ "name": xattr.name, "value": value })
    };
    json!({ "XAttrs": xattrs.iter().map(entry).collect::<Vec<Value>>() })
}

/// `XAttrNames`: a text that holds an array.
pub fn xattr_names(xattrs: &[Xattr]) -> Value {
    let names: Vec<&str> = xattrs.iter().map(|xattr| xattr.name.as_str()).collect();
    json!({ "XAttrNames": json!(names).to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::acl::AclEntry;

    #[test]
    fn values_are_read_and_shown() {
        for (text, value) in [
            ("\"v\"", Some(&b"v"[..])),
            ("v", Some(b"v")),
            ("\"", Some(b"\"")),
            ("0x3132", Some(b"12")),
            ("0XfF", Some(b"\xff")),
            ("0x3", None),
            ("0xzz", None),
            ("0sMTI=", Some(b"12")),
            ("0s*", None),
            ("", Some(b"")),
        ] {
            assert_eq!(decode_value(text).as_deref(), value, "{text}");
        }
        let xattr =
            |name: &str, value: &[u8]| Xattr { name: name.to_owned(), value: value.to_vec() };
        let list = [xattr("user.a", b"1"), xattr("user.b", b"")];
        for (encoding, shown) in [("TEXT", "\"1\""), ("Hex", "0x31"), ("base64", "0sMQ==")] {
            let value = xattrs(&list, Encoding::parse(encoding).unwrap());
            let expected = json!({ "XAttrs": [
                { "name": "user.a", "value": shown }, { "name": "user.b", "value": null },
            ]});
            assert_eq!(value, expected);
        }
        assert_eq!(xattr_names(&list).to_string(), r#"{"XAttrNames":"[\"user.a\",\"user.b\"]"}"#);
    }

    #[test]
    fn lists_have_hadoops_fields() {
        let text = "user:bob:rwx,group::r-x,default:user::rwx";
        let status = AclStatus {
            owner: "alice".to_owned(),
            group: "staff".to_owned(),
            mode: 0o1775,
            entries: AclEntry::parse_list(text, true).unwrap(),
        };
        assert_eq!(
            acl_status(&status).to_string(),
            r#"{"AclStatus":{"entries":["user:bob:rwx","group::r-x","default:user::rwx"],"group":"staff","owner":"alice","permission":"775","stickyBit":true}}"#
        );
    }
}
