//! The delegation tokens of a NameNode: sealed and read here, judged and kept by the NameNode in its log.
//!
//! Invariants: a token is given out, extended or ended only when that is durable. One that is not in the list was cancelled, or has expired.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use protocol::auth::Key;
use protocol::delegation::{LIFETIME_MS, Order, Refusal, TokenInfo};

use crate::error::{Exception, WebError};
use crate::token::{DELEGATION_KIND, Delegation};

/// Longest name in a token, bytes: as a user's in a login link.
const NAME_BYTES_MAX: usize = 255;

/// Keeps the list: the NameNode. It answers only with what is durable.
pub trait Ledger: fmt::Debug + Send + Sync {
    /// The token of a number, which may have expired.
    fn find(&self, number: u32) -> BoxFuture<'_, Result<Option<TokenInfo>, Refusal>>;

    /// All tokens; some may have expired.
    fn all(&self) -> BoxFuture<'_, Result<Vec<TokenInfo>, Refusal>>;

    /// Carries out an order. Returns the token as it is now, or was.
    fn change(&self, order: Order) -> BoxFuture<'_, Result<TokenInfo, Refusal>>;
}

/// Issues, renews and cancels tokens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TokenManager {
    key: Key,
    ledger: Arc<dyn Ledger>,
}

/// A request for a token.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The user as whom its holder acts.
    pub owner: &'a str,
    /// Who may renew it; may be empty.
    pub renewer: &'a str,
    /// Hadoop's kind of token, if it is not the usual one.
    pub kind: Option<&'a str>,
    /// `host:port` that it is for.
    pub service: &'a str,
    /// How long it is valid unless it is renewed.
    pub lifetime_ms: u64,
}

impl TokenManager {
    /// Tokens under `key`, in the list of `ledger`.
    pub fn new(key: Key, ledger: Arc<dyn Ledger>) -> Self {
        TokenManager { key, ledger }
    }

    /// A new token.
    ///
    /// # Errors
    /// If a name has control characters or is too long, the lifetime is not between 1 ms and `LIFETIME_MS`, or there are too many tokens.
    pub async fn issue(&self, wanted: Wanted<'_>) -> Result<String, WebError> {
        let kind = wanted.kind.unwrap_or(DELEGATION_KIND);
        check(&wanted, kind)?;
        let order = Order::Issue {
            owner: wanted.owner.to_owned(),
            renewer: wanted.renewer.to_owned(),
            lifetime_ms: wanted.lifetime_ms,
        };
        let issued = self.ledger.change(order).await;
        let TokenInfo { number, owner, renewer, issued_ms, last_ms, .. } =
            issued.map_err(|refusal| refused(refusal, wanted.owner))?;
        let token = Delegation { owner, renewer, issued_ms, last_ms, sequence: number };
        Ok(token.seal(&self.key, kind, wanted.service))
    }

    /// The tokens that are good.
    ///
    /// # Errors
    /// If the NameNode is stopping.
    pub async fn list(&self, now_ms: u64) -> Result<Vec<TokenInfo>, WebError> {
        let mut tokens = self.ledger.all().await.map_err(|refusal| refused(refusal, ""))?;
        tokens.retain(|token| token.expires_ms >= now_ms);
        Ok(tokens)
    }

    /// Ends the token of a number, for an operator.
    ///
    /// # Errors
    /// If there is none.
    pub async fn cancel_number(&self, number: u32) -> Result<(), WebError> {
        let order = Order::Cancel { number, issued_ms: None, by: None };
        match self.ledger.change(order).await {
            Ok(_) => Ok(()),
            Err(Refusal::Missing) => {
                let text = format!("there is no delegation token {number}");
                Err(WebError::new(Exception::InvalidToken, text))
            }
            Err(refusal) => Err(refused(refusal, "")),
        }
    }

    /// The user as whom the holder of a token acts.
    ///
    /// # Errors
    /// If it is not valid any more, or never was.
    pub async fn owner(&self, text: &str, now_ms: u64) -> Result<String, WebError> {
        let token = self.read(text)?;
        let found = self.ledger.find(token.sequence).await;
        let found = found.map_err(|refusal| refused(refusal, &token.owner))?;
        match found.filter(|found| found.issued_ms == token.issued_ms) {
            None => Err(refused(Refusal::Missing, &token.owner)),
            Some(found) if found.expires_ms < now_ms => {
                Err(refused(Refusal::Expired, &token.owner))
            }
            Some(_) => Ok(token.owner),
        }
    }

