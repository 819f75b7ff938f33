//! The operations: which method each belongs to, and how it is found.

use axum::http::Method;

use crate::error::WebError;

macro_rules! operations {
    ($($variant:ident $method:ident $name:literal,)*) => {
        /// An operation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "the names are those of WebHDFS, see `name`")]
        pub enum Op { $($variant,)* }

        impl Op {
            /// All of them.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];

            /// Its name in the protocol.
            pub fn name(self) -> &'static str {
                match self { $(Op::$variant => $name,)* }
            }

            /// The method it belongs to.
            pub fn method(self) -> Method {
                match self { $(Op::$variant => Method::$method,)* }
            }
        }
    };
}

operations! {
    Open GET "OPEN",
    GetFileStatus GET "GETFILESTATUS",
    ListStatus GET "LISTSTATUS",
    ListStatusBatch GET "LISTSTATUS_BATCH",
    GetContentSummary GET "GETCONTENTSUMMARY",
    GetQuotaUsage GET "GETQUOTAUSAGE",
    GetFileChecksum GET "GETFILECHECKSUM",
    GetHomeDirectory GET "GETHOMEDIRECTORY",
    GetBlockLocations GET "GET_BLOCK_LOCATIONS",
    GetFileBlockLocations GET "GETFILEBLOCKLOCATIONS",
    GetServerDefaults GET "GETSERVERDEFAULTS",
    GetTrashRoot GET "GETTRASHROOT",
    CheckAccess GET "CHECKACCESS",
    GetDelegationToken GET "GETDELEGATIONTOKEN",
    GetAclStatus GET "GETACLSTATUS",
    GetXattrs GET "GETXATTRS",
    ListXattrs GET "LISTXATTRS",
    GetAllStoragePolicy GET "GETALLSTORAGEPOLICY",
    GetStoragePolicy GET "GETSTORAGEPOLICY",
    GetSnapshotDiff GET "GETSNAPSHOTDIFF",
    GetSnapshottableDirectoryList GET "GETSNAPSHOTTABLEDIRECTORYLIST",
    GetSnapshotList GET "GETSNAPSHOTLIST",
    GetEcPolicy GET "GETECPOLICY",
    Create PUT "CREATE",
    Mkdirs PUT "MKDIRS",
    Rename PUT "RENAME",
    SetReplication PUT "SETREPLICATION",
    SetOwner PUT "SETOWNER",
    SetPermission PUT "SETPERMISSION",
    SetTimes PUT "SETTIMES",
    CreateSymlink PUT "CREATESYMLINK",
    RenewDelegationToken PUT "RENEWDELEGATIONTOKEN",
    CancelDelegationToken PUT "CANCELDELEGATIONTOKEN",
    ModifyAclEntries PUT "MODIFYACLENTRIES",
    RemoveAclEntries PUT "REMOVEACLENTRIES",
    SetAcl PUT "SETACL",
    RemoveDefaultAcl PUT "REMOVEDEFAULTACL",
    RemoveAcl PUT "REMOVEACL",
    SetXattr PUT "SETXATTR",
    RemoveXattr PUT "REMOVEXATTR",
    AllowSnapshot PUT "ALLOWSNAPSHOT",
    DisallowSnapshot PUT "DISALLOWSNAPSHOT",
    CreateSnapshot PUT "CREATESNAPSHOT",
    RenameSnapshot PUT "RENAMESNAPSHOT",
    SetStoragePolicy PUT "SETSTORAGEPOLICY",
    SatisfyStoragePolicy PUT "SATISFYSTORAGEPOLICY",
    SetQuota PUT "SETQUOTA",
    SetQuotaByStorageType PUT "SETQUOTABYSTORAGETYPE",
    EnableEcPolicy PUT "ENABLEECPOLICY",
    DisableEcPolicy PUT "DISABLEECPOLICY",
    SetEcPolicy PUT "SETECPOLICY",
    Append POST "APPEND",
    Concat POST "CONCAT",
    Truncate POST "TRUNCATE",
    UnsetStoragePolicy POST "UNSETSTORAGEPOLICY",
    UnsetEcPolicy POST "UNSETECPOLICY",
    Delete DELETE "DELETE",
    DeleteSnapshot DELETE "DELETESNAPSHOT",
}

impl Op {
    /// The operation of `method` that `name` (any case) stands for.
    ///
    /// # Errors
    /// Hadoop's text for an unknown one; clients look for both the prefix and the name in it.
    pub fn find(method: &Method, name: &str) -> Result<Op, WebError> {
        let found = Op::ALL
            .iter()
            .find(|op| op.name().eq_ignore_ascii_case(name) && op.method() == *method);
        found.copied().ok_or_else(|| {
            let name = name.to_uppercase();
            WebError::parameter("op", format!("{name} is not a valid {method} operation."))
        })
    }

    /// The parameters that a redirected operation takes along to the DataNode, sorted.
    pub fn carried(self) -> &'static [&'static str] {
        match self {
            Op::Open => &["buffersize", "length", "offset"],
            Op::Create => &[
                "blocksize",
                "buffersize",
                "createflag",
                "createparent",
                "overwrite",
                "permission",
                "replication",
                "unmaskedpermission",
            ],
            Op::Append => &["buffersize"],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_method_alone() {
        for op in Op::ALL {
            assert_eq!(Op::find(&op.method(), &op.name().to_lowercase()), Ok(*op));
            for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
                assert_eq!(Op::find(&method, op.name()).is_ok(), method == op.method());
            }
        }
        assert_eq!(
            Op::find(&Method::GET, "create").unwrap_err().message,
            "Invalid value for webhdfs parameter \"op\": CREATE is not a valid GET operation."
        );
    }
}
