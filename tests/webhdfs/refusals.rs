//! Every refusal is Hadoop's exception: its class, its status, its words.

use super::{DENIED, EXISTS, ILLEGAL, IO, NOT_FOUND, Web, exception};
use crate::support::http::{Answer, request};

/// Method, what, status, class, text.
type Refusal = (&'static str, &'static str, u16, &'static str, &'static str);

const ACL: &str = "org.apache.hadoop.hdfs.protocol.AclException";
const SNAPSHOT: &str = "org.apache.hadoop.hdfs.protocol.SnapshotException";
const NAMES: &str = "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException";
const SPACE: &str = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException";
const HADOOP_ILLEGAL: &str = "org.apache.hadoop.HadoopIllegalArgumentException";
const UNSUPPORTED: &str = "java.lang.UnsupportedOperationException";
const NO_DIRECTORY: &str = "org.apache.hadoop.fs.PathIsNotDirectoryException";
const NO_PATH: &str = "org.apache.hadoop.fs.InvalidPathException";

/// As the superuser; `/d` is a directory with the file `f` of 5 bytes.
const REFUSALS: &[Refusal] = &[
    (
        "GET",
        "/?op=FOO",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"op\": FOO is not a valid GET operation.",
    ),
    (
        "GET",
        "/?op=CREATE",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"op\": CREATE is not a valid GET operation.",
    ),
    (
        "GET",
        "/",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"op\":  is not a valid GET operation.",
    ),
    (
        "PATCH",
        "/?op=MKDIRS",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"op\": MKDIRS is not a valid PATCH operation.",
    ),
    (
        "DELETE",
        "/d?op=DELETE&recursive=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"recursive\": Failed to parse \"x\" to Boolean.",
    ),
    (
        "PUT",
        "/d?op=RENAME",
        400,
        ILLEGAL,
        "Required param destination for op: RENAME is null or empty",
    ),
    (
        "PUT",
        "/d?op=RENAME&destination=",
        400,
        ILLEGAL,
        "Required param destination for op: RENAME is null or empty",
    ),
    (
        "PUT",
        "/d/f?op=SETREPLICATION&replication=0",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"replication\": Invalid parameter range: replication = 0 < 1",
    ),
    (
        "PUT",
        "/d/f?op=SETREPLICATION&replication=1025",
        403,
        IO,
        "Requested replication factor of 1025 exceeds maximum of 512 for /d/f",
    ),
    (
        "PUT",
        "/d/f?op=SETPERMISSION&permission=8",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"permission\": Failed to parse \"8\" as a radix-8 short integer.",
    ),
    (
        "PUT",
        "/d/f?op=SETPERMISSION&permission=2000",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"permission\": Invalid parameter range: permission = 2000 > 1777",
    ),
    ("PUT", "/d/f?op=SETOWNER", 400, ILLEGAL, "Both owner and group are empty."),
    ("PUT", "/x?op=SETOWNER&owner=a", 404, NOT_FOUND, "File does not exist: /x"),
    ("PUT", "/x?op=SETPERMISSION&permission=600", 404, NOT_FOUND, "File does not exist: /x"),
    (
        "PUT",
        "/x?op=SETTIMES&modificationtime=1",
        404,
        NOT_FOUND,
        "File/Directory /x does not exist.",
    ),
    (
        "PUT",
        "/d/f?op=SETTIMES&modificationtime=-2",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"modificationtime\": Invalid parameter range: modificationtime = -2 < -1",
    ),
    ("GET", "/x?op=GETFILESTATUS", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/x?op=LISTSTATUS", 404, NOT_FOUND, "File /x does not exist."),
    ("GET", "/x?op=LISTSTATUS_BATCH", 404, NOT_FOUND, "File /x does not exist."),
    ("GET", "/x?op=GETCONTENTSUMMARY", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/x?op=GET_BLOCK_LOCATIONS", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/x?op=OPEN", 404, NOT_FOUND, "File /x not found."),
    ("GET", "/d?op=OPEN", 404, NOT_FOUND, "Path is not a file: /d"),
    ("GET", "/d?op=GETFILECHECKSUM", 404, NOT_FOUND, "Path is not a file: /d"),
    ("GET", "/d/f?op=OPEN&offset=5", 403, IO, "Offset=5 out of the range [0, 5); OPEN, path=/d/f"),
    (
        "GET",
        "/d/f?op=OPEN&offset=-1",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"offset\": Invalid parameter range: offset = -1 < 0",
    ),
    (
        "GET",
        "/d/f?op=OPEN&length=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"length\": Failed to parse \"x\" as a radix-10 long integer.",
    ),
    ("GET", "/d/f/x?op=GETFILESTATUS", 404, NOT_FOUND, "File does not exist: /d/f/x"),
    ("PUT", "/d/f?op=MKDIRS", 403, EXISTS, "Path is not a directory: /d/f"),
    (
        "PUT",
        "/d/f/x?op=MKDIRS",
        403,
        "org.apache.hadoop.fs.ParentNotDirectoryException",
        "/d/f (is not a directory)",
    ),
    ("PUT", "/d/f?op=CREATE", 403, EXISTS, "/d/f for client 127.0.0.1 already exists"),
    ("PUT", "/d?op=CREATE&overwrite=true", 403, EXISTS, "/d already exists as a directory"),
    (
        "PUT",
        "/d/g?op=CREATE&blocksize=0",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"blocksize\": Invalid parameter range: blocksize = 0 < 1",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&blocksize=512",
        403,
        IO,
        "Specified block size is less than configured minimum value (dfs.namenode.fs-limits.min-block-size): 512 < 1024",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&replication=600",
        403,
        IO,
        "Requested replication factor of 600 exceeds maximum of 512 for /d/g",
    ),
    (
        "PUT",
        "/n/n/g?op=CREATE&createparent=false",
        404,
        NOT_FOUND,
        "Parent directory doesn't exist: /n/n",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&createflag=WRONG",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"createflag\": No enum constant org.apache.hadoop.fs.CreateFlag.WRONG",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&createflag=OVERWRITE",
        404,
        NOT_FOUND,
        "Can't overwrite non-existent /d/g",
    ),
    (
        "PUT",
        "/d/f/x?op=CREATE",
        403,
        "org.apache.hadoop.fs.ParentNotDirectoryException",
        "/d/f (is not a directory)",
    ),
    (
        "POST",
        "/d/f/x?op=APPEND",
        404,
        NOT_FOUND,
        "Failed to append to non-existent file /d/f/x for client 127.0.0.1",
    ),
    ("GET", "/d/f/x?op=GETFILECHECKSUM", 404, NOT_FOUND, "File /d/f/x not found."),
    ("GET", "/d/f/x?op=OPEN", 404, NOT_FOUND, "File /d/f/x not found."),
    ("GET", "/d/f/x?op=LISTSTATUS", 403, DENIED, "/d/f (is not a directory)"),
    ("DELETE", "/d/f/x?op=DELETE", 403, DENIED, "/d/f (is not a directory)"),
    ("PUT", "/d/f/x?op=SETTIMES&accesstime=1", 403, DENIED, "/d/f (is not a directory)"),
    (
        "PUT",
        "/d/f/x?op=RENAME&destination=/y",
        403,
        "org.apache.hadoop.fs.ParentNotDirectoryException",
        "/d/f (is not a directory)",
    ),
    (
        "DELETE",
        "/?op=DELETE",
        403,
        "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
        "`/ is non empty': Directory is not empty",
    ),
    ("GET", "/d/f?op=GETLINKTARGET", 403, IO, "Path /d/f is not a symbolic link"),
    ("GET", "/x?op=GETLINKTARGET", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/x?op=GETFILELINKSTATUS", 404, NOT_FOUND, "File does not exist: /x"),
    (
        "DELETE",
        "/d?op=DELETE&recursiv=true",
        400,
        ILLEGAL,
        "DELETE has no parameter \"recursiv\"; did you mean \"recursive\"?",
    ),
    (
        "GET",
        "/?op=INSTRUMENTATION",
        400,
        UNSUPPORTED,
        "INSTRUMENTATION is not supported: figures are at /metrics and /jmx",
    ),
    (
        "PUT",
        "/d/f?op=RENAME&destination=/d/f&renameoptions=NONE",
        403,
        EXISTS,
        "The source /d/f and destination /d/f are the same",
    ),
    (
        "PUT",
        "/x?op=RENAME&destination=/y&renameoptions=NONE",
        404,
        NOT_FOUND,
        "rename source /x not found.",
    ),
    (
        "PUT",
        "/d/f?op=RENAME&destination=/n/f&renameoptions=NONE",
        404,
        NOT_FOUND,
        "rename destination parent /n not found.",
    ),
    (
        "PUT",
        "/d?op=RENAME&destination=/d/e&renameoptions=NONE",
        403,
        IO,
        "Rename destination /d/e is a directory or file under source /d",
    ),
    (
        "PUT",
        "/d?op=RENAME&destination=/e&renameoptions=X",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"renameoptions\": No enum constant org.apache.hadoop.fs.Options.Rename.X",
    ),
    (
        "PUT",
        "/d?op=RENAME&destination=e",
        400,
        NO_PATH,
        "Invalid path name: `e': it is not absolute",
    ),
    (
        "DELETE",
        "/d?op=DELETE",
        403,
        "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
        "`/d is non empty': Directory is not empty",
    ),
    (
        "POST",
        "/d?op=APPEND",
        403,
        EXISTS,
        "Cannot append to directory /d; already exists as a directory.",
    ),
    (
        "GET",
        "/a/../b?op=GETFILESTATUS",
        400,
        NO_PATH,
        "Invalid path name: `/a/../b': `.` and `..` are not allowed",
    ),
    (
        "GET",
        "/a%3Ab?op=GETFILESTATUS",
        400,
        NO_PATH,
        "Invalid path name: `/a:b': an element contains `/` or `:`",
    ),
    ("GET", "/%FF?op=GETFILESTATUS", 400, NO_PATH, "Invalid path name /webhdfs/v1/%FF"),
    (
        "GET",
        "/d?op=GETECPOLICY",
        400,
        "java.lang.UnsupportedOperationException",
        "GETECPOLICY is not supported: files are replicated; there is no erasure coding",
    ),
    (
        "PUT",
        "/d/l?op=CREATESYMLINK&destination=/d/f",
        400,
        "java.lang.UnsupportedOperationException",
        "CREATESYMLINK is not supported: HDFS has them turned off, and here are none",
    ),
];

/// As the superuser; besides, `/snap` may have snapshots, `/q` may have two names and less than a block, and `/q0` no byte.
const MORE_REFUSALS: &[Refusal] = &[
    ("GET", "/x?op=GETQUOTAUSAGE", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/x?op=GETFILECHECKSUM", 404, NOT_FOUND, "File /x not found."),
    ("GET", "/x?op=GETFILEBLOCKLOCATIONS", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/d?op=GETFILEBLOCKLOCATIONS", 404, NOT_FOUND, "Path is not a file: /d"),
    ("GET", "/d?op=GET_BLOCK_LOCATIONS", 404, NOT_FOUND, "Path is not a file: /d"),
    (
        "GET",
        "/d/f?op=GET_BLOCK_LOCATIONS&offset=-1",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"offset\": Invalid parameter range: offset = -1 < 0",
    ),
    (
        "GET",
        "/d/f?op=CHECKACCESS",
        400,
        ILLEGAL,
        "Required param fsaction for op: CHECKACCESS is null or empty",
    ),
    (
        "GET",
        "/d/f?op=CHECKACCESS&fsaction=abc",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"fsaction\": Invalid value: \"abc\" does not belong to the domain [rwx-]{3}",
    ),
    ("GET", "/x?op=CHECKACCESS&fsaction=r--", 404, NOT_FOUND, "Path not found: /x"),
    ("GET", "/x?op=GETACLSTATUS", 404, NOT_FOUND, "File does not exist: /x"),
    ("GET", "/x?op=GETXATTRS", 404, NOT_FOUND, "cannot find /x"),
    ("GET", "/x?op=LISTXATTRS", 404, NOT_FOUND, "cannot find /x"),
    (
        "GET",
        "/d/f?op=GETXATTRS&encoding=rot13",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"encoding\": No enum constant org.apache.hadoop.fs.XAttrCodec.ROT13",
    ),
    ("GET", "/x?op=GETSTORAGEPOLICY", 404, NOT_FOUND, "File/Directory does not exist: /x"),
    (
        "GET",
        "/d?op=GETSNAPSHOTDIFF&oldsnapshotname=a&snapshotname=b",
        403,
        SNAPSHOT,
        "The path /d is neither snapshottable nor under a snapshot root!",
    ),
    (
        "GET",
        "/d/f?op=OPEN&buffersize=0",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"buffersize\": Invalid parameter range: buffersize = 0 < 1",
    ),
    (
        "GET",
        "/d/f?op=OPEN&noredirect=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"noredirect\": Failed to parse \"x\" to Boolean.",
    ),
    (
        "GET",
        "/?op=GETNOTHING",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"op\": GETNOTHING is not a valid GET operation.",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&overwrite=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"overwrite\": Failed to parse \"x\" to Boolean.",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&permission=888",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"permission\": Failed to parse \"888\" as a radix-8 short integer.",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&unmaskedpermission=9",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"unmaskedpermission\": Failed to parse \"9\" as a radix-8 short integer.",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&buffersize=-1",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"buffersize\": Invalid parameter range: buffersize = -1 < 1",
    ),
    (
        "PUT",
        "/d/g?op=CREATE&replication=99999",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"replication\": Failed to parse \"99999\" as a radix-10 short integer.",
    ),
    (
        "PUT",
        "/d/g?op=MKDIRS&permission=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"permission\": Failed to parse \"x\" as a radix-8 short integer.",
    ),
    (
        "PUT",
        "/d/f?op=SETTIMES&accesstime=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"accesstime\": Failed to parse \"x\" as a radix-10 long integer.",
    ),
    (
        "PUT",
        "/d/f?op=SETXATTR&flag=CREATE",
        400,
        ILLEGAL,
        "Required param xattr.name for op: SETXATTR is null or empty",
    ),
    (
        "PUT",
        "/d/f?op=SETXATTR&xattr.name=user.a&flag=X",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"flag\": No enum constant org.apache.hadoop.fs.XAttrSetFlag.X",
    ),
    (
        "PUT",
        "/d/f?op=SETXATTR&xattr.name=user.a&flag=REPLACE",
        403,
        IO,
        "XAttr: a does not exist. The CREATE flag must be specified.",
    ),
    ("PUT", "/x?op=SETXATTR&xattr.name=user.a&flag=CREATE", 404, NOT_FOUND, "cannot find /x"),
    (
        "PUT",
        "/d/f?op=REMOVEXATTR",
        400,
        ILLEGAL,
        "Required param xattr.name for op: REMOVEXATTR is null or empty",
    ),
    (
        "PUT",
        "/d/f?op=REMOVEXATTR&xattr.name=user.none",
        403,
        IO,
        "No matching attributes found for remove operation",
    ),
    (
        "PUT",
        "/d/f?op=SETACL",
        400,
        ILLEGAL,
        "Required param aclspec for op: SETACL is null or empty",
    ),
    (
        "PUT",
        "/d/f?op=MODIFYACLENTRIES&aclspec=nonsense",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"aclspec\": Invalid type of acl in <aclSpec> :nonsense",
    ),
    (
        "PUT",
        "/d/f?op=MODIFYACLENTRIES&aclspec=default:user:bob:rwx",
        403,
        ACL,
        "Invalid ACL: only directories may have a default ACL. Path: /d/f",
    ),
    ("PUT", "/x?op=REMOVEACL", 404, NOT_FOUND, "File does not exist: /x"),
    ("PUT", "/x?op=REMOVEDEFAULTACL", 404, NOT_FOUND, "File does not exist: /x"),
    ("PUT", "/x?op=REMOVEACLENTRIES&aclspec=user:bob", 404, NOT_FOUND, "File does not exist: /x"),
    ("PUT", "/x?op=ALLOWSNAPSHOT", 404, NOT_FOUND, "Directory does not exist: /x"),
    ("PUT", "/x?op=DISALLOWSNAPSHOT", 404, NOT_FOUND, "Directory does not exist: /x"),
    (
        "PUT",
        "/d?op=CREATESNAPSHOT&snapshotname=s",
        403,
        SNAPSHOT,
        "Directory is not a snapshottable directory: /d",
    ),
    (
        "PUT",
        "/snap?op=CREATESNAPSHOT&snapshotname=a:b",
        400,
        NO_PATH,
        "Invalid path name Invalid snapshot name: a:b",
    ),
    (
        "PUT",
        "/snap?op=RENAMESNAPSHOT&snapshotname=b",
        400,
        ILLEGAL,
        "Required param oldsnapshotname for op: RENAMESNAPSHOT is null or empty",
    ),
    (
        "PUT",
        "/snap?op=RENAMESNAPSHOT&oldsnapshotname=none&snapshotname=b",
        403,
        SNAPSHOT,
        "The snapshot none does not exist for directory /snap",
    ),
    (
        "DELETE",
        "/snap?op=DELETESNAPSHOT",
        400,
        ILLEGAL,
        "Required param snapshotname for op: DELETESNAPSHOT is null or empty",
    ),
    (
        "DELETE",
        "/snap?op=DELETESNAPSHOT&snapshotname=none",
        403,
        SNAPSHOT,
        "Cannot delete snapshot none from path /snap: the snapshot does not exist.",
    ),
    (
        "PUT",
        "/d?op=SETSTORAGEPOLICY",
        400,
        ILLEGAL,
        "Required param storagepolicy for op: SETSTORAGEPOLICY is null or empty",
    ),
    (
        "PUT",
        "/d?op=SETSTORAGEPOLICY&storagepolicy=NONE",
        400,
        HADOOP_ILLEGAL,
        "Cannot find a block policy with the name NONE",
    ),
    (
        "PUT",
        "/x?op=SETSTORAGEPOLICY&storagepolicy=HOT",
        404,
        NOT_FOUND,
        "File/Directory does not exist: /x",
    ),
    ("PUT", "/x?op=SETQUOTA&namespacequota=5", 404, NOT_FOUND, "Directory does not exist: /x"),
    (
        "PUT",
        "/d?op=SETQUOTA&namespacequota=0",
        400,
        ILLEGAL,
        "Invalid values for quota : 0 and 9223372036854775807",
    ),
    (
        "PUT",
        "/d?op=SETQUOTA&namespacequota=0&storagespacequota=0",
        400,
        ILLEGAL,
        "Invalid values for quota : 0 and 0",
    ),
    (
        "PUT",
        "/d?op=SETQUOTA&storagespacequota=-7",
        400,
        ILLEGAL,
        "Invalid values for quota : 9223372036854775807 and -7",
    ),
    (
        "PUT",
        "/d?op=SETQUOTA&namespacequota=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"namespacequota\": Failed to parse \"x\" as a radix-10 long integer.",
    ),
    ("PUT", "/d/f?op=SETQUOTA&namespacequota=5", 403, NO_DIRECTORY, "`/d/f': Is not a directory"),
    (
        "PUT",
        "/?op=SETQUOTA&namespacequota=-1",
        400,
        ILLEGAL,
        "Cannot clear namespace quota on root.",
    ),
    (
        "PUT",
        "/q/g?op=MKDIRS",
        403,
        NAMES,
        "The NameSpace quota (directories and files) of directory /q is exceeded: quota=2 file count=3",
    ),
    (
        "PUT",
        "/q/f?op=CREATE&overwrite=true",
        403,
        SPACE,
        "The DiskSpace quota of /q is exceeded: quota = 10000000 B = 9.54 MB but diskspace consumed = 268435456 B = 256 MB",
    ),
    (
        "PUT",
        "/q0/f?op=CREATE&overwrite=true",
        403,
        SPACE,
        "The DiskSpace quota of /q0 is exceeded: quota = 0 B = 0 B but diskspace consumed = 268435456 B = 256 MB",
    ),
    ("POST", "/x?op=CONCAT&sources=/d/f", 404, NOT_FOUND, "File does not exist: /x"),
    (
        "POST",
        "/d/f?op=CONCAT&sources=/p/f",
        400,
        HADOOP_ILLEGAL,
        "Source file /p/f is not in the same directory with the target /d/f",
    ),
    ("POST", "/d/f?op=CONCAT&sources=/d/none", 404, NOT_FOUND, "File does not exist: /d/none"),
    ("POST", "/x?op=TRUNCATE&newlength=1", 404, NOT_FOUND, "File does not exist: /x"),
    ("POST", "/d?op=TRUNCATE&newlength=1", 404, NOT_FOUND, "Path is not a file: /d"),
    (
        "POST",
        "/d/f?op=TRUNCATE&newlength=-1",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"newlength\": Invalid parameter range: newlength = -1 < 0",
    ),
    (
        "POST",
        "/d/f?op=TRUNCATE&newlength=x",
        400,
        ILLEGAL,
        "Invalid value for webhdfs parameter \"newlength\": Failed to parse \"x\" as a radix-10 long integer.",
    ),
    (
        "POST",
        "/d/f?op=UNSETECPOLICY",
        400,
        UNSUPPORTED,
        "UNSETECPOLICY is not supported: files are replicated; there is no erasure coding",
    ),
    (
        "PUT",
        "/d?op=SETQUOTABYSTORAGETYPE&storagetype=SSD&storagespacequota=5",
        400,
        UNSUPPORTED,
        "SETQUOTABYSTORAGETYPE is not supported: every volume is a disk",
    ),
];

/// As alice, who owns nothing; `/d` is 755, `/p` is 700.
const DENIALS: &[Refusal] = &[
    ("PUT", "/d/a?op=MKDIRS", 403, DENIED, "access=WRITE, inode=\"/d\""),
    ("PUT", "/d/a?op=CREATE", 403, DENIED, "access=WRITE, inode=\"/d\""),
    ("DELETE", "/d/f?op=DELETE", 403, DENIED, "access=WRITE, inode=\"/d\""),
    ("GET", "/p/f?op=OPEN", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    ("GET", "/d/f/x?op=GETFILESTATUS", 403, DENIED, "/d/f (is not a directory)"),
    ("GET", "/d/f/x?op=OPEN", 403, DENIED, "/d/f (is not a directory)"),
    ("GET", "/d/f/x?op=LISTSTATUS", 403, DENIED, "/d/f (is not a directory)"),
    ("GET", "/p?op=LISTSTATUS", 403, DENIED, "access=READ_EXECUTE, inode=\"/p\""),
    ("GET", "/p/f?op=GETFILECHECKSUM", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    (
        "PUT",
        "/d/f?op=SETPERMISSION&permission=777",
        403,
        DENIED,
        "user=alice is not the owner of inode",
    ),
    ("PUT", "/d/f?op=SETOWNER&owner=alice", 403, DENIED, "alice is not"),
    ("GET", "/p/f?op=GETFILESTATUS", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    ("GET", "/p/f?op=GETACLSTATUS", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    ("GET", "/p/f?op=GETXATTRS", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    ("GET", "/p?op=GETCONTENTSUMMARY", 403, DENIED, "access=READ_EXECUTE, inode=\"/p\""),
    ("GET", "/p?op=LISTSTATUS_BATCH", 403, DENIED, "access=READ_EXECUTE, inode=\"/p\""),
    ("GET", "/p/f?op=GET_BLOCK_LOCATIONS", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    ("GET", "/p/f?op=GETFILEBLOCKLOCATIONS", 403, DENIED, "access=EXECUTE, inode=\"/p\""),
    ("GET", "/d/f?op=CHECKACCESS&fsaction=-w-", 403, DENIED, "access=WRITE, inode=\"/d/f\""),
    ("PUT", "/d/f?op=SETTIMES&modificationtime=1", 403, DENIED, "user=alice"),
    ("PUT", "/d/f?op=SETREPLICATION&replication=1", 403, DENIED, "access=WRITE, inode=\"/d/f\""),
    ("PUT", "/d/f?op=RENAME&destination=/d/g", 403, DENIED, "access=WRITE, inode=\"/d\""),
    (
        "PUT",
        "/d/f?op=SETXATTR&xattr.name=user.a&xattr.value=1&flag=CREATE",
        403,
        DENIED,
        "access=WRITE, inode=\"/d/f\"",
    ),
    (
        "PUT",
        "/d/f?op=SETACL&aclspec=user::rwx,group::rwx,other::rwx",
        403,
        DENIED,
        "alice is not the owner",
    ),
    ("POST", "/d/f?op=APPEND", 403, DENIED, "access=WRITE, inode=\"/d/f\""),
    ("POST", "/d/f?op=TRUNCATE&newlength=1", 403, DENIED, "access=WRITE, inode=\"/d/f\""),
    ("PUT", "/d?op=ALLOWSNAPSHOT", 403, DENIED, "Superuser privilege is required"),
    ("PUT", "/d?op=DISALLOWSNAPSHOT", 403, DENIED, "Superuser privilege is required"),
    ("PUT", "/d?op=SETSTORAGEPOLICY&storagepolicy=HOT", 403, DENIED, "access=WRITE, inode=\"/d\""),
    ("PUT", "/d?op=SETQUOTA&namespacequota=5", 403, DENIED, "Superuser privilege is required"),
    (
        "PUT",
        "/snap?op=CREATESNAPSHOT&snapshotname=s",
        403,
        DENIED,
        "alice is not the owner of inode=/snap",
    ),
    (
        "DELETE",
        "/snap?op=DELETESNAPSHOT&snapshotname=s",
        403,
        DENIED,
        "alice is not the owner of inode=/snap",
    ),
];

/// The text of an answer, which must be this exception.
#[track_caller]
fn refused(answer: &Answer, (method, rest, status, class, _): &Refusal) -> String {
    let (found_status, found_class, message) = exception(answer);
    assert_eq!(
        (found_status, found_class.as_str()),
        (*status, *class),
        "{method} {rest}: {message}"
    );
    message
}

#[test]
fn every_refusal_is_hadoops_exception() {
    let web = Web::start();
    web.put("/d/f", b"12345");
    web.put("/p/f", b"12345");
    web.ask("PUT", "/p?op=SETPERMISSION&permission=700").is(200);
    web.ask("PUT", "/snap?op=MKDIRS").is(200);
    web.ask("PUT", "/snap?op=ALLOWSNAPSHOT").is(200);
    web.put("/q/f", b"");
    web.ask("PUT", "/q?op=SETQUOTA&namespacequota=2&storagespacequota=10000000").is(200);
    web.put("/q0/f", b"");
    web.ask("PUT", "/q0?op=SETQUOTA&storagespacequota=0").is(200);
    let quota = web.ask("GET", "/q0?op=GETQUOTAUSAGE").is(200).json()["QuotaUsage"].clone();
    assert_eq!((&quota["quota"], &quota["spaceQuota"]), (&(-1).into(), &0.into()));
    for refusal @ (method, rest, .., text) in REFUSALS.iter().chain(MORE_REFUSALS) {
        let message = refused(&web.send(method, rest, b"x"), refusal);
        assert_eq!(message.lines().next(), Some(*text), "{method} {rest}");
    }
    for refusal @ (method, rest, .., text) in DENIALS {
        let url = web.url("alice", rest);
        let mut answer = request(method, &url, b"");
        if answer.status == 307 {
            answer = request(method, answer.header("location").unwrap(), b"x");
        }
        let message = refused(&answer, refusal);
        assert!(message.contains(text), "{method} {rest}: {message}");
    }
    let long = "n".repeat(300);
    for (rest, directory) in [
        (format!("/d/{long}?op=MKDIRS"), "/d"),
        (format!("/snap?op=CREATESNAPSHOT&snapshotname={long}"), "/snap"),
    ] {
        let (status, class, message) = exception(&web.ask("PUT", &rest));
        assert_eq!(status, 403);
        assert!(class.ends_with("FSLimitException$PathComponentTooLongException"), "{class}");
        let end = format!("in directory {directory} is exceeded: limit=255 length=300");
        assert!(message.ends_with(&end), "{message}");
    }
    web.cluster.hanno(&["admin", "safemode", "enter"]).ok();
    let (status, class, message) = exception(&web.ask("PUT", "/e?op=MKDIRS"));
    assert_eq!((status, class.rsplit('.').next()), (403, Some("SafeModeException")));
    assert!(
        message.starts_with("Cannot create directory /e. Name node is in safe mode."),
        "{message}"
    );
    assert!(message.ends_with(" NamenodeHostName:127.0.0.1"), "{message}");
    let of_dn = web.second_step("GET", "/d/f?op=OPEN").replace("op=OPEN", "op=GETFILESTATUS");
    assert_eq!(exception(&request("GET", &of_dn, b"")).2, "Invalid operation GETFILESTATUS");
}
