//! The delegation tokens that are valid: one that is not in the list was cancelled, or has expired.
//!
//! Row of the checkpoint: `t` + number u32, big endian -> postcard([`Token`]).

use std::collections::{BTreeMap, BTreeSet};

use protocol::delegation::{
    LIFETIME_MS, Order, RENEW_INTERVAL_MS, Refusal, TOKENS_MAX, TOKENS_PART, TokenInfo,
};

use super::edit::{StandingEdit, Token};
use crate::core::inodes::{Row, decode, encode};
use crate::core::random::Generator;
use crate::error::CoreError;

/// First byte of a token's row.
pub(in crate::core) const ROW_PREFIX: u8 = b't';

/// The list.
#[derive(Default, Debug)]
pub struct Tokens {
    by_number: BTreeMap<u32, Token>,
    dirty: BTreeSet<u32>,
}

impl Tokens {
    /// A token of the list, which may have expired.
    pub fn get(&self, number: u32) -> Option<TokenInfo> {
        self.by_number.get(&number).map(|token| info(number, token))
    }

    /// The tokens of the list; some may have expired.
    pub fn all(&self) -> Vec<TokenInfo> {
        self.by_number.iter().map(|(number, token)| info(*number, token)).collect()
    }

    /// Judges an order: the number of its token, and the edit that it leads to.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(in crate::core) fn judge(
        &self,
        order: &Order,
        now_ms: u64,
        random: &mut Generator,
    ) -> Result<(u32, StandingEdit), Refusal> {
        match order {
            Order::Issue { owner, renewer, lifetime_ms } => {
                self.check_share(owner, now_ms)?;
                let token = Token {
                    owner: owner.clone(),
                    renewer: renewer.clone(),
                    issued_ms: now_ms,
                    expires_ms: now_ms.saturating_add((*lifetime_ms).min(LIFETIME_MS)),
                    last_ms: now_ms.saturating_add(LIFETIME_MS),
                };
                let number = self.free_number(random);
                Ok((number, StandingEdit::IssueToken { number, token }))
            }
            Order::Renew { number, issued_ms, by } => {
                let token = self.find(*number, Some(*issued_ms))?;
                if by.as_ref().is_some_and(|by| by.is_empty() || *by != token.renewer) {
                    return Err(Refusal::NotRenewer);
                }
                if token.expires_ms < now_ms || token.last_ms < now_ms {
                    return Err(Refusal::Expired);
                }
                let expires_ms = now_ms.saturating_add(RENEW_INTERVAL_MS).min(token.last_ms);
                // A renewal never takes away what a token was given at first.
                let expires_ms = expires_ms.max(token.expires_ms);
                Ok((*number, StandingEdit::RenewToken { number: *number, expires_ms }))
            }
            Order::Cancel { number, issued_ms, by } => {
                let token = self.find(*number, *issued_ms)?;
                if by.as_ref().is_some_and(|by| *by != token.owner && *by != token.renewer) {
                    return Err(Refusal::NotOwner);
                }
                Ok((*number, StandingEdit::CancelToken { number: *number }))
            }
        }
    }

    /// Whether `owner` can have one more: nobody takes all of them.
    fn check_share(&self, owner: &str, now_ms: u64) -> Result<(), Refusal> {
        let valid = || self.by_number.values().filter(|token| token.expires_ms >= now_ms);
        let count = valid().filter(|token| token.owner == owner).count();
        let left = TOKENS_MAX.checked_sub(valid().count() + 1).ok_or(Refusal::Full)?;
        match count == 0 || count < TOKENS_PART * left {
            true => Ok(()),
            false => Err(Refusal::Share { owner: owner.to_owned(), count }),
        }
    }

    fn find(&self, number: u32, issued_ms: Option<u64>) -> Result<&Token, Refusal> {
        let token = self.by_number.get(&number);
        let is_it = |token: &&Token| issued_ms.is_none_or(|issued_ms| issued_ms == token.issued_ms);
        token.filter(is_it).ok_or(Refusal::Missing)
    }

    /// Tokens are far fewer than numbers, so this ends soon.
    fn free_number(&self, random: &mut Generator) -> u32 {
        loop {
            // Hadoop's numbers are signed.
            let number = u32::try_from(random.next_number() >> 33).expect("31 bits are left");
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    pub(super) fn issue(&mut self, number: u32, token: &Token) {
        let (by_number, dirty) = (&mut self.by_number, &mut self.dirty);
        by_number.retain(|number, other| {
            let stays = other.expires_ms >= token.issued_ms;
            if !stays {
                dirty.insert(*number);
            }
            stays
        });
        by_number.insert(number, token.clone());
        dirty.insert(number);
    }

    pub(super) fn renew(&mut self, number: u32, expires_ms: u64) -> Result<(), CoreError> {
        self.by_number.get_mut(&number).ok_or(CoreError::NoToken { number })?.expires_ms =
            expires_ms;
        self.dirty.insert(number);
        Ok(())
    }

    pub(super) fn cancel(&mut self, number: u32) -> Result<(), CoreError> {
        self.by_number.remove(&number).ok_or(CoreError::NoToken { number })?;
        self.dirty.insert(number);
        Ok(())
    }

    pub(super) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    pub(super) fn take_rows(&mut self) -> impl Iterator<Item = Row> {
        let dirty = std::mem::take(&mut self.dirty).into_iter();
        dirty.map(|number| (row_key(number), self.by_number.get(&number).map(encode)))
    }

    pub(super) fn load_row(&mut self, rest: &[u8], value: &[u8]) -> Result<(), CoreError> {
        let number = rest.try_into().map_err(|_| CoreError::BadRow("a token"))?;
        self.by_number.insert(u32::from_be_bytes(number), decode(value, "a token")?);
        Ok(())
    }
}

fn row_key(number: u32) -> Vec<u8> {
    [&[ROW_PREFIX][..], &number.to_be_bytes()].concat()
}

fn info(number: u32, token: &Token) -> TokenInfo {
    let Token { owner, renewer, issued_ms, expires_ms, last_ms } = token.clone();
    TokenInfo { number, owner, renewer, issued_ms, expires_ms, last_ms }
}
