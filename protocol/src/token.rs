//! Block tokens: the NameNode's permission to read or write one block, checked by the DataNode without asking back.
//!
//! `mac = HMAC-SHA256(block token key, block id LE | generation stamp LE | mode | expiry ms LE)`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::auth::Key;
use crate::{BlockId, GenerationStamp};

/// How long a token is good. Long enough for one block at a slow client, short enough to be worth little when it leaks.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// What a token permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AccessMode {
    /// Read the block.
    Read,
    /// Create, append to, recover or copy the block.
    Write,
}

/// Permission for one block at one generation stamp.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockToken {
    /// What it permits.
    pub mode: AccessMode,
    /// Last moment it is good, milliseconds since the epoch.
    pub expires_ms: u64,
    mac: [u8; 32],
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Its time is over.
    #[error("block token expired {late_ms} ms ago")]
    Expired {
        /// How long ago, milliseconds.
        late_ms: u64,
    },
    /// It is for another block, generation stamp or mode, or forged.
    #[error("block token does not permit this")]
    NotPermitted,
}

/// The key of block tokens.
pub fn token_key(secret: &Key) -> Key {
    secret.derive("hanno block token key")
}

impl BlockToken {
    /// Issues a token.
    pub fn issue(
        key: &Key,
        block: BlockId,
        stamp: GenerationStamp,
        mode: AccessMode,
        expires_ms: u64,
    ) -> Self {
        let mac = key.mac(&parts(block, stamp, mode, expires_ms).each_ref().map(|part| &part[..]));
        BlockToken { mode, expires_ms, mac }
    }

    /// Checks that it permits `mode` on the block now. A write token also permits reading.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn check(
        &self,
        key: &Key,
        block: BlockId,
        stamp: GenerationStamp,
        mode: AccessMode,
        now_ms: u64,
    ) -> Result<(), TokenError> {
        let permitted = mode == self.mode || self.mode == AccessMode::Write;
        let parts = parts(block, stamp, self.mode, self.expires_ms);
        if !permitted || !key.mac_matches(&parts.each_ref().map(|part| &part[..]), &self.mac) {
            return Err(TokenError::NotPermitted);
        }
        match now_ms.checked_sub(self.expires_ms) {
            Some(late_ms) if late_ms > 0 => Err(TokenError::Expired { late_ms }),
            _ => Ok(()),
        }
    }
}

fn parts(
    block: BlockId,
    stamp: GenerationStamp,
    mode: AccessMode,
    expires_ms: u64,
) -> [[u8; 8]; 4] {
    [block.0.to_le_bytes(), stamp.0.to_le_bytes(), [mode as u8; 8], expires_ms.to_le_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_permits_one_thing_for_a_while() {
        let key = token_key(&Key::new([3; 32]));
        let (block, stamp) = (BlockId(5), GenerationStamp(1001));
        let token = BlockToken::issue(&key, block, stamp, AccessMode::Read, 1000);
        let check = |block, stamp, mode, now| token.check(&key, block, stamp, mode, now);
        assert_eq!(check(block, stamp, AccessMode::Read, 1000), Ok(()));
        assert_eq!(
            check(block, stamp, AccessMode::Read, 1001),
            Err(TokenError::Expired { late_ms: 1 })
        );
        for bad in [
            check(block, stamp, AccessMode::Write, 10),
            check(BlockId(6), stamp, AccessMode::Read, 10),
            check(block, GenerationStamp(1002), AccessMode::Read, 10),
            BlockToken { mode: AccessMode::Write, ..token.clone() }.check(
                &key,
                block,
                stamp,
                AccessMode::Read,
                10,
            ),
            BlockToken { expires_ms: 9999, ..token.clone() }.check(
                &key,
                block,
                stamp,
                AccessMode::Read,
                10,
            ),
        ] {
            assert_eq!(bad, Err(TokenError::NotPermitted));
        }
    }
}
