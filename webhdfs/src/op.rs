//! The operations, in two tables. One has their names, methods, who answers them, and the parameters of each; the other has the parameters,
//! with their types and defaults.
//!
//! The list is Hadoop 3.4's and HttpFS's (`tests/webhdfs/operations.txt`): what is not done here is refused by name, with the reason.

use axum::http::Method;

/// Who answers an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Responder {
    /// The NameNode.
    Namenode,
    /// The NameNode redirects the client, a DataNode answers.
    Redirect,
    /// The list of delegation tokens.
    Tokens,
    /// Nobody, and why.
    Refused(&'static str),
}

/// Why an operation on erasure coding is refused.
const NO_ERASURE_CODING: &str = "files are replicated; there is no erasure coding";
/// Why an operation on links is refused.
const NO_LINKS: &str = "HDFS has them turned off, and here are none";
/// Why an operation on kinds of storage is refused.
const ONE_KIND_OF_STORAGE: &str = "every volume is a disk";
/// Why an operation of HttpFS's own is refused.
const NO_HTTPFS: &str = "figures are at /metrics and /jmx";

macro_rules! operations {
    ($($variant:ident $method:ident $name:literal $responder:ident$(($reason:ident))? [$($parameter:literal)*],)*) => {
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

            /// Who answers it.
            pub fn responder(self) -> Responder {
                match self { $(Op::$variant => Responder::$responder$(($reason))?,)* }
            }

            /// The parameters that it has, beside those of every operation.
            pub fn parameters(self) -> &'static [&'static str] {
                match self { $(Op::$variant => &[$($parameter,)*],)* }
            }
        }
    };
}

