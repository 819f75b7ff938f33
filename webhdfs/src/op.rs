//! The operations: one table of their names, methods, who answers them, and the parameters that each has; and one of the parameters, with
//! their types and defaults.
//!
//! The list is Hadoop 3.4's and HttpFS's (`tests/webhdfs/operations.txt`): what is not done here is refused by name, with the reason.
//!
//! What a client says and no operation here means is never silent ([`Op::judge`]):
//!
//! | a parameter | |
//! |---|---|
//! | of this operation with a value that is none | refused |
//! | that nobody knows and that looks like one of this operation's | refused: it would change the outcome |
//! | of other operations, or that nobody knows | ignored, as HDFS does because clients send such, and told in the header `Warning` |

use axum::http::Method;

use crate::error::WebError;
use crate::query::Query;

/// Who answers an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The NameNode.
    Names,
    /// The NameNode sends the client on, a DataNode answers.
    Both,
    /// The list of delegation tokens.
    Tokens,
    /// Nobody, and why.
    Refused(&'static str),
}

/// Why an operation on erasure coding is refused.
const NO_ERASURE_CODING: &str = "files are replicated; there is no erasure coding";
/// Why a link is.
const NO_LINKS: &str = "HDFS has them turned off, and here are none";
/// Why an operation on kinds of storage is.
const ONE_KIND_OF_STORAGE: &str = "every volume is a disk";
/// Why an operation of HttpFS's own is.
const NO_HTTPFS: &str = "figures are at /metrics and /jmx";

macro_rules! operations {
    ($($variant:ident $method:ident $name:literal $place:ident$(($reason:ident))? [$($parameter:literal)*],)*) => {
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
            pub fn place(self) -> Place {
                match self { $(Op::$variant => Place::$place$(($reason))?,)* }
            }

            /// The parameters that it has, beside those of every operation.
            pub fn parameters(self) -> &'static [&'static str] {
                match self { $(Op::$variant => &[$($parameter,)*],)* }
            }
        }
    };
}

