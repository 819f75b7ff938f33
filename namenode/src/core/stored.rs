//! What edits and rows keep of messages, in forms of the disk: a message can change without the disk, and the disk without the messages.
//!
//! Each form lists the fields as they are on disk; the compiler checks it against the type that it stands for. When that type gets a field, its
//! form does not compile: either the field gets a value for records that lack it, or the record gets a new version (ADR 22). Ids, paths and sets of
//! actions have no forms: they are one value, and the same everywhere.

use protocol::acl::{AclEntry, AclKind, AclScope};
use protocol::permission::Action;
use protocol::xattr::{XattrName, XattrSpace};
use protocol::{ErrorKind, RemoteError};
use serde::{Deserialize, Serialize};

/// An entry of an access control list.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AclEntry")]
struct EntryForm {
    #[serde(with = "ScopeForm")]
    scope: AclScope,
    #[serde(with = "KindForm")]
    kind: AclKind,
    name: Option<String>,
    action: Action,
}

/// The list that an entry is in. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AclScope")]
enum ScopeForm {
    Access,
    Default,
}

/// Whom an entry is about. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AclKind")]
enum KindForm {
    User,
    Group,
    Mask,
    Other,
}

/// Name of an extended attribute.
#[derive(Serialize, Deserialize)]
#[serde(remote = "XattrName")]
pub(in crate::core) struct NameForm {
    #[serde(with = "SpaceForm")]
    space: XattrSpace,
    name: String,
}

/// Namespace of an extended attribute. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "XattrSpace")]
enum SpaceForm {
    User,
    Trusted,
    Security,
    System,
    Raw,
}

/// A refusal that a repeated call gets again.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RemoteError")]
pub(in crate::core) struct RefusalForm {
    #[serde(with = "RefusalKindForm")]
    kind: ErrorKind,
    message: String,
}

/// Why a call was refused. Append only.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ErrorKind")]
enum RefusalKindForm {
    NotFound,
    AlreadyExists,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    PermissionDenied,
    SafeMode,
    AlreadyBeingCreated,
    LeaseExpired,
    RecoveryInProgress,
    NoDatanodes,
    NotReplicatedYet,
    MissingBlock,
    InvalidArgument,
    LimitExceeded,
    Unavailable,
    Unauthenticated,
    Fenced,
    UnknownJob,
    Storage,
    Internal,
    StartupSafeMode,
    NamespaceQuotaExceeded,
    SpaceQuotaExceeded,
    Snapshot,
    ParentNotDirectory,
    ReadOnlySnapshot,
    TooLarge,
    InvalidName,
    NameTooLong,
}

/// Entries of an access control list.
pub(in crate::core) mod entries {
    use protocol::acl::AclEntry;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Written<'a>(#[serde(with = "crate::core::stored::EntryForm")] &'a AclEntry);

    #[derive(Deserialize)]
    struct Read(#[serde(with = "crate::core::stored::EntryForm")] AclEntry);

    pub(in crate::core) fn serialize<S: Serializer>(
        entries: &[AclEntry],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(entries.iter().map(Written))
    }

    pub(in crate::core) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<AclEntry>, D::Error> {
        let entries = Vec::<Read>::deserialize(deserializer)?;
        Ok(entries.into_iter().map(|Read(entry)| entry).collect())
    }
}

/// Extended attributes by name.
pub(in crate::core) mod xattrs {
    use std::collections::BTreeMap;

    use protocol::xattr::XattrName;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Written<'a>(#[serde(with = "crate::core::stored::NameForm")] &'a XattrName);

    #[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    struct Read(#[serde(with = "crate::core::stored::NameForm")] XattrName);

    pub(in crate::core) fn serialize<S: Serializer>(
        xattrs: &BTreeMap<XattrName, Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(xattrs.iter().map(|(name, value)| (Written(name), value)))
    }

    pub(in crate::core) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<XattrName, Vec<u8>>, D::Error> {
        let xattrs = BTreeMap::<Read, Vec<u8>>::deserialize(deserializer)?;
        Ok(xattrs.into_iter().map(|(Read(name), value)| (name, value)).collect())
    }
}