operations! {
    Open GET "OPEN" Redirect ["offset" "length" "buffersize" "noredirect" "excludedatanodes"],
    GetFileStatus GET "GETFILESTATUS" Namenode [],
    ListStatus GET "LISTSTATUS" Namenode [],
    ListStatusBatch GET "LISTSTATUS_BATCH" Namenode ["startafter"],
    GetContentSummary GET "GETCONTENTSUMMARY" Namenode [],
    GetQuotaUsage GET "GETQUOTAUSAGE" Namenode [],
    GetFileChecksum GET "GETFILECHECKSUM" Redirect ["noredirect" "excludedatanodes"],
    GetHomeDirectory GET "GETHOMEDIRECTORY" Namenode [],
    GetBlockLocations GET "GET_BLOCK_LOCATIONS" Namenode ["offset" "length"],
    GetFileBlockLocations GET "GETFILEBLOCKLOCATIONS" Namenode ["offset" "length"],
    GetServerDefaults GET "GETSERVERDEFAULTS" Namenode [],
    GetTrashRoot GET "GETTRASHROOT" Namenode [],
    CheckAccess GET "CHECKACCESS" Namenode ["fsaction"],
    GetDelegationToken GET "GETDELEGATIONTOKEN" Tokens ["renewer" "kind" "service"],
    GetAclStatus GET "GETACLSTATUS" Namenode [],
    GetXattrs GET "GETXATTRS" Namenode ["xattr.name" "encoding"],
    ListXattrs GET "LISTXATTRS" Namenode [],
    GetAllStoragePolicy GET "GETALLSTORAGEPOLICY" Namenode [],
    GetStoragePolicy GET "GETSTORAGEPOLICY" Namenode [],
    GetSnapshotDiff GET "GETSNAPSHOTDIFF" Namenode ["oldsnapshotname" "snapshotname"],
    GetSnapshottableDirectoryList GET "GETSNAPSHOTTABLEDIRECTORYLIST" Namenode [],
    GetSnapshotList GET "GETSNAPSHOTLIST" Namenode [],
    GetEcPolicy GET "GETECPOLICY" Refused(NO_ERASURE_CODING) [],
    GetSnapshotDiffListing GET "GETSNAPSHOTDIFFLISTING" Namenode ["oldsnapshotname" "snapshotname" "snapshotdiffstartpath" "snapshotdiffindex"],
    GetLinkTarget GET "GETLINKTARGET" Namenode [],
    GetFileLinkStatus GET "GETFILELINKSTATUS" Namenode [],
    GetStatus GET "GETSTATUS" Namenode [],
    GetEcPolicies GET "GETECPOLICIES" Namenode [],
    GetEcCodecs GET "GETECCODECS" Namenode [],
    GetTrashRoots GET "GETTRASHROOTS" Namenode ["allusers"],
    Instrumentation GET "INSTRUMENTATION" Refused(NO_HTTPFS) [],
    Create PUT "CREATE" Redirect ["blocksize" "buffersize" "createflag" "createparent" "overwrite" "permission" "replication" "unmaskedpermission" "noredirect" "excludedatanodes"],
    Mkdirs PUT "MKDIRS" Namenode ["permission" "unmaskedpermission"],
    Rename PUT "RENAME" Namenode ["destination" "renameoptions"],
    SetReplication PUT "SETREPLICATION" Namenode ["replication"],
    SetOwner PUT "SETOWNER" Namenode ["owner" "group"],
    SetPermission PUT "SETPERMISSION" Namenode ["permission"],
    SetTimes PUT "SETTIMES" Namenode ["modificationtime" "accesstime"],
    CreateSymlink PUT "CREATESYMLINK" Refused(NO_LINKS) ["destination" "createparent"],
    RenewDelegationToken PUT "RENEWDELEGATIONTOKEN" Tokens ["token"],
    CancelDelegationToken PUT "CANCELDELEGATIONTOKEN" Tokens ["token"],
    ModifyAclEntries PUT "MODIFYACLENTRIES" Namenode ["aclspec"],
    RemoveAclEntries PUT "REMOVEACLENTRIES" Namenode ["aclspec"],
    SetAcl PUT "SETACL" Namenode ["aclspec"],
    RemoveDefaultAcl PUT "REMOVEDEFAULTACL" Namenode [],
    RemoveAcl PUT "REMOVEACL" Namenode [],
    SetXattr PUT "SETXATTR" Namenode ["xattr.name" "xattr.value" "flag"],
    RemoveXattr PUT "REMOVEXATTR" Namenode ["xattr.name"],
    AllowSnapshot PUT "ALLOWSNAPSHOT" Namenode [],
    DisallowSnapshot PUT "DISALLOWSNAPSHOT" Namenode [],
    CreateSnapshot PUT "CREATESNAPSHOT" Namenode ["snapshotname"],
    RenameSnapshot PUT "RENAMESNAPSHOT" Namenode ["oldsnapshotname" "snapshotname"],
    SetStoragePolicy PUT "SETSTORAGEPOLICY" Namenode ["storagepolicy"],
    SatisfyStoragePolicy PUT "SATISFYSTORAGEPOLICY" Refused(ONE_KIND_OF_STORAGE) [],
    SetQuota PUT "SETQUOTA" Namenode ["namespacequota" "storagespacequota"],
    SetQuotaByStorageType PUT "SETQUOTABYSTORAGETYPE" Refused(ONE_KIND_OF_STORAGE) ["storagetype" "storagespacequota"],
    EnableEcPolicy PUT "ENABLEECPOLICY" Refused(NO_ERASURE_CODING) ["ecpolicy"],
    DisableEcPolicy PUT "DISABLEECPOLICY" Refused(NO_ERASURE_CODING) ["ecpolicy"],
    SetEcPolicy PUT "SETECPOLICY" Refused(NO_ERASURE_CODING) ["ecpolicy"],
    Append POST "APPEND" Redirect ["buffersize" "noredirect" "excludedatanodes" "createflag"],
    Concat POST "CONCAT" Namenode ["sources"],
    Truncate POST "TRUNCATE" Namenode ["newlength"],
    UnsetStoragePolicy POST "UNSETSTORAGEPOLICY" Namenode [],
    UnsetEcPolicy POST "UNSETECPOLICY" Refused(NO_ERASURE_CODING) [],
    Delete DELETE "DELETE" Namenode ["recursive"],
    DeleteSnapshot DELETE "DELETESNAPSHOT" Namenode ["snapshotname"],
}

