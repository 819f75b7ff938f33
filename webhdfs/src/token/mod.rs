//! Delegation tokens in Hadoop's own form, and the tokens in redirects.
//!
//! ```text
//! token       vint length, identifier | vint length, password | text kind | text service      as URL-safe base64, no padding
//! delegation  0 | text owner | text renewer | text real user | vlong issued | vlong last | vint sequence | vint key id
//! redirect    1 | text user | text operation | text path | vlong expires
//! text        vint length, UTF-8
//! password    HMAC-SHA256 over length of kind (8 bytes, big-endian), kind, identifier; under a key derived from the cluster secret
//! ```
//!
//! vint and vlong are those of Hadoop's `WritableUtils`: one byte from -112 to 127, else a length and big-endian bytes.
//! Java's client reads the outer form and passes the rest on. Decoding is total: any text is a token or an error.

pub mod hadoop_file;
pub mod keeper;
pub mod manager;
pub mod operator;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use protocol::DfsPath;
use protocol::auth::Key;

use crate::op::Op;

/// Kind of a delegation token, as Hadoop names WebHDFS's.
pub const DELEGATION_KIND: &str = "WEBHDFS delegation";
/// Kind of a redirect's token.
pub(crate) const REDIRECT_KIND: &str = "HANNO redirect";
/// How long a redirect's token is valid, milliseconds: an hour. Clients like fsspec keep the URL for a whole upload.
pub const REDIRECT_LIFETIME_MS: u64 = 3_600_000;
/// Longest token, characters: far above any real one, far below what a request's head may hold.
const TOKEN_CHARACTERS_MAX: usize = 16 << 10;
/// First byte of a delegation token's identifier.
const DELEGATION_VERSION: u8 = 0;
/// First byte of a redirect's identifier.
const REDIRECT_VERSION: u8 = 1;

/// Why a text is not a token, or not a valid one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    /// It is not in the form of a token.
    #[error("the token does not decode")]
    Malformed,
    /// It was not issued by this cluster, or for something else.
    #[error("the token is not one of this cluster's for this use")]
    Forged,
    /// Its time is over.
    #[error("the token is expired")]
    Expired,
}

/// The key of these tokens.
pub fn token_key(secret: &Key) -> Key {
    secret.derive("hanno webhdfs token key")
}

/// What a delegation token says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delegation {
    /// The user as whom its holder acts.
    pub owner: String,
    /// Who may renew it.
    pub renewer: String,
    /// When it was issued, milliseconds since the epoch.
    pub issued_ms: u64,
    /// When it ends however often it is renewed, milliseconds since the epoch.
    pub last_ms: u64,
    /// Its number.
    pub sequence: u32,
}

impl Delegation {
    /// The token, for the service at `service` (`host:port`).
    pub fn seal(&self, key: &Key, kind: &str, service: &str) -> String {
        let mut identifier = vec![DELEGATION_VERSION];
        for text in [&self.owner, &self.renewer, ""] {
            put_text(&mut identifier, text);
        }
        for number in [self.issued_ms, self.last_ms, u64::from(self.sequence), 1] {
            put_number(&mut identifier, number);
        }
        Sealed::new(key, kind, identifier).encode(service)
    }

    /// Reads and checks a token. Whether it was cancelled or has run out is for the keeper of the list to decide.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn open(key: &Key, text: &str) -> Result<Self, TokenError> {
        let sealed = Sealed::decode(text)?;
        if sealed.kind == REDIRECT_KIND || !sealed.is_genuine(key) {
            return Err(TokenError::Forged);
        }
        let mut input = Input(&sealed.identifier);
        if input.byte()? != DELEGATION_VERSION {
            return Err(TokenError::Malformed);
        }
        let (owner, renewer, _real) = (input.text()?, input.text()?, input.text()?);
        let (issued_ms, last_ms) = (input.number()?, input.number()?);
        let sequence = u32::try_from(input.number()?).map_err(|_| TokenError::Malformed)?;
        Ok(Delegation { owner, renewer, issued_ms, last_ms, sequence })
    }
}