    /// Extends a token, for its renewer or, without a `user`, for an operator; returns its new end.
    ///
    /// # Errors
    /// If `user` is not its renewer, or it is not good any more.
    pub async fn renew(&self, text: &str, user: Option<&str>) -> Result<u64, WebError> {
        let token = self.read(text)?;
        let (number, issued_ms) = (token.sequence, token.issued_ms);
        let order = Order::Renew { number, issued_ms, by: user.map(str::to_owned) };
        match self.ledger.change(order).await {
            Ok(renewed) => Ok(renewed.expires_ms),
            Err(Refusal::NotRenewer) => {
                let (user, renewer) = (user.unwrap_or_default(), &token.renewer);
                let text = format!("{user} tries to renew a token with renewer {renewer}");
                Err(WebError::new(Exception::AccessControl, text))
            }
            Err(refusal) => Err(refused(refusal, &token.owner)),
        }
    }

    /// Ends a token, for its owner or renewer or, without a `user`, for an operator.
    ///
    /// # Errors
    /// If `user` is neither, or the token is not good any more.
    pub async fn cancel(&self, text: &str, user: Option<&str>) -> Result<(), WebError> {
        let token = self.read(text)?;
        let (number, issued_ms) = (token.sequence, Some(token.issued_ms));
        let order = Order::Cancel { number, issued_ms, by: user.map(str::to_owned) };
        match self.ledger.change(order).await {
            Ok(_) => Ok(()),
            Err(Refusal::NotOwner) => {
                let user = user.unwrap_or_default();
                let text = format!("{user} is not authorized to cancel the token");
                Err(WebError::new(Exception::AccessControl, text))
            }
            Err(refusal) => Err(refused(refusal, &token.owner)),
        }
    }

    fn read(&self, text: &str) -> Result<Delegation, WebError> {
        Delegation::open(&self.key, text)
            .map_err(|error| WebError::new(Exception::InvalidToken, error.to_string()))
    }
}

/// Checks what the caller says.
fn check(wanted: &Wanted<'_>, kind: &str) -> Result<(), WebError> {
    let names = [
        ("user.name", wanted.owner),
        ("kind", kind),
        ("renewer", wanted.renewer),
        ("service", wanted.service),
    ];
    for (name, text) in names {
        if text.chars().any(char::is_control) {
            return Err(WebError::parameter(name, "control characters"));
        }
        if text.len() > NAME_BYTES_MAX {
            let problem = format!("more than {NAME_BYTES_MAX} bytes");
            return Err(WebError::parameter(name, problem));
        }
    }
    if !(1..=LIFETIME_MS).contains(&wanted.lifetime_ms) {
        let problem = format!("a token is good for 1 ms to {LIFETIME_MS} ms (seven days)");
        return Err(WebError::parameter("lifetime", problem));
    }
    Ok(())
}

/// The refusal in Hadoop's words.
fn refused(refusal: Refusal, owner: &str) -> WebError {
    let (exception, what) = match refusal {
        Refusal::Missing => (Exception::InvalidToken, "can't be found in cache"),
        Refusal::Expired => (Exception::InvalidToken, "is expired"),
        Refusal::NotRenewer | Refusal::NotOwner => {
            return WebError::new(Exception::AccessControl, refusal.to_string());
        }
        Refusal::Full | Refusal::Share { .. } => {
            return WebError::new(Exception::Io, refusal.to_string());
        }
        Refusal::SafeMode(text) => return WebError::new(Exception::SafeMode, text),
        Refusal::Stopping => return WebError::new(Exception::Runtime, refusal.to_string()),
    };
    WebError::new(exception, format!("token ({DELEGATION_KIND} token for {owner}) {what}"))
}

#[cfg(test)]
mod tests {
    use protocol::delegation::RENEW_INTERVAL_MS;

    use super::*;

    #[test]
    fn names_have_no_control_characters_and_an_end() {
        let good = Wanted {
            owner: "alice",
            renewer: "yarn",
            kind: None,
            service: "nn:9870",
            lifetime_ms: RENEW_INTERVAL_MS,
        };
        assert_eq!(check(&good, DELEGATION_KIND), Ok(()));
        let long = "x".repeat(256);
        for (wanted, kind) in [
            (Wanted { renewer: "a\0b", ..good }, DELEGATION_KIND),
            (good, "kind\0x"),
            (Wanted { service: "host\n:1", ..good }, DELEGATION_KIND),
            (Wanted { renewer: &long, ..good }, DELEGATION_KIND),
            (Wanted { lifetime_ms: 0, ..good }, DELEGATION_KIND),
            (Wanted { lifetime_ms: LIFETIME_MS + 1, ..good }, DELEGATION_KIND),
        ] {
            let refused = check(&wanted, kind).unwrap_err();
            assert_eq!(refused.exception, Exception::IllegalArgument, "{wanted:?} {kind:?}");
        }
    }
}