/// Type of a parameter's value; a parameter that is left out has the default of [`PARAMETERS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text that its operation reads.
    Text,
    /// `true` or `false`.
    Flag,
    /// A 64-bit number of at least this value.
    Long(i64),
    /// A 32-bit number of at least this value.
    Integer(i64),
    /// A 16-bit number of at least this value.
    Short(i64),
    /// Permission bits in octal.
    Bits,
}

/// Every parameter: its name, its type, and its default, as Hadoop's client writes it (`null`: the server's own default, or it must be there).
pub const PARAMETERS: &[(&str, Kind, &str)] = &[
    ("accesstime", Kind::Long(-1), "-1"),
    ("aclspec", Kind::Text, ""),
    ("allusers", Kind::Flag, "false"),
    ("blocksize", Kind::Long(1), "null"),
    ("buffersize", Kind::Integer(1), "null"),
    ("createflag", Kind::Text, ""),
    ("createparent", Kind::Flag, "true"),
    ("destination", Kind::Text, ""),
    ("ecpolicy", Kind::Text, ""),
    ("encoding", Kind::Text, ""),
    ("excludedatanodes", Kind::Text, ""),
    ("flag", Kind::Text, ""),
    ("fsaction", Kind::Text, "null"),
    ("group", Kind::Text, ""),
    ("kind", Kind::Text, "null"),
    ("length", Kind::Long(0), "null"),
    ("modificationtime", Kind::Long(-1), "-1"),
    ("namespacequota", Kind::Long(i64::MIN), "9223372036854775807"),
    ("newlength", Kind::Long(0), "null"),
    ("noredirect", Kind::Flag, "false"),
    ("offset", Kind::Long(0), "0"),
    ("oldsnapshotname", Kind::Text, ""),
    ("overwrite", Kind::Flag, "false"),
    ("owner", Kind::Text, ""),
    ("permission", Kind::Bits, "null"),
    ("recursive", Kind::Flag, "false"),
    ("renameoptions", Kind::Text, ""),
    ("renewer", Kind::Text, "null"),
    ("replication", Kind::Short(1), "null"),
    ("service", Kind::Text, "null"),
    ("snapshotdiffindex", Kind::Integer(-1), "-1"),
    ("snapshotdiffstartpath", Kind::Text, ""),
    ("snapshotname", Kind::Text, ""),
    ("sources", Kind::Text, ""),
    ("startafter", Kind::Text, ""),
    ("storagepolicy", Kind::Text, ""),
    ("storagespacequota", Kind::Long(i64::MIN), "9223372036854775807"),
    ("storagetype", Kind::Text, ""),
    ("token", Kind::Text, ""),
    ("unmaskedpermission", Kind::Bits, "null"),
    ("xattr.name", Kind::Text, ""),
    ("xattr.value", Kind::Text, ""),
];

impl Op {
    /// The parameters that a redirected operation passes on to the DataNode, sorted.
    pub fn forwarded(self) -> Vec<&'static str> {
        let is_first = |name: &&str| !matches!(*name, "noredirect" | "excludedatanodes");
        let mut forwarded: Vec<_> = self.parameters().iter().copied().filter(is_first).collect();
        forwarded.sort_unstable();
        forwarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hadoop 3.4's operations, and those that only HttpFS has.
    const HADOOP: &str = include_str!("../../tests/webhdfs/operations.txt");

    #[test]
    fn the_table_has_hadoops_operations_and_no_others() {
        let lines = HADOOP.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut theirs: Vec<&str> = lines.collect();
        let mut ours: Vec<String> =
            Op::ALL.iter().map(|op| format!("{} {}", op.method(), op.name())).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn every_parameter_is_known_and_has_an_operation() {
        let named: Vec<&str> = PARAMETERS.iter().map(|(name, ..)| *name).collect();
        assert!(named.is_sorted_by(|left, right| left < right), "{named:?}");
        for op in Op::ALL {
            for name in op.parameters() {
                assert!(named.contains(name), "{} {name}", op.name());
            }
        }
        for name in named {
            assert!(Op::ALL.iter().any(|op| op.parameters().contains(&name)), "{name}");
        }
    }
}