/// What a redirect's token permits: one operation on one path, as one user, as often as wanted, for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    /// The user as whom its holder acts.
    pub user: String,
    /// When it ends, milliseconds since the epoch.
    pub expires_ms: u64,
}

impl Redirect {
    /// The token.
    pub fn seal(&self, key: &Key, op: Op, path: &DfsPath) -> String {
        let mut identifier = vec![REDIRECT_VERSION];
        for text in [&self.user, op.name(), path.as_str()] {
            put_text(&mut identifier, text);
        }
        put_number(&mut identifier, self.expires_ms);
        Sealed::new(key, REDIRECT_KIND, identifier).encode("")
    }

    /// True for a token that has the form of a redirect's, whoever made it.
    pub(crate) fn is_one(text: &str) -> bool {
        Sealed::decode(text).is_ok_and(|sealed| sealed.kind == REDIRECT_KIND)
    }

    /// The user that a token lets do `op` on `path` now.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn open(
        key: &Key,
        text: &str,
        op: Op,
        path: &DfsPath,
        now_ms: u64,
    ) -> Result<String, TokenError> {
        let sealed = Sealed::decode(text)?;
        if sealed.kind != REDIRECT_KIND || !sealed.is_genuine(key) {
            return Err(TokenError::Forged);
        }
        let mut input = Input(&sealed.identifier);
        if input.byte()? != REDIRECT_VERSION {
            return Err(TokenError::Malformed);
        }
        let user = input.text()?;
        if input.text()? != op.name() || input.text()? != path.as_str() {
            return Err(TokenError::Forged);
        }
        if input.number()? < now_ms {
            return Err(TokenError::Expired);
        }
        Ok(user)
    }
}

/// The outer form.
pub(crate) struct Sealed {
    identifier: Vec<u8>,
    password: Vec<u8>,
    kind: String,
}

impl Sealed {
    pub(crate) fn new(key: &Key, kind: &str, identifier: Vec<u8>) -> Self {
        let password = key.mac(&[&length_of(kind), kind.as_bytes(), &identifier]).to_vec();
        Sealed { identifier, password, kind: kind.to_owned() }
    }

    fn is_genuine(&self, key: &Key) -> bool {
        let kind = &self.kind;
        key.mac_matches(&[&length_of(kind), kind.as_bytes(), &self.identifier], &self.password)
    }

    pub(crate) fn encode(&self, service: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes(service))
    }

    fn bytes(&self, service: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [&self.identifier, &self.password] {
            put_number(&mut bytes, part.len() as u64);
            bytes.extend_from_slice(part);
        }
        put_text(&mut bytes, &self.kind);
        put_text(&mut bytes, service);
        bytes
    }

    fn decode(text: &str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_CHARACTERS_MAX {
            return Err(TokenError::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| TokenError::Malformed)?;
        let mut input = Input(&bytes);
        let identifier = input.bytes()?.to_vec();
        let password = input.bytes()?.to_vec();
        let kind = input.text()?;
        input.text()?;
        Ok(Sealed { identifier, password, kind })
    }
}