operations! {
    Open GET "OPEN" Both ["offset" "length" "buffersize" "noredirect" "excludedatanodes"],
    GetFileStatus GET "GETFILESTATUS" Names [],
    ListStatus GET "LISTSTATUS" Names [],
    ListStatusBatch GET "LISTSTATUS_BATCH" Names ["startafter"],
    GetContentSummary GET "GETCONTENTSUMMARY" Names [],
    GetQuotaUsage GET "GETQUOTAUSAGE" Names [],
    GetFileChecksum GET "GETFILECHECKSUM" Both ["noredirect" "excludedatanodes"],
    GetHomeDirectory GET "GETHOMEDIRECTORY" Names [],
    GetBlockLocations GET "GET_BLOCK_LOCATIONS" Names ["offset" "length"],
    GetFileBlockLocations GET "GETFILEBLOCKLOCATIONS" Names ["offset" "length"],
    GetServerDefaults GET "GETSERVERDEFAULTS" Names [],
    GetTrashRoot GET "GETTRASHROOT" Names [],
    CheckAccess GET "CHECKACCESS" Names ["fsaction"],
    GetDelegationToken GET "GETDELEGATIONTOKEN" Tokens ["renewer" "kind" "service"],
    GetAclStatus GET "GETACLSTATUS" Names [],
    GetXattrs GET "GETXATTRS" Names ["xattr.name" "encoding"],
    ListXattrs GET "LISTXATTRS" Names [],
    GetAllStoragePolicy GET "GETALLSTORAGEPOLICY" Names [],
    GetStoragePolicy GET "GETSTORAGEPOLICY" Names [],
    GetSnapshotDiff GET "GETSNAPSHOTDIFF" Names ["oldsnapshotname" "snapshotname"],
    GetSnapshottableDirectoryList GET "GETSNAPSHOTTABLEDIRECTORYLIST" Names [],
    GetSnapshotList GET "GETSNAPSHOTLIST" Names [],
    GetEcPolicy GET "GETECPOLICY" Refused(NO_ERASURE_CODING) [],
    GetSnapshotDiffListing GET "GETSNAPSHOTDIFFLISTING" Names ["oldsnapshotname" "snapshotname" "snapshotdiffstartpath" "snapshotdiffindex"],
    GetLinkTarget GET "GETLINKTARGET" Names [],
    GetFileLinkStatus GET "GETFILELINKSTATUS" Names [],
    GetStatus GET "GETSTATUS" Names [],
    GetEcPolicies GET "GETECPOLICIES" Names [],
    GetEcCodecs GET "GETECCODECS" Names [],
    GetTrashRoots GET "GETTRASHROOTS" Names ["allusers"],
    Instrumentation GET "INSTRUMENTATION" Refused(NO_HTTPFS) [],
    Create PUT "CREATE" Both ["blocksize" "buffersize" "createflag" "createparent" "overwrite" "permission" "replication" "unmaskedpermission" "noredirect" "excludedatanodes"],
    Mkdirs PUT "MKDIRS" Names ["permission" "unmaskedpermission"],
    Rename PUT "RENAME" Names ["destination" "renameoptions"],
    SetReplication PUT "SETREPLICATION" Names ["replication"],
    SetOwner PUT "SETOWNER" Names ["owner" "group"],
    SetPermission PUT "SETPERMISSION" Names ["permission"],
    SetTimes PUT "SETTIMES" Names ["modificationtime" "accesstime"],
    CreateSymlink PUT "CREATESYMLINK" Refused(NO_LINKS) ["destination" "createparent"],
    RenewDelegationToken PUT "RENEWDELEGATIONTOKEN" Tokens ["token"],
    CancelDelegationToken PUT "CANCELDELEGATIONTOKEN" Tokens ["token"],
    ModifyAclEntries PUT "MODIFYACLENTRIES" Names ["aclspec"],
    RemoveAclEntries PUT "REMOVEACLENTRIES" Names ["aclspec"],
    SetAcl PUT "SETACL" Names ["aclspec"],
    RemoveDefaultAcl PUT "REMOVEDEFAULTACL" Names [],
    RemoveAcl PUT "REMOVEACL" Names [],
    SetXattr PUT "SETXATTR" Names ["xattr.name" "xattr.value" "flag"],
    RemoveXattr PUT "REMOVEXATTR" Names ["xattr.name"],
    AllowSnapshot PUT "ALLOWSNAPSHOT" Names [],
    DisallowSnapshot PUT "DISALLOWSNAPSHOT" Names [],
    CreateSnapshot PUT "CREATESNAPSHOT" Names ["snapshotname"],
    RenameSnapshot PUT "RENAMESNAPSHOT" Names ["oldsnapshotname" "snapshotname"],
    SetStoragePolicy PUT "SETSTORAGEPOLICY" Names ["storagepolicy"],
    SatisfyStoragePolicy PUT "SATISFYSTORAGEPOLICY" Refused(ONE_KIND_OF_STORAGE) [],
    SetQuota PUT "SETQUOTA" Names ["namespacequota" "storagespacequota"],
    SetQuotaByStorageType PUT "SETQUOTABYSTORAGETYPE" Refused(ONE_KIND_OF_STORAGE) ["storagetype" "storagespacequota"],
    EnableEcPolicy PUT "ENABLEECPOLICY" Refused(NO_ERASURE_CODING) ["ecpolicy"],
    DisableEcPolicy PUT "DISABLEECPOLICY" Refused(NO_ERASURE_CODING) ["ecpolicy"],
    SetEcPolicy PUT "SETECPOLICY" Refused(NO_ERASURE_CODING) ["ecpolicy"],
    Append POST "APPEND" Both ["buffersize" "noredirect" "excludedatanodes" "createflag"],
    Concat POST "CONCAT" Names ["sources"],
    Truncate POST "TRUNCATE" Names ["newlength"],
    UnsetStoragePolicy POST "UNSETSTORAGEPOLICY" Names [],
    UnsetEcPolicy POST "UNSETECPOLICY" Refused(NO_ERASURE_CODING) [],
    Delete DELETE "DELETE" Names ["recursive"],
    DeleteSnapshot DELETE "DELETESNAPSHOT" Names ["snapshotname"],
}

/// What the value of a parameter is; what is left out has the default of [`PARAMETERS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text that its operation reads.
    Text,
    /// `true` or `false`.
    Flag,
    /// A 64-bit number of at least so much.
    Long(i64),
    /// A 32-bit number of at least so much.
    Integer(i64),
    /// A 16-bit number of at least so much.
    Short(i64),
    /// Permission bits in octal.
    Bits,
}

/// Every parameter: its name, what its value is, and what it is when it is left out, as Hadoop's client writes it (`null`: the server's own
/// default, or it must be there).
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

