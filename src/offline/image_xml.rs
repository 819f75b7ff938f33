//! A name space in the elements of Hadoop's XML. What Hadoop has no element for is there under a name of our own: `clusterId`, and of a former version of an
//! inode `from` and `until`. Snapshots whose numbers are at least `from` and below `until` show that version.

use std::fmt::Display;
use std::io::{self, Write};

use namenode::core::inodes::{Features, File, Inode, Version, VersionBlocks};
use namenode::core::namespace::Namespace;
use namenode::offline::Image;
use protocol::xattr::XattrName;
use protocol::{BlockId, InodeId};

use super::walk;
use crate::xml::{element, hex};

pub(super) fn write(image: &Image, out: &mut dyn Write) -> io::Result<()> {
    let ns = image.namespace();
    write!(out, "<?xml version=\"1.0\"?>\n<fsimage>")?;
    let counters = ns.counters();
    let cluster = counters.cluster.map(|cluster| element("clusterId", cluster));
    let name_section = [
        cluster.unwrap_or_default(),
        element("genstampV2", counters.next_stamp.saturating_sub(1)),
        element("lastAllocatedBlockId", counters.next_block.saturating_sub(1)),
        element("txid", image.last()),
    ];
    writeln!(out, "<NameSection>\n{}</NameSection>", name_section.concat())?;
    inodes(ns, out)?;
    writeln!(out, "<INodeReferenceSection></INodeReferenceSection>")?;
    snapshots(ns, out)?;
    directories(ns, out)?;
    open_files(ns, out)?;
    versions(ns, out)?;
    tokens(image, out)?;
    writeln!(out, "</fsimage>")
}

fn inodes(ns: &Namespace, out: &mut dyn Write) -> io::Result<()> {
    let last = element("lastInodeId", ns.counters().next_inode.saturating_sub(1));
    write!(out, "<INodeSection>{last}{}", element("numInodes", ns.inode_count()))?;
    for (id, inode) in live(ns) {
        writeln!(out, "<inode>{}</inode>", content(ns, id, inode))?;
    }
    writeln!(out, "</INodeSection>")
}

/// What is below the root, in order of ids. Trees that were deleted are taken apart later, and are not there any more.
fn live(ns: &Namespace) -> impl Iterator<Item = (InodeId, &Inode)> {
    ns.all().filter(|(id, _)| ns.is_within(*id, InodeId::ROOT))
}

fn content(ns: &Namespace, id: InodeId, inode: &Inode) -> String {
    let kind = if inode.file().is_some() { "FILE" } else { "DIRECTORY" };
    let mut text =
        [element("id", id), element("type", kind), element("name", &*inode.name)].concat();
    let (owner, group) = (ns.names.text(inode.owner), ns.names.text(inode.group));
    let permission = element("permission", format!("{owner}:{group}:{:04o}", inode.mode));
    match inode.file() {
        Some(file) => {
            text += &element("replication", file.replication);
            text += &element("mtime", inode.mtime_ms);
            text += &element("atime", file.atime_ms);
            text += &element("preferredBlockSize", file.block_size);
            text += &permission;
            text += &blocks(ns, file);
        }
        None => {
            let quota = ns.quota_of(id);
            text += &element("mtime", inode.mtime_ms);
            text += &permission;
            text += &element("nsquota", or_none(quota.names));
            text += &element("dsquota", or_none(quota.space));
        }
    }
    text + &ns.features(id).map(features).unwrap_or_default()
}

/// HDFS's sign for no quota.
fn or_none(quota: Option<u64>) -> String {
    quota.map_or_else(|| "-1".to_owned(), |limit| limit.to_string())
}

fn blocks(ns: &Namespace, file: &File) -> String {
    let mut text = list(ns, &file.blocks, file.known_length());
    if let Some(open) = &file.open {
        let holder = element("clientName", open.holder);
        text += &format!("<file-under-construction>{holder}</file-under-construction>\n");
    }
    text
}

/// Blocks; of one that is not complete, readers may count on `known` bytes.
fn list(ns: &Namespace, blocks: &[BlockId], known: u64) -> String {
    let block = |id: &BlockId| {
        let block = ns.block(*id)?;
        let length = if block.complete { block.length } else { known };
        let (stamp, length) = (element("genstamp", block.stamp), element("numBytes", length));
        Some(format!("<block>{}{stamp}{length}</block>\n", element("id", id)))
    };
    let text: String = blocks.iter().filter_map(block).collect();
    if text.is_empty() { text } else { format!("<blocks>{text}</blocks>\n") }
}

