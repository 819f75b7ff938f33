//! Operators' requests to the NameNode about delegation tokens: `POST /rpc/tokens` with a [`Request`], answered by `Result<Reply, RemoteError>`. Only holders
//! of the cluster secret may ask; others use WebHDFS.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::RemoteError;
use crate::wire::at_most;

/// Most tokens that are valid at once: a hundred bytes each, in memory and in the checkpoint.
pub const TOKENS_MAX: usize = 10_000;
/// An owner who has tokens gets more while it has at most this many times what is left to all others: three quarters where nobody else has any.
pub const TOKENS_PART: usize = 3;
/// How long a token is valid unless it is renewed, and how long a renewal extends it, as HDFS: a day.
pub const RENEW_INTERVAL_MS: u64 = 24 * 3_600_000;
/// How long a token can be renewed, as HDFS: seven days. No token is issued for longer, either.
pub const LIFETIME_MS: u64 = 7 * RENEW_INTERVAL_MS;

/// Version of this conversation; both sides must agree.
pub const VERSION: u16 = 1;

/// A call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u16,
    /// The call itself.
    pub body: Call,
}

/// The answer to a [`Request`].
pub type Answer = Result<Reply, RemoteError>;

/// The calls. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Call {
    /// A new token. -> [`Reply::Token`]
    Issue {
        /// Whom its holder acts as.
        owner: String,
        /// Who may renew it; may be empty.
        renewer: String,
        /// `host:port` that it is for.
        service: String,
        /// How long it is valid unless renewed, milliseconds.
        lifetime_ms: u64,
    },
    /// Extend a token's validity, whoever its renewer is. -> [`Reply::Until`]
    Renew(String),
    /// End a token. -> [`Reply::Done`]
    Cancel(String),
    /// End the token with this number. -> [`Reply::Done`]
    CancelNumber(u32),
    /// The valid tokens, by number. -> [`Reply::Tokens`]
    List,
}

/// The answers. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The token.
    Token(String),
    /// When it ends, milliseconds since the epoch.
    Until(u64),
    /// Tokens.
    Tokens(#[serde(deserialize_with = "at_most::<TOKENS_MAX, _, _>")] Vec<TokenInfo>),
}

/// A valid token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenInfo {
    /// Its number.
    pub number: u32,
    /// Whom its holder acts as.
    pub owner: String,
    /// Who may renew it.
    pub renewer: String,
    /// When it was issued, milliseconds since the epoch.
    pub issued_ms: u64,
    /// When it ends unless renewed, milliseconds since the epoch.
    pub expires_ms: u64,
    /// When it ends however often it is renewed, milliseconds since the epoch.
    pub last_ms: u64,
}

/// A change of the list of tokens, as it is judged by the NameNode. A user `by` is checked; an operator, without a name, may do everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// A new token.
    Issue {
        /// Whom its holder acts as.
        owner: String,
        /// Who may renew it; may be empty.
        renewer: String,
        /// How long it is valid unless renewed, milliseconds.
        lifetime_ms: u64,
    },
    /// Extend a token's validity.
    Renew {
        /// Its number.
        number: u32,
        /// When it was issued.
        issued_ms: u64,
        /// Who wants it.
        by: Option<String>,
    },
    /// End a token.
    Cancel {
        /// Its number.
        number: u32,
        /// When it was issued, if that is known.
        issued_ms: Option<u64>,
        /// Who wants it.
        by: Option<String>,
    },
}

/// Why the list of tokens was not changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// There are [`TOKENS_MAX`] tokens already.
    #[error(
        "there are {TOKENS_MAX} delegation tokens already; `hanno admin token list` shows them"
    )]
    Full,
    /// The owner has its share of [`TOKENS_MAX`].
    #[error(
        "{owner} has {count} delegation tokens, and the rest is for others; `hanno admin token list` shows them, and `cancel` ends one"
    )]
    Share {
        /// Whose they are.
        owner: String,
        /// How many it has.
        count: usize,
    },
    /// It is not in the list: it was cancelled, or never issued.
    #[error("there is no such delegation token")]
    Missing,
    /// The user is not its renewer.
    #[error("only the renewer of a delegation token can renew it")]
    NotRenewer,
    /// The user is neither its owner nor its renewer.
    #[error("only the owner or the renewer of a delegation token can cancel it")]
    NotOwner,
    /// Its time is over.
    #[error("the delegation token is expired")]
    Expired,
    /// A disk of the metadata is nearly full, and tokens would fill it; the text says so.
    #[error("{0}")]
    SafeMode(String),
    /// The NameNode is stopping.
    #[error("the NameNode is stopping")]
    Stopping,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn golden_bytes() {
        let issue = Call::Issue {
            owner: "a".to_owned(),
            renewer: String::new(),
            service: "h:1".to_owned(),
            lifetime_ms: 300,
        };
        for (body, bytes) in [
            (issue, &b"\x01\x00\x01a\x00\x03h:1\xac\x02"[..]),
            (Call::Renew("t".to_owned()), b"\x01\x01\x01t"),
            (Call::Cancel("t".to_owned()), b"\x01\x02\x01t"),
            (Call::CancelNumber(300), b"\x01\x03\xac\x02"),
            (Call::List, b"\x01\x04"),
        ] {
            let request = Request { version: VERSION, body };
            assert_eq!(wire::encode(&request), bytes, "{request:?}");
            assert_eq!(wire::decode::<Request>(bytes, "request"), Ok(request));
            for end in 0..bytes.len() {
                assert!(wire::decode::<Request>(&bytes[..end], "request").is_err());
            }
        }
    }
}
