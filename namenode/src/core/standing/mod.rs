//! Standing orders: what operators and users arranged beside the namespace. It outlives the process.
//!
//! | file | what |
//! |---|---|
//! | `edit` | the changes, as they are in the log |
//! | `tokens` | the delegation tokens that are valid |
//! | `maintenance` | DataNodes in maintenance, and what they hold |
//!
//! | row | value |
//! |---|---|
//! | `h` | nothing; earlier builds logged safe mode by hand, which now ends with the process |
//! | `l` | postcard([`FeatureLevel`]) |
//!
//! The files have the other rows.
//!
//! Invariants: it changes by [`Standing::apply`] alone, live and on replay. Nothing in it is secret.

mod edit;
mod maintenance;
#[cfg(test)]
mod tests;
mod tokens;

use protocol::FeatureLevel;
use protocol::level::Supported;

pub use self::edit::{NodeAway, ReplicaAway, StandingEdit, Token};
pub use self::maintenance::{NodesAway, REPLICAS_PER_ROW};
pub use self::tokens::Tokens;

use self::{maintenance as away, tokens as list};
use super::inodes::{Row, decode, encode};
use crate::error::CoreError;

/// Key of the row that earlier builds had while safe mode was on by hand.
const SAFE_MODE_PREFIX: u8 = b'h';
/// Key of the feature level's row.
const LEVEL_PREFIX: u8 = b'l';

/// The standing orders.
#[derive(Default, Debug)]
pub struct Standing {
    /// The delegation tokens that are valid.
    pub tokens: Tokens,
    /// DataNodes in maintenance.
    pub away: NodesAway,
    level: FeatureLevel,
    is_safe_by_hand: bool,
    is_flag_dirty: bool,
    is_level_dirty: bool,
}

impl Standing {
    /// The feature level of the cluster.
    pub fn level(&self) -> FeatureLevel {
        self.level
    }

    /// True if the log of an earlier build left safe mode on by hand; nothing depends on it.
    #[cfg(test)]
    pub fn is_safe_by_hand(&self) -> bool {
        self.is_safe_by_hand
    }

    /// Applies one edit.
    ///
    /// # Errors
    /// [`CoreError`] if it does not fit; then nothing has changed.
    pub fn apply(&mut self, edit: &StandingEdit) -> Result<(), CoreError> {
        match edit {
            StandingEdit::SafeMode { on } => {
                (self.is_safe_by_hand, self.is_flag_dirty) = (*on, true);
            }
            StandingEdit::IssueToken { number, token } => self.tokens.issue(*number, token),
            StandingEdit::RenewToken { number, expires_ms } => {
                self.tokens.renew(*number, *expires_ms)?;
            }
            StandingEdit::CancelToken { number } => self.tokens.cancel(*number)?,
            StandingEdit::KeepNode(node) => self.away.keep_node(node),
            StandingEdit::KeepReplicas { datanode, replicas } => {
                self.away.keep_replicas(*datanode, replicas)?;
            }
            StandingEdit::KeptNode { datanode } => self.away.complete(*datanode)?,
            StandingEdit::ForgetNode { datanode } => self.away.forget(*datanode),
            StandingEdit::SetLevel { level } => {
                Supported::OWN.check(*level)?;
                (self.level, self.is_level_dirty) = (*level, true);
            }
        }
        Ok(())
    }

    /// How many rows are out of date.
    pub fn dirty_count(&self) -> usize {
        let flags = usize::from(self.is_flag_dirty) + usize::from(self.is_level_dirty);
        flags + self.tokens.dirty_count() + self.away.dirty_count()
    }

    /// The rows that changed since the last call.
    pub fn take_rows(&mut self) -> Vec<Row> {
        let mut rows = self.away.take_rows();
        rows.extend(self.tokens.take_rows());
        if std::mem::take(&mut self.is_flag_dirty) {
            rows.push((vec![SAFE_MODE_PREFIX], self.is_safe_by_hand.then(Vec::new)));
        }
        if std::mem::take(&mut self.is_level_dirty) {
            rows.push((vec![LEVEL_PREFIX], Some(encode(&self.level))));
        }
        rows
    }

    /// Takes a row if it is one of these; rows come in ascending order of keys.
    ///
    /// # Errors
    /// [`CoreError`] if it is malformed.
    pub fn load_row(&mut self, key: &[u8], value: &[u8]) -> Option<Result<(), CoreError>> {
        match (key, value) {
            ([list::ROW_PREFIX, rest @ ..], value) => Some(self.tokens.load_row(rest, value)),
            ([away::ROW_PREFIX, rest @ ..], value) => Some(self.away.load_row(rest, value)),
            ([SAFE_MODE_PREFIX], []) => {
                self.is_safe_by_hand = true;
                Some(Ok(()))
            }
            ([LEVEL_PREFIX], value) => Some(self.load_level(value)),
            ([LEVEL_PREFIX, ..], _) => Some(Err(CoreError::BadRow("the feature level"))),
            ([SAFE_MODE_PREFIX, ..], _) => Some(Err(CoreError::BadRow("safe mode"))),
            _ => None,
        }
    }

    fn load_level(&mut self, value: &[u8]) -> Result<(), CoreError> {
        self.level = decode(value, "the feature level")?;
        Ok(Supported::OWN.check(self.level)?)
    }
}
