//! Every file and directory as a line of columns: Hadoop's names, order and forms. A field with a comma, a quotation mark, the end of a line or the delimiter in
//! it is in quotation marks, as in CSV.

use std::borrow::Cow;
use std::io::{self, Write};

use jiff::tz::TimeZone;
use namenode::core::inodes::{File, Inode};
use namenode::core::namespace::Namespace;
use protocol::InodeId;

use super::walk;
use crate::output::{minute_time, permissions};

/// What separates columns if nothing else is wanted.
pub(super) const DELIMITER: &str = "\t";

const COLUMNS: [&str; 12] = [
    "Path",
    "Replication",
    "ModificationTime",
    "AccessTime",
    "PreferredBlockSize",
    "BlocksCount",
    "FileSize",
    "NSQUOTA",
    "DSQUOTA",
    "Permission",
    "UserName",
    "GroupName",
];

pub(super) fn write(
    ns: &Namespace,
    delimiter: &str,
    zone: &TimeZone,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(delimiter))?;
    walk(ns, &mut |path, id, inode| {
        let columns = columns(ns, path, (id, inode), zone);
        let fields: Vec<Cow<'_, str>> =
            columns.iter().map(|column| field(column, delimiter)).collect();
        writeln!(out, "{}", fields.join(delimiter))
    })
}

fn columns(
    ns: &Namespace,
    path: &str,
    (id, inode): (InodeId, &Inode),
    zone: &TimeZone,
) -> [String; 12] {
    let file = inode.file();
    let number = |of: fn(&File) -> u64| file.map_or(0, of).to_string();
    let quota = |limit: Option<u64>| match (file, limit) {
        (Some(_), _) => "0".to_owned(),
        (None, Some(limit)) => limit.to_string(),
        (None, None) => "-1".to_owned(),
    };
    let quotas = ns.quota_of(id);
    let kind = if file.is_some() { '-' } else { 'd' };
    let acl = if ns.acl(id).is_empty() { "" } else { "+" };
    [
        path.to_owned(),
        number(|file| u64::from(file.replication)),
        minute_time(inode.mtime_ms, zone),
        minute_time(inode.atime_ms(), zone),
        number(|file| file.block_size),
        number(|file| file.blocks.len() as u64),
        number(File::visible_length),
        quota(quotas.names),
        quota(quotas.space),
        format!("{kind}{}{acl}", permissions(inode.mode)),
        ns.names.text(inode.owner).to_owned(),
        ns.names.text(inode.group).to_owned(),
    ]
}

fn field<'a>(text: &'a str, delimiter: &str) -> Cow<'a, str> {
    match text.contains([',', '"', '\r', '\n']) || text.contains(delimiter) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn lines(delimiter: &str) -> String {
        let mut out = Vec::new();
        write(&sample(), delimiter, &TimeZone::UTC, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_have_hadoops_columns() {
        let zero = "1970-01-01 00:00";
        let expected = format!(
            "Path|Replication|ModificationTime|AccessTime|PreferredBlockSize|BlocksCount|FileSize|NSQUOTA|DSQUOTA|Permission|UserName|GroupName\n\
             /|0|1970-01-01 00:01|{zero}|0|0|0|9223372036854775807|-1|drwxr-xr-x|ann|sg\n\
             /a|0|1970-01-01 00:01|{zero}|0|0|0|-1|-1|drwxr-xr-x|ann|sg\n\
             /a/b|0|1970-01-01 00:01|{zero}|0|0|0|-1|-1|drwxr-xr-x|ann|sg\n\
             \"/a/f, g\"|3|1970-01-01 00:02|1970-01-01 00:01|1000|1|10|0|0|-rw-r-----|ann|sg\n\
             /o|3|1970-01-01 00:01|1970-01-01 00:01|1000|0|0|0|0|-rw-r-----|ann|sg\n"
        );
        assert_eq!(lines("|"), expected);
        assert_eq!(lines(DELIMITER).lines().next().unwrap().split('\t').count(), COLUMNS.len());
    }

    #[test]
    fn a_field_never_looks_like_two() {
        for (text, delimiter, expected) in [
            ("/a\tb", "\t", "\"/a\tb\""),
            ("/a\tb", ";", "/a\tb"),
            ("/a\"b", ";", "\"/a\"\"b\""),
            ("/a--b", "--", "\"/a--b\""),
        ] {
            assert_eq!(field(text, delimiter), expected, "{text}");
        }
    }
}