/// Stands before a kind, so that no other split between kind and identifier has the same password.
fn length_of(kind: &str) -> [u8; 8] {
    (kind.len() as u64).to_be_bytes()
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, TokenError> {
        let (first, rest) = self.0.split_first().ok_or(TokenError::Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, TokenError> {
        let first = self.byte()?.cast_signed();
        if first >= -112 {
            return u64::try_from(first).map_err(|_| TokenError::Malformed);
        }
        // First bytes below -120 mark negative numbers: no token has any.
        let count = usize::try_from(-112 - i16::from(first)).map_err(|_| TokenError::Malformed)?;
        if count > 8 {
            return Err(TokenError::Malformed);
        }
        let mut number = 0;
        for _ in 0..count {
            number = number << 8 | u64::from(self.byte()?);
        }
        Ok(number)
    }

    fn bytes(&mut self) -> Result<&'a [u8], TokenError> {
        let length = usize::try_from(self.number()?).map_err(|_| TokenError::Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(TokenError::Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, TokenError> {
        let bytes = self.bytes()?.to_vec();
        String::from_utf8(bytes).map_err(|_| TokenError::Malformed)
    }
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    if number <= 127 {
        out.push(u8::try_from(number).expect("at most 127"));
        return;
    }
    let bytes = number.to_be_bytes();
    let skip = (number.leading_zeros() / 8) as usize;
    let count = i8::try_from(bytes.len() - skip).expect("at most 8");
    out.push((-112 - count).cast_unsigned());
    out.extend_from_slice(&bytes[skip..]);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        token_key(&Key::new([5; 32]))
    }

    fn delegation() -> Delegation {
        Delegation {
            owner: "alice".to_owned(),
            renewer: "yarn".to_owned(),
            issued_ms: 1_700_000_000_000,
            last_ms: 1_700_604_800_000,
            sequence: 300,
        }
    }

    #[test]
    fn numbers_are_hadoops() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x8f, 0x80]),
            (255, &[0x8f, 0xff]),
            (256, &[0x8e, 1, 0]),
            (1_700_000_000_000, &[0x8a, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00]),
        ] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(out, bytes, "{number}");
            assert_eq!(Input(&out).number(), Ok(number));
        }
    }

    #[test]
    fn a_token_opens_with_its_key_alone() {
        let token = delegation().seal(&key(), DELEGATION_KIND, "127.0.0.1:9870");
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert_eq!(Delegation::open(&key(), &token), Ok(delegation()));
        let other = token_key(&Key::new([6; 32]));
        assert_eq!(Delegation::open(&other, &token), Err(TokenError::Forged));
        // Hadoop's empty token.
        assert_eq!(Delegation::open(&key(), "AAAAAA"), Err(TokenError::Forged));
    }

    #[test]
    fn no_flipped_or_missing_byte_passes() {
        let token = delegation().seal(&key(), DELEGATION_KIND, "");
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for index in 0..bytes.len() - 1 {
            let mut bad = bytes.clone();
            bad[index] ^= 1;
            assert!(Delegation::open(&key(), &URL_SAFE_NO_PAD.encode(&bad)).is_err(), "{index}");
            let cut = URL_SAFE_NO_PAD.encode(&bytes[..index]);
            assert!(Delegation::open(&key(), &cut).is_err(), "{index}");
        }
    }

    #[test]
    fn a_password_is_for_one_kind_and_one_identifier() {
        let sealed = Sealed::new(&key(), "a\0b", b"c".to_vec());
        for (kind, identifier) in [("a", &b"b\0c"[..]), ("a\0", b"bc"), ("a\0bc", b"")] {
            let (kind, identifier) = (kind.to_owned(), identifier.to_vec());
            let moved = Sealed { kind, identifier, password: sealed.password.clone() };
            assert!(!moved.is_genuine(&key()), "{:?}", moved.kind);
        }
        assert!(sealed.is_genuine(&key()));
    }

    #[test]
    fn a_redirect_permits_one_thing_for_a_while() {
        let path = DfsPath::parse("/a b").unwrap();
        let redirect = Redirect { user: "bob".to_owned(), expires_ms: 1000 };
        let token = redirect.seal(&key(), Op::Open, &path);
        let open = |op, path: &DfsPath, now| Redirect::open(&key(), &token, op, path, now);
        assert_eq!(open(Op::Open, &path, 1000).as_deref(), Ok("bob"));
        assert_eq!(open(Op::Open, &path, 1001), Err(TokenError::Expired));
        assert_eq!(open(Op::Create, &path, 1), Err(TokenError::Forged));
        assert_eq!(open(Op::Open, &DfsPath::root(), 1), Err(TokenError::Forged));
        assert_eq!(Delegation::open(&key(), &token), Err(TokenError::Forged));
        let delegation = delegation().seal(&key(), DELEGATION_KIND, "");
        let opened = Redirect::open(&key(), &delegation, Op::Open, &path, 1);
        assert_eq!(opened, Err(TokenError::Forged));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[A-Za-z0-9_=-]{0,300}") {
            proptest::prop_assert!(Delegation::open(&key(), &text).is_err());
        }
    }
}
