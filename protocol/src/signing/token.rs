//! Block tokens: the NameNode's permission to read or write one block. The DataNode checks them without asking the NameNode.
//!
//! ```text
//! key of a period = HMAC-SHA256(token key, "hanno block token key: " period)
//! secret          = HMAC-SHA256(key of the period, block id LE | generation stamp LE | mode | period LE | expiry ms LE | holder LE)
//! holder          = first 8 bytes, LE, of HMAC-SHA256(token key, "hanno block token holder: " user); 0 where the cluster itself acts
//! ```
//!
//! A token is a name and a secret. The NameNode gives both to whoever it grants a permission. Only the name goes to a DataNode, which derives the secret from
//! it, and each proves to the other that it has the secret ([`crate::transfer`]). So an impostor that listens in a DataNode's place learns nothing that is of
//! use elsewhere.
//!
//! ```text
//! receipt         = first 8 bytes of HMAC-SHA256(token key, "hanno receipt\n" datanode | block id LE | generation stamp LE | length LE)
//! ```
//!
//! A [`Receipt`] goes the other way: a DataNode gives it to the writer of a block that it has on disk, and the writer hands it to the NameNode.
//!
//! The holder is in the secret, so nobody changes it: DataNodes share their room by it. It is no name, and nobody can choose a user's name that has the number of
//! another.
//!
//! The key changes in each period of [`KEY_PERIOD`]; it is derived from the cluster secret and the period's number. All NameNodes have the same key, before and
//! after a restart. No token outlives its period by more than [`TOKEN_LIFETIME`], so a leaked key is soon worthless.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::CLOCK_SKEW_MAX;
use super::key::{Key, ReadyKey};
use crate::{BlockId, DatanodeId, GenerationStamp};

/// How long a token is valid. Long enough for one block at a slow client, short enough to be worth little if it leaks.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// How long one key makes tokens.
pub const KEY_PERIOD: Duration = Duration::from_secs(60 * 60);

/// What a token permits. Append only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AccessMode {
    /// Read the block. Only who may read the file has it.
    Read,
    /// Write the block through its pipeline, for the writer of the file. It outlives the end of the file, so it neither reads nor changes what is complete.
    Write,
    /// Copy, recover or complete replicas, and all that [`AccessMode::Write`] permits. No client has it: a NameNode gives it to DataNodes with its commands, and
    /// DataNodes send replicas to each other under it.
    Maintain,
}

impl AccessMode {
    /// True if a token of this mode is good for what needs `wanted`.
    pub fn permits(self, wanted: AccessMode) -> bool {
        self == wanted || (self == AccessMode::Maintain && wanted == AccessMode::Write)
    }
}

/// For whom a token was made, as DataNodes tell users apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holder(u64);

impl Holder {
    /// The cluster itself: it copies, moves and recovers replicas.
    pub const CLUSTER: Holder = Holder(0);
}

/// Which token for one block at one generation stamp. Not secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenName {
    /// What it permits.
    pub mode: AccessMode,
    /// Number of the period whose key made it.
    pub period: u64,
    /// Last moment of its validity, milliseconds since the epoch.
    pub expires_ms: u64,
    /// For whom it was made.
    pub holder: Holder,
}

/// Permission for one block at one generation stamp.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockToken {
    /// Its name.
    pub name: TokenName,
    secret: Key,
}

/// Bytes of a [`Receipt`]. Each ack has one for each member; a guess costs a call, and nobody makes 2^63 of them.
pub const RECEIPT_BYTES: usize = 8;

/// A DataNode's word that it has all of a block on disk. The NameNode believes no writer without it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Receipt(pub [u8; RECEIPT_BYTES]);

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has expired.
    #[error("block token expired {late_ms} ms ago")]
    Expired {
        /// How long ago, milliseconds.
        late_ms: u64,
    },
    /// It is for something else, its key belongs to another time, or its holder does not have its secret.
    #[error("block token does not permit this")]
    NotPermitted,
}

/// Makes tokens, and derives their secrets again from their names.
#[derive(Clone, Debug)]
pub struct TokenKeys(ReadyKey);

impl TokenKeys {
    /// The keys of a cluster.
    pub fn new(secret: &Key) -> Self {
        TokenKeys(secret.derive("hanno block token key").ready())
    }

    /// Issues a token that is good from `now_ms` for [`TOKEN_LIFETIME`], to the cluster itself.
    pub fn issue(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
        mode: AccessMode,
        now_ms: u64,
    ) -> BlockToken {
        self.issue_to(Holder::CLUSTER, block, stamp, (mode, now_ms))
    }