fn features(features: &Features) -> String {
    let mut text = String::new();
    if !features.acl.is_empty() {
        let entries: String = features.acl.iter().map(|entry| element("acl", entry)).collect();
        text += &format!("<acls>{entries}</acls>");
    }
    if !features.xattrs.is_empty() {
        let xattrs: String =
            features.xattrs.iter().map(|(name, value)| xattr(name, value)).collect();
        text += &format!("<xattrs>{xattrs}</xattrs>");
    }
    text
}

/// A value is text if it is printable, else hexadecimal.
fn xattr(name: &XattrName, value: &[u8]) -> String {
    let value = match std::str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => element("val", text),
        _ => element("valHex", hex(value)),
    };
    let space = element("ns", name.space.as_str().to_uppercase());
    format!("<xattr>{space}{}{value}</xattr>", element("name", &name.name))
}

fn snapshots(ns: &Namespace, out: &mut dyn Write) -> io::Result<()> {
    let history = ns.history();
    let counter = element("snapshotCounter", history.next);
    write!(out, "<SnapshotSection>{counter}{}", element("numSnapshots", history.live.len()))?;
    let roots: String = history.roots.keys().map(|id| element("dir", id)).collect();
    if !roots.is_empty() {
        writeln!(out, "<snapshottableDir>{roots}</snapshottableDir>")?;
    }
    for (directory, root) in &history.roots {
        for (number, snapshot) in &root.snapshots {
            let place = [
                element("id", directory),
                element("type", "DIRECTORY"),
                element("name", &snapshot.name),
            ];
            let number = element("id", number);
            writeln!(out, "<snapshot>{number}<root>{}</root></snapshot>", place.concat())?;
        }
    }
    writeln!(out, "</SnapshotSection>")
}

fn directories(ns: &Namespace, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<INodeDirectorySection>")?;
    for (id, inode) in live(ns) {
        let Some(directory) = inode.directory() else { continue };
        let mut children = ns.children(directory).peekable();
        if children.peek().is_none() {
            continue;
        }
        write!(out, "<directory>{}", element("parent", id))?;
        for (child, _) in children {
            write!(out, "{}", element("child", child))?;
        }
        writeln!(out, "</directory>")?;
    }
    writeln!(out, "</INodeDirectorySection>")
}

fn open_files(ns: &Namespace, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<FileUnderConstructionSection>")?;
    walk(ns, &mut |path, id, inode| match inode.file() {
        Some(file) if file.open.is_some() => {
            writeln!(out, "<inode>{}{}</inode>", element("id", id), element("path", path))
        }
        _ => Ok(()),
    })?;
    writeln!(out, "</FileUnderConstructionSection>")
}

fn versions(ns: &Namespace, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<SnapshotDiffSection>")?;
    for (id, _) in ns.all() {
        for version in ns.versions(id) {
            let name = if version.file.is_some() { "file" } else { "dir" };
            let inode = element("inodeId", id);
            let version = former(ns, id, version);
            writeln!(
                out,
                "<{name}DiffEntry>{inode}<{name}Diff>{version}</{name}Diff></{name}DiffEntry>"
            )?;
        }
    }
    writeln!(out, "</SnapshotDiffSection>")
}

fn former(ns: &Namespace, id: InodeId, version: &Version) -> String {
    let (owner, group) = (ns.names.text(version.owner), ns.names.text(version.group));
    let mut text = [
        element("from", version.from),
        element("until", version.until),
        element("parent", version.parent),
        element("name", &version.name),
        element("mtime", version.mtime_ms),
        element("atime", version.atime_ms),
        element("permission", format!("{owner}:{group}:{:04o}", version.mode)),
    ]
    .concat();
    text += &version.features.as_deref().map(features).unwrap_or_default();
    let Some(file) = &version.file else { return text };
    text += &element("size", file.length);
    text += &element("replication", file.replication);
    let kept = match &file.blocks {
        VersionBlocks::List(blocks) => &blocks[..],
        VersionBlocks::First(count) => {
            let now = ns.file(id).map_or(&[][..], |file| &file.blocks[..]);
            now.get(..*count).unwrap_or(now)
        }
    };
    text + &list(ns, kept, 0)
}

/// The tokens that are listed; their passwords are not in the metadata.
fn tokens(image: &Image, out: &mut dyn Write) -> io::Result<()> {
    let all = image.standing().tokens.all();
    write!(out, "<SecretManagerSection>{}", element("numTokens", all.len()))?;
    for token in all {
        let of = |name: &str, value: &dyn Display| element(name, value);
        let fields = [
            of("owner", &token.owner),
            of("renewer", &token.renewer),
            of("issueDate", &token.issued_ms),
            of("maxDate", &token.last_ms),
            of("sequenceNumber", &token.number),
            of("expiryDate", &token.expires_ms),
        ];
        write!(out, "<token>{}</token>", fields.concat())?;
    }
    writeln!(out, "</SecretManagerSection>")
}

