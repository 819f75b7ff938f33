//! The feature level of a cluster: what programs of different versions may use of each other (ADR 22).
//!
//! A level covers kinds and forms of records in the logs, variants of messages, and fields with a new meaning. Each master's log records the
//! level. [`Supported::check`] is the one place that compares it with what a program supports.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A feature level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FeatureLevel(pub u16);

impl FeatureLevel {
    /// That of a log which records none.
    pub const FIRST: FeatureLevel = FeatureLevel(1);
}

impl Default for FeatureLevel {
    fn default() -> Self {
        FeatureLevel::FIRST
    }
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// The levels at which a program can take part in a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Supported {
    /// The lowest: that of the release before, at the latest.
    pub oldest: FeatureLevel,
    /// The highest: that of a new cluster.
    pub newest: FeatureLevel,
}

/// A program does not support the level of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the cluster is at feature level {cluster}, and this version supports levels {} to {}: use {} version",
    .supported.oldest, .supported.newest, if .cluster > &.supported.newest { "a newer" } else { "an older" }
)]
pub struct Unsupported {
    /// The level of the cluster.
    pub cluster: FeatureLevel,
    /// Those of the program.
    pub supported: Supported,
}

impl Supported {
    /// Those of this program.
    pub const OWN: Supported =
        Supported { oldest: FeatureLevel::FIRST, newest: FeatureLevel::FIRST };

    /// Checks the level of a cluster.
    ///
    /// # Errors
    /// [`Unsupported`] if it is outside.
    pub fn check(self, cluster: FeatureLevel) -> Result<(), Unsupported> {
        match (self.oldest..=self.newest).contains(&cluster) {
            true => Ok(()),
            false => Err(Unsupported { cluster, supported: self }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_part_within_its_range() {
        let supported = Supported { oldest: FeatureLevel(2), newest: FeatureLevel(3) };
        for (level, remedy) in [(1, Some("an older")), (2, None), (3, None), (4, Some("a newer"))] {
            let checked = supported.check(FeatureLevel(level));
            let text = remedy.map(|remedy| {
                format!("the cluster is at feature level {level}, and this version supports levels 2 to 3: use {remedy} version")
            });
            assert_eq!(checked.err().map(|refused| refused.to_string()), text, "{level}");
        }
        assert_eq!(Supported::OWN.check(Supported::OWN.newest), Ok(()));
        assert_eq!(Supported::OWN.check(FeatureLevel::default()), Ok(()), "an upgrade can start");
        assert!(Supported::OWN.check(FeatureLevel(u16::MAX)).is_err());
    }
}