    /// As [`TokenKeys::issue`], to a user.
    pub fn issue_to(
        &self,
        holder: Holder,
        block: BlockId,
        stamp: GenerationStamp,
        (mode, now_ms): (AccessMode, u64),
    ) -> BlockToken {
        let (period, expires_ms) =
            (now_ms / ms(KEY_PERIOD), now_ms.saturating_add(ms(TOKEN_LIFETIME)));
        self.token(block, stamp, TokenName { mode, period, expires_ms, holder })
    }

    /// A user, as a holder of tokens.
    pub fn holder(&self, user: &str) -> Holder {
        let mac = self.0.mac(&[b"hanno block token holder: ", user.as_bytes()]);
        Holder(u64::from_le_bytes(std::array::from_fn(|at| mac[at])).max(1))
    }

    /// What a DataNode gives for a replica of this length that it has on disk.
    pub fn receipt(
        &self,
        datanode: DatanodeId,
        block: BlockId,
        stamp: GenerationStamp,
        length: u64,
    ) -> Receipt {
        let mac = self.0.mac(&[
            b"hanno receipt\n",
            &datanode.0,
            &block.0.to_le_bytes(),
            &stamp.0.to_le_bytes(),
            &length.to_le_bytes(),
        ]);
        Receipt(std::array::from_fn(|at| mac[at]))
    }

    /// The token of a name, valid or not.
    pub fn token(&self, block: BlockId, stamp: GenerationStamp, name: TokenName) -> BlockToken {
        let TokenName { mode, period, expires_ms, holder } = name;
        let key = self.0.mac(&[b"hanno block token key: ", period.to_string().as_bytes()]);
        let secret = Key::new(key).mac(&[
            &block.0.to_le_bytes(),
            &stamp.0.to_le_bytes(),
            &[mode as u8],
            &period.to_le_bytes(),
            &expires_ms.to_le_bytes(),
            &holder.0.to_le_bytes(),
        ]);
        BlockToken { name, secret: Key::new(secret) }
    }

    /// The token of this name if it permits `mode` now. The holder still has to prove that it has the secret.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn check(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
        (name, mode): (TokenName, AccessMode),
        now_ms: u64,
    ) -> Result<BlockToken, TokenError> {
        let is_permitted = name.mode.permits(mode);
        let begin = name.period.saturating_mul(ms(KEY_PERIOD));
        let last = begin.saturating_add(ms(KEY_PERIOD)).saturating_add(ms(TOKEN_LIFETIME));
        let is_of_its_time =
            name.expires_ms <= last && begin <= now_ms.saturating_add(ms(CLOCK_SKEW_MAX));
        if !is_permitted || !is_of_its_time {
            return Err(TokenError::NotPermitted);
        }
        match now_ms.checked_sub(name.expires_ms) {
            Some(late_ms) if late_ms > 0 => Err(TokenError::Expired { late_ms }),
            _ => Ok(self.token(block, stamp, name)),
        }
    }
}