#[cfg(test)]
mod tests {
    use namenode::core::edit::Edit;
    use protocol::acl::{AclEntry, AclKind, AclScope};
    use protocol::permission::Action;
    use protocol::xattr::XattrSpace;

    use super::super::tests::sample;
    use super::*;

    fn text(of: fn(&Namespace, &mut dyn Write) -> io::Result<()>, ns: &Namespace) -> String {
        let mut out = Vec::new();
        of(ns, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn inodes_have_hadoops_elements() {
        let found = text(inodes, &sample());
        let directory = |id: u64, name: &str, quota: &str| {
            format!(
                "<inode><id>{id}</id><type>DIRECTORY</type><name>{name}</name><mtime>60000</mtime><permission>ann:sg:0755</permission>\
                 <nsquota>{quota}</nsquota><dsquota>-1</dsquota></inode>\n"
            )
        };
        let block = "<blocks><block><id>1073741825</id><genstamp>1001</genstamp><numBytes>10</numBytes></block>\n</blocks>\n";
        let file = |id: u64, name: &str, mtime: u64, rest: &str| {
            format!(
                "<inode><id>{id}</id><type>FILE</type><name>{name}</name><replication>3</replication><mtime>{mtime}</mtime><atime>60000</atime>\
                 <preferredBlockSize>1000</preferredBlockSize><permission>ann:sg:0640</permission>{rest}</inode>\n"
            )
        };
        let holder = "01".repeat(16);
        let open = format!(
            "<file-under-construction><clientName>{holder}</clientName></file-under-construction>\n"
        );
        let expected = [
            "<INodeSection><lastInodeId>16389</lastInodeId><numInodes>5</numInodes>".to_owned(),
            directory(16_385, "", "9223372036854775807"),
            directory(16_386, "a", "-1"),
            directory(16_387, "b", "-1"),
            file(16_388, "f, g", 120_000, block),
            file(16_389, "o", 60_000, &open),
            "</INodeSection>\n".to_owned(),
        ];
        assert_eq!(found, expected.concat());
    }

    #[test]
    fn the_tree_and_open_files_are_told() {
        let ns = sample();
        let expected = "<INodeDirectorySection><directory><parent>16385</parent><child>16386</child><child>16389</child></directory>\n\
            <directory><parent>16386</parent><child>16387</child><child>16388</child></directory>\n</INodeDirectorySection>\n";
        assert_eq!(text(directories, &ns), expected);
        let open = "<FileUnderConstructionSection><inode><id>16389</id><path>/o</path></inode>\n</FileUnderConstructionSection>\n";
        assert_eq!(text(open_files, &ns), open);
    }

    #[test]
    fn access_lists_attributes_and_what_snapshots_keep_are_there() {
        let mut ns = sample();
        let (root, file) = (InodeId::ROOT, InodeId(16_388));
        let entry = AclEntry {
            name: Some("bob".to_owned()),
            ..AclEntry::plain(AclScope::Access, AclKind::User, Action::READ_WRITE)
        };
        let name = |name: &str| XattrName { space: XattrSpace::User, name: name.to_owned() };
        for edit in [
            Edit::SetAcl { inode: file, mode: 0o660, entries: vec![entry] },
            Edit::SetXattr { inode: file, name: name("a"), value: Some(b"<v>".to_vec()) },
            Edit::SetXattr { inode: file, name: name("b"), value: Some(vec![0, 255]) },
            Edit::AllowSnapshot { directory: root },
            Edit::CreateSnapshot { directory: root, name: "s".to_owned(), at_ms: 7 },
            Edit::Delete { inode: file, at_ms: 8 },
        ] {
            ns.apply(&edit).unwrap();
        }
        let kept = features(ns.versions(file)[0].features.as_deref().unwrap());
        let expected = "<acls><acl>user:bob:rw-</acl></acls><xattrs><xattr><ns>USER</ns><name>a</name><val>&lt;v&gt;</val></xattr>\
            <xattr><ns>USER</ns><name>b</name><valHex>00ff</valHex></xattr></xattrs>";
        assert_eq!(kept, expected);
        let taken = text(snapshots, &ns);
        assert!(taken.contains("<snapshottableDir><dir>16385</dir></snapshottableDir>"), "{taken}");
        let number = "<root><id>16385</id><type>DIRECTORY</type><name>s</name></root></snapshot>";
        assert!(taken.contains(number), "{taken}");
        assert!(!text(inodes, &ns).contains("<id>16388</id>"), "it is deleted");
        let former = text(versions, &ns);
        let part = "<fileDiffEntry><inodeId>16388</inodeId><fileDiff><from>";
        assert!(former.contains(part) && former.contains("<size>10</size>"), "{former}");
        assert!(former.contains("<id>1073741825</id>"), "its block is kept: {former}");
        assert!(former.contains(&kept), "{former}");
    }
}