/// What every operation may have: itself, who asks, and what servers put into the URLs of second steps.
const COMMON: [&str; 6] = ["op", "user.name", "doas", "delegation", "namenoderpcaddress", "data"];
/// Changes of letters that make one name of another by mistake.
const MISTAKES_MAX: usize = 2;
/// Names that are shorter are too much like each other.
const NAME_LETTERS_MIN: usize = 5;
/// Ignored parameters that are told.
const TOLD_MAX: usize = 8;

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
    pub fn carried(self) -> Vec<&'static str> {
        let is_first = |name: &&str| !matches!(*name, "noredirect" | "excludedatanodes");
        let mut carried: Vec<_> = self.parameters().iter().copied().filter(is_first).collect();
        carried.sort_unstable();
        carried
    }

    /// Looks at all that is said with the operation: the text for the header `Warning`, if something is ignored.
    ///
    /// # Errors
    /// If a value is none, or a name looks like one of this operation's and is not.
    pub fn judge(self, query: &Query) -> Result<Option<String>, WebError> {
        for name in self.parameters() {
            let kind = PARAMETERS.iter().find(|(known, ..)| known == name).map(|(_, kind, _)| kind);
            match kind {
                Some(Kind::Flag) => query.boolean(name, false).map(drop)?,
                Some(Kind::Long(min)) => query.long(name, *min).map(drop)?,
                Some(Kind::Integer(min)) => query.integer(name, *min).map(drop)?,
                Some(Kind::Short(min)) => query.short(name, *min).map(drop)?,
                Some(Kind::Bits) => query.permission(name).map(drop)?,
                Some(Kind::Text) | None => {}
            }
        }
        let mut ignored = Vec::new();
        for name in query.names() {
            if COMMON.contains(&name) || self.parameters().contains(&name) {
                continue;
            }
            let is_known = PARAMETERS.iter().any(|(known, ..)| *known == name);
            let meant = self.parameters().iter().find(|known| looks_like(name, known));
            if let Some(meant) = meant.filter(|_| !is_known) {
                let text = format!(
                    "{} has no parameter \"{}\"; did you mean \"{meant}\"?",
                    self.name(),
                    name.escape_debug()
                );
                return Err(WebError::illegal(text));
            }
            if !ignored.contains(&name) && ignored.len() < TOLD_MAX {
                ignored.push(name);
            }
        }
        let told = ignored.join(", ").escape_default().to_string().replace(['"', '\\'], "");
        let op = self.name();
        let told: String = told.chars().take(200).collect();
        Ok((!ignored.is_empty()).then(|| format!("299 hanno \"ignored, {op} has not: {told}\"")))
    }
}

fn looks_like(name: &str, known: &str) -> bool {
    name.len() >= NAME_LETTERS_MIN
        && name.len() <= known.len() + MISTAKES_MAX
        && strsim::osa_distance(name, known) <= MISTAKES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hadoop 3.4's operations, and those that only HttpFS has.
    const HADOOP: &str = include_str!("../../tests/webhdfs/operations.txt");

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

    #[test]
    fn nothing_that_is_said_is_lost_in_silence() {
        let judge = |op: Op, text: &str| op.judge(&Query::parse(text));
        for (op, text) in [
            (Op::Delete, "op=DELETE&recursive=true&user.name=a&doas=b&delegation=c"),
            (Op::Open, "op=OPEN&offset=1&length=2&buffersize=3&noredirect=true"),
            (Op::Create, "permission=644&unmaskedpermission=666&Overwrite=TRUE&data=true"),
        ] {
            assert_eq!(judge(op, text), Ok(None), "{text}");
        }
        for (op, text, told) in [
            (Op::Mkdirs, "overwrite=true&noredirect=true", "MKDIRS has not: overwrite, noredirect"),
            (Op::Open, "delegation_token=x", "OPEN has not: delegation_token"),
            (Op::Open, "a%22%0D%0Ab=x", "OPEN has not: arnb"),
        ] {
            let warning = judge(op, text).unwrap().unwrap();
            assert_eq!(warning, format!("299 hanno \"ignored, {told}\""), "{text}");
        }
        for (op, text, meant) in [
            (Op::Delete, "recursiv=true", "recursive"),
            (Op::Open, "lenght=10", "length"),
            (Op::Create, "overwrites=true", "overwrite"),
            (Op::SetOwner, "grupp=x", "group"),
        ] {
            let refused = judge(op, text).unwrap_err().message;
            assert!(refused.ends_with(&format!("did you mean \"{meant}\"?")), "{refused}");
        }
        for (op, text) in [
            (Op::Delete, "recursive=perhaps"),
            (Op::Open, "offset=-1"),
            (Op::Create, "blocksize=0"),
            (Op::SetTimes, "accesstime=-2"),
            (Op::Mkdirs, "unmaskedpermission=7777"),
        ] {
            assert!(judge(op, text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_judged_and_told_in_a_header(text in ".{0,300}", which in 0..Op::ALL.len()) {
            if let Ok(Some(warning)) = Op::ALL[which].judge(&Query::parse(&text)) {
                proptest::prop_assert!(axum::http::HeaderValue::from_str(&warning).is_ok());
            }
        }
    }
}