impl BlockToken {
    /// Proves possession of its secret: HMAC of the concatenation of `parts`.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.secret.mac(parts)
    }

    /// True if `mac` comes from somebody who has its secret. Compares in constant time.
    pub fn matches(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.secret.mac_matches(parts, mac)
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 1_000 * HOUR;
    const BLOCK: BlockId = BlockId(5);
    const STAMP: GenerationStamp = GenerationStamp(1001);

    #[test]
    fn a_token_permits_one_thing_for_a_while() {
        let keys = TokenKeys::new(&Key::new([3; 32]));
        let token = keys.issue(BLOCK, STAMP, AccessMode::Read, NOW);
        let check = |mode, now| keys.check(BLOCK, STAMP, (token.name, mode), now);
        assert_eq!(check(AccessMode::Read, NOW + 600_000), Ok(token.clone()));
        assert_eq!(check(AccessMode::Read, NOW + 600_001), Err(TokenError::Expired { late_ms: 1 }));
        assert_eq!(check(AccessMode::Write, NOW), Err(TokenError::NotPermitted));
        let proof = token.mac(&[b"x"]);
        assert!(token.matches(&[b"x"], &proof) && !token.matches(&[b"y"], &proof));
        let other = TokenName { mode: AccessMode::Write, ..token.name };
        for token in [
            keys.token(BlockId(6), STAMP, token.name),
            keys.token(BLOCK, GenerationStamp(1002), token.name),
            keys.token(BLOCK, STAMP, other),
            keys.token(BLOCK, STAMP, TokenName { expires_ms: NOW, ..token.name }),
            keys.token(BLOCK, STAMP, TokenName { period: 999, ..token.name }),
            keys.token(BLOCK, STAMP, TokenName { holder: keys.holder("ada"), ..token.name }),
            TokenKeys::new(&Key::new([4; 32])).token(BLOCK, STAMP, token.name),
        ] {
            assert!(!token.matches(&[b"x"], &proof), "{token:?}");
        }
    }

    #[test]
    fn a_writer_neither_reads_nor_maintains() {
        use AccessMode::{Maintain, Read, Write};
        let keys = TokenKeys::new(&Key::new([3; 32]));
        let permits = |has, wants| {
            let name = keys.issue(BLOCK, STAMP, has, NOW).name;
            keys.check(BLOCK, STAMP, (name, wants), NOW).is_ok()
        };
        let permitted = [(Read, Read), (Write, Write), (Maintain, Maintain), (Maintain, Write)];
        for has in [Read, Write, Maintain] {
            for wants in [Read, Write, Maintain] {
                assert_eq!(
                    permits(has, wants),
                    permitted.contains(&(has, wants)),
                    "{has:?} {wants:?}"
                );
            }
        }
    }

    #[test]
    fn a_receipt_is_for_one_replica_of_one_length() {
        let keys = TokenKeys::new(&Key::new([3; 32]));
        let (one, other) = (DatanodeId([1; 16]), DatanodeId([2; 16]));
        let receipt = keys.receipt(one, BLOCK, STAMP, 7);
        assert_eq!(receipt, keys.receipt(one, BLOCK, STAMP, 7));
        for another in [
            keys.receipt(other, BLOCK, STAMP, 7),
            keys.receipt(one, BlockId(6), STAMP, 7),
            keys.receipt(one, BLOCK, GenerationStamp(1002), 7),
            keys.receipt(one, BLOCK, STAMP, 8),
            TokenKeys::new(&Key::new([4; 32])).receipt(one, BLOCK, STAMP, 7),
            Receipt::default(),
        ] {
            assert_ne!(another, receipt);
        }
    }

    #[test]
    fn each_user_is_a_holder_and_the_cluster_is_another() {
        let keys = TokenKeys::new(&Key::new([3; 32]));
        let (ada, bob) = (keys.holder("ada"), keys.holder("bob"));
        assert_eq!(ada, Holder(0x7ba0_a083_5c15_2836), "golden");
        assert!(ada != bob && ada == keys.holder("ada") && ada != Holder::CLUSTER);
        assert_ne!(TokenKeys::new(&Key::new([4; 32])).holder("ada"), ada, "nobody can work it out");
        let token = keys.issue_to(ada, BLOCK, STAMP, (AccessMode::Read, NOW));
        let checked = keys.check(BLOCK, STAMP, (token.name, AccessMode::Read), NOW);
        assert_eq!(checked.map(|token| token.name.holder), Ok(ada));
        let cluster = keys.issue(BLOCK, STAMP, AccessMode::Read, NOW);
        assert_eq!(cluster.name, TokenName { holder: Holder::CLUSTER, ..token.name });
    }

    #[test]
    fn a_key_is_good_in_its_period_and_for_what_it_left() {
        let keys = TokenKeys::new(&Key::new([3; 32]));
        let end = NOW + HOUR;
        let late = keys.issue(BLOCK, STAMP, AccessMode::Read, end - 1).name;
        assert_eq!(late.period, 1000);
        let check = |name, now| keys.check(BLOCK, STAMP, (name, AccessMode::Read), now).map(drop);
        assert_eq!(check(late, end + 599_999), Ok(()));
        // An old key makes nothing that stays valid for longer.
        for expires_ms in [end + 600_001, end + HOUR, u64::MAX] {
            let forged = TokenName { expires_ms, ..late };
            assert_eq!(check(forged, end + 1), Err(TokenError::NotPermitted), "{expires_ms}");
        }
        // A clock that is fast is no reason to refuse; a key of tomorrow is.
        let early = |period| TokenName { period, expires_ms: NOW + 600_000, ..late };
        assert_eq!(
            check(early(1001), NOW + HOUR - 299_000),
            Err(TokenError::Expired { late_ms: 2_701_000 })
        );
        assert_eq!(check(early(1001), NOW), Err(TokenError::NotPermitted));
        assert_eq!(check(early(u64::MAX), NOW), Err(TokenError::NotPermitted));
    }
}
