//! What edits are called: Hadoop's names and numbers where Hadoop has such an edit, else names and numbers of our own.

macro_rules! ops {
    ($($op:ident = $number:literal $name:literal,)*) => {
        /// The kind of an edit.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub(super) enum Op {
            $($op = $number,)*
        }

        impl Op {
            /// In order of numbers.
            pub(super) const ALL: &[Op] = &[$(Op::$op,)*];

            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Op::$op => $name,)*
                }
            }

            pub(super) fn number(self) -> u8 {
                self as u8
            }
        }
    };
}

ops! {
    Add = 0 "OP_ADD",
    Delete = 2 "OP_DELETE",
    Mkdir = 3 "OP_MKDIR",
    SetReplication = 4 "OP_SET_REPLICATION",
    SetPermissions = 7 "OP_SET_PERMISSIONS",
    SetOwner = 8 "OP_SET_OWNER",
    Close = 9 "OP_CLOSE",
    Times = 13 "OP_TIMES",
    SetQuota = 14 "OP_SET_QUOTA",
    Rename = 15 "OP_RENAME",
    ConcatDelete = 16 "OP_CONCAT_DELETE",
    GetDelegationToken = 18 "OP_GET_DELEGATION_TOKEN",
    RenewDelegationToken = 19 "OP_RENEW_DELEGATION_TOKEN",
    CancelDelegationToken = 20 "OP_CANCEL_DELEGATION_TOKEN",
    ReassignLease = 22 "OP_REASSIGN_LEASE",
    UpdateBlocks = 25 "OP_UPDATE_BLOCKS",
    CreateSnapshot = 26 "OP_CREATE_SNAPSHOT",
    DeleteSnapshot = 27 "OP_DELETE_SNAPSHOT",
    RenameSnapshot = 28 "OP_RENAME_SNAPSHOT",
    AllowSnapshot = 29 "OP_ALLOW_SNAPSHOT",
    DisallowSnapshot = 30 "OP_DISALLOW_SNAPSHOT",
    AddBlock = 33 "OP_ADD_BLOCK",
    SetAcl = 40 "OP_SET_ACL",
    SetXattr = 43 "OP_SET_XATTR",
    RemoveXattr = 44 "OP_REMOVE_XATTR",
    Truncate = 46 "OP_TRUNCATE",
    Append = 47 "OP_APPEND",
    Format = 128 "OP_HANNO_FORMAT",
    DropBlock = 129 "OP_HANNO_DROP_BLOCK",
    CommitBlock = 130 "OP_HANNO_COMMIT_BLOCK",
    SyncBlock = 131 "OP_HANNO_SYNC_BLOCK",
    SkipIds = 132 "OP_HANNO_SKIP_IDS",
    SafeMode = 133 "OP_HANNO_SAFE_MODE",
    KeepNode = 134 "OP_HANNO_KEEP_NODE",
    KeepReplicas = 135 "OP_HANNO_KEEP_REPLICAS",
    KeptNode = 136 "OP_HANNO_KEPT_NODE",
    ForgetNode = 137 "OP_HANNO_FORGET_NODE",
    SetLevel = 138 "OP_HANNO_SET_LEVEL",
    Answer = 139 "OP_HANNO_ANSWER",
    Leap = 140 "OP_HANNO_LEAP",
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hadoop's numbers are below.
    const OWN: u8 = 128;

    #[test]
    fn kinds_are_in_order_and_our_own_are_marked() {
        assert!(Op::ALL.is_sorted());
        for (at, op) in Op::ALL.iter().enumerate() {
            let name = op.name();
            assert_eq!(name.starts_with("OP_HANNO_"), op.number() >= OWN, "{name}");
            assert!(Op::ALL[..at].iter().all(|other| other.name() != name), "{name} twice");
        }
    }
}
