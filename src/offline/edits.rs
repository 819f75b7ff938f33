//! Records of the log as elements of Hadoop's XML of edits: one `RECORD` for each edit. Those of one call have the same `TXID`: they happen together or not
//! at all. Edits name inodes by ids, and a new name beside its directory's id; Hadoop's have paths.

use std::fmt::Display;
use std::io::{self, Write};

use namenode::core::edit::{CallKey, Edit, Record};
use namenode::core::standing::{NodeAway, StandingEdit, Token};
use protocol::acl::{AclEntry, AclScope};
use protocol::xattr::XattrName;
use protocol::{BlockId, DatanodeId, GenerationStamp};

use super::ops::Op;
use crate::xml::{element, hex};

/// The content of a `DATA` element, a line for each element in it.
#[derive(Default)]
struct Data(String);

/// Writes the records of a transaction of the log, one after the other: a transaction can have many.
pub(super) fn write(
    (txid, epoch): (impl Display, impl Display),
    record: &Record,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut start = Data::default();
    start.put("TXID", txid).put("EPOCH", epoch);
    let mut end = Data::default();
    if let Some(CallKey { call, index }) = record.call {
        end.put("RPC_CLIENTID", call.client).put("RPC_CALLID", call.number);
        if index > 0 {
            end.put("RPC_INDEX", index);
        }
    }
    let mut push = |op: Op, data: &Data| {
        write!(
            out,
            "  <RECORD>\n    <OPCODE>{}</OPCODE>\n    <DATA>\n{}{}{}    </DATA>\n  </RECORD>\n",
            op.name(),
            start.0,
            data.0,
            end.0
        )
    };
    for edit in &record.edits {
        let mut data = Data::default();
        let op = describe(edit, &mut data);
        push(op, &data)?;
    }
    if record.edits.is_empty() {
        push(Op::Answer, &Data::default())?;
    }
    Ok(())
}

/// The kinds of its edits. A record without edits only keeps an answer, in case the call is repeated.
pub(super) fn kinds(record: &Record) -> Vec<Op> {
    match &record.edits[..] {
        [] => vec![Op::Answer],
        edits => edits.iter().map(|edit| describe(edit, &mut Data::default())).collect(),
    }
}

/// What an edit is called; its fields go to `to`. One line an edit.
#[rustfmt::skip]
fn describe(edit: &Edit, to: &mut Data) -> Op {
    match edit {
        Edit::Format { cluster, owner, group, at_ms } => to.put("CLUSTERID", cluster).put("TIMESTAMP", at_ms).status(owner, group, None).is(Op::Format),
        Edit::MakeDirectory { id, parent, name, owner, group, mode, at_ms } => to.put("INODEID", id).put("PARENT", parent).put("NAME", name).put("TIMESTAMP", at_ms).status(owner, group, Some(*mode)).is(Op::Mkdir),
        Edit::MakeFile { id, parent, name, owner, group, mode, replication, block_size, holder, at_ms } => to.put("INODEID", id).put("PARENT", parent).put("NAME", name).put("REPLICATION", replication).put("MTIME", at_ms).put("ATIME", at_ms).put("BLOCKSIZE", block_size).put("CLIENT_NAME", holder).status(owner, group, Some(*mode)).is(Op::Add),
        Edit::AddBlock { file, block, stamp, targets } => to.put("INODEID", file).block(block, None, Some(stamp)).nodes(targets).is(Op::AddBlock),
        Edit::DropBlock { file, block } => to.put("INODEID", file).block(block, None, None).is(Op::DropBlock),
        Edit::CommitBlock { file, block, length } => to.put("INODEID", file).block(block, Some(*length), None).is(Op::CommitBlock),
        Edit::RestampBlock { file, block, stamp, targets, prior } => to.put("INODEID", file).block(block, None, Some(stamp)).nodes(targets).maybe("PRIOR_GENSTAMP", *prior).is(Op::UpdateBlocks),
        Edit::BeginRecovery { file, stamp } => to.put("INODEID", file).put("GENSTAMP", stamp).is(Op::ReassignLease),
        Edit::Close { file, at_ms } => to.put("INODEID", file).put("MTIME", at_ms).is(Op::Close),
        Edit::Move { inode, parent, name, at_ms } => to.put("INODEID", inode).put("PARENT", parent).put("NAME", name).put("TIMESTAMP", at_ms).is(Op::Rename),
        Edit::Delete { inode, at_ms } => to.put("INODEID", inode).put("TIMESTAMP", at_ms).is(Op::Delete),
        Edit::SetReplication { file, replication } => to.put("INODEID", file).put("REPLICATION", replication).is(Op::SetReplication),
        Edit::SetMode { inode, mode } => to.put("INODEID", inode).put("MODE", mode).is(Op::SetPermissions),
        Edit::SetOwner { inode, owner, group } => to.put("INODEID", inode).put("USERNAME", owner).put("GROUPNAME", group).is(Op::SetOwner),
        Edit::SetTimes { inode, mtime_ms, atime_ms } => to.put("INODEID", inode).maybe("MTIME", *mtime_ms).maybe("ATIME", *atime_ms).is(Op::Times),
        Edit::SetQuota { directory, names, space } => to.put("INODEID", directory).quota("NSQUOTA", *names).quota("DSQUOTA", *space).is(Op::SetQuota),
        Edit::Reopen { file, holder, last } => {
            to.put("INODEID", file).put("CLIENT_NAME", holder);
            if let Some((stamp, targets)) = last {
                to.put("GENSTAMP", stamp).nodes(targets);
            }
            Op::Append
        }
        Edit::SyncBlock { file, block, length } => to.put("INODEID", file).block(block, Some(*length), None).is(Op::SyncBlock),
        Edit::Truncate { file, length, cut, at_ms } => {
            to.put("INODEID", file).put("NEWLENGTH", length).put("TIMESTAMP", at_ms);
            if let Some((block, stamp)) = cut {
                to.block(block, None, Some(stamp));
            }
            Op::Truncate
        }
        Edit::Concat { target, sources, at_ms } => to.put("INODEID", target).put("TIMESTAMP", at_ms).each("SOURCE", sources).is(Op::ConcatDelete),
        Edit::AllowSnapshot { directory } => to.put("SNAPSHOTROOT", directory).is(Op::AllowSnapshot),
        Edit::DisallowSnapshot { directory } => to.put("SNAPSHOTROOT", directory).is(Op::DisallowSnapshot),
        Edit::CreateSnapshot { directory, name, at_ms } => to.put("SNAPSHOTROOT", directory).put("SNAPSHOTNAME", name).put("MTIME", at_ms).is(Op::CreateSnapshot),
        Edit::RenameSnapshot { directory, from, to: name, at_ms } => to.put("SNAPSHOTROOT", directory).put("SNAPSHOTOLDNAME", from).put("SNAPSHOTNEWNAME", name).put("MTIME", at_ms).is(Op::RenameSnapshot),
        Edit::DeleteSnapshot { directory, name, at_ms } => to.put("SNAPSHOTROOT", directory).put("SNAPSHOTNAME", name).put("MTIME", at_ms).is(Op::DeleteSnapshot),
        Edit::SetAcl { inode, mode, entries } => to.put("INODEID", inode).put("MODE", mode).acl(entries).is(Op::SetAcl),
        Edit::SetXattr { inode, name, value } => to.put("INODEID", inode).xattr(name, value.as_deref()).is(if value.is_some() { Op::SetXattr } else { Op::RemoveXattr }),
        Edit::SkipIds { block, stamp } => to.put("BLOCK_ID", block).put("GENSTAMP", stamp).is(Op::SkipIds),
        Edit::Leap { block, stamp } => to.put("BLOCK_ID", block).put("GENSTAMP", stamp).is(Op::Leap),
        Edit::Standing(edit) => describe_standing(edit, to),
    }
}

/// As [`describe`].
#[rustfmt::skip]
fn describe_standing(edit: &StandingEdit, to: &mut Data) -> Op {
    match edit {
        StandingEdit::SafeMode { on } => to.put("ON", on).is(Op::SafeMode),
        StandingEdit::IssueToken { number, token } => to.token(*number, token).is(Op::GetDelegationToken),
        StandingEdit::RenewToken { number, expires_ms } => to.put("SEQUENCE_NUMBER", number).put("EXPIRY_TIME", expires_ms).is(Op::RenewDelegationToken),
        StandingEdit::CancelToken { number } => to.put("SEQUENCE_NUMBER", number).is(Op::CancelDelegationToken),
        StandingEdit::KeepNode(node) => to.node(node).is(Op::KeepNode),
        StandingEdit::KeepReplicas { datanode, replicas } => {
            to.put("DATANODE", datanode);
            for replica in replicas {
                to.block(&replica.block, Some(replica.length), Some(&replica.stamp));
            }
            Op::KeepReplicas
        }
        StandingEdit::KeptNode { datanode } => to.put("DATANODE", datanode).is(Op::KeptNode),
        StandingEdit::ForgetNode { datanode } => to.put("DATANODE", datanode).is(Op::ForgetNode),
        StandingEdit::SetLevel { level } => to.put("LEVEL", level.0).is(Op::SetLevel),
    }
}

impl Data {
    fn put(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.0 += &format!("      {}\n", element(name, value));
        self
    }

    fn maybe(&mut self, name: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// HDFS's sign for no quota is -1.
    fn quota(&mut self, name: &str, limit: Option<u64>) -> &mut Self {
        match limit {
            Some(limit) => self.put(name, limit),
            None => self.put(name, -1),
        }
    }

    fn each<T: Display>(&mut self, name: &str, values: &[T]) -> &mut Self {
        for value in values {
            self.put(name, value);
        }
        self
    }

    fn nodes(&mut self, nodes: &[DatanodeId]) -> &mut Self {
        self.each("DATANODE", nodes)
    }

    /// An element with others in it.
    fn nested(&mut self, name: &str, within: &[String]) -> &mut Self {
        let lines: String = within.iter().map(|line| format!("        {line}\n")).collect();
        self.0 += &format!("      <{name}>\n{lines}      </{name}>\n");
        self
    }

    fn status(&mut self, owner: &str, group: &str, mode: Option<u16>) -> &mut Self {
        let mut fields = vec![element("USERNAME", owner), element("GROUPNAME", group)];
        fields.extend(mode.map(|mode| element("MODE", mode)));
        self.nested("PERMISSION_STATUS", &fields)
    }

    fn block(
        &mut self,
        id: &BlockId,
        length: Option<u64>,
        stamp: Option<&GenerationStamp>,
    ) -> &mut Self {
        let mut fields = vec![element("BLOCK_ID", id)];
        fields.extend(length.map(|length| element("NUM_BYTES", length)));
        fields.extend(stamp.map(|stamp| element("GENSTAMP", stamp)));
        self.nested("BLOCK", &fields)
    }

    fn acl(&mut self, entries: &[AclEntry]) -> &mut Self {
        for entry in entries {
            let scope = if entry.scope == AclScope::Access { "ACCESS" } else { "DEFAULT" };
            let mut fields =
                vec![element("SCOPE", scope), element("TYPE", entry.kind.as_str().to_uppercase())];
            fields.extend(entry.name.as_ref().map(|name| element("NAME", name)));
            fields.push(element("PERM", entry.action.symbol()));
            self.nested("ENTRY", &fields);
        }
        self
    }

    fn xattr(&mut self, name: &XattrName, value: Option<&[u8]>) -> &mut Self {
        let space = name.space.as_str().to_uppercase();
        let mut fields = vec![element("NAMESPACE", space), element("NAME", &name.name)];
        fields.extend(value.map(|value| element("VALUE", format!("0x{}", hex(value)))));
        self.nested("XATTR", &fields)
    }

    /// Its password is not in the log.
    fn token(&mut self, number: u32, token: &Token) -> &mut Self {
        let fields = [
            element("SEQUENCE_NUMBER", number),
            element("OWNER", &token.owner),
            element("RENEWER", &token.renewer),
            element("ISSUE_DATE", token.issued_ms),
            element("MAX_DATE", token.last_ms),
        ];
        self.nested("DELEGATION_TOKEN_IDENTIFIER", &fields).put("EXPIRY_TIME", token.expires_ms)
    }

    fn node(&mut self, node: &NodeAway) -> &mut Self {
        self.put("DATANODE", node.id).put("HOST", &node.host).put("ADDRESS", &node.transfer_address)
    }

    /// Ends a chain.
    fn is(&mut self, op: Op) -> Op {
        op
    }
}

#[cfg(test)]
mod tests {
    use namenode::core::edit::Outcome;
    use protocol::permission::Action;
    use protocol::xattr::XattrSpace;
    use protocol::{CallId, ClientId, InodeId};

    use super::*;

    fn text(txid: u64, epoch: u64, record: &Record) -> String {
        let mut out = Vec::new();
        write((txid, epoch), record, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn record(call: Option<CallKey>, edits: Vec<Edit>) -> Record {
        Record { call, at_ms: 5, edits, outcome: Outcome::Done }
    }

    #[test]
    fn a_record_has_hadoops_elements() {
        let edit = Edit::MakeDirectory {
            id: InodeId(16_386),
            parent: InodeId::ROOT,
            name: "a<b".to_owned(),
            owner: "ann".to_owned(),
            group: "sg".to_owned(),
            mode: 0o755,
            at_ms: 7,
        };
        let call = CallId { client: ClientId([1; 16]), number: 3 };
        let found = text(9, 2, &record(Some(CallKey { call, index: 0 }), vec![edit]));
        let expected = [
            "  <RECORD>",
            "    <OPCODE>OP_MKDIR</OPCODE>",
            "    <DATA>",
            "      <TXID>9</TXID>",
            "      <EPOCH>2</EPOCH>",
            "      <INODEID>16386</INODEID>",
            "      <PARENT>16385</PARENT>",
            "      <NAME>a&lt;b</NAME>",
            "      <TIMESTAMP>7</TIMESTAMP>",
            "      <PERMISSION_STATUS>",
            "        <USERNAME>ann</USERNAME>",
            "        <GROUPNAME>sg</GROUPNAME>",
            "        <MODE>493</MODE>",
            "      </PERMISSION_STATUS>",
            "      <RPC_CLIENTID>01010101010101010101010101010101</RPC_CLIENTID>",
            "      <RPC_CALLID>3</RPC_CALLID>",
            "    </DATA>",
            "  </RECORD>",
        ];
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_edits_carry_is_told() {
        let file = InodeId(16_388);
        let name = XattrName { space: XattrSpace::User, name: "a".to_owned() };
        let entry =
            AclEntry::plain(AclScope::Default, protocol::acl::AclKind::Mask, Action::READ_WRITE);
        let token = Token {
            owner: "ann".to_owned(),
            renewer: String::new(),
            issued_ms: 1,
            expires_ms: 2,
            last_ms: 3,
        };
        for (edit, op, part) in [
            (
                Edit::SetQuota { directory: file, names: None, space: Some(5) },
                Op::SetQuota,
                "<NSQUOTA>-1</NSQUOTA>",
            ),
            (
                Edit::SetXattr { inode: file, name: name.clone(), value: Some(vec![0, 255]) },
                Op::SetXattr,
                "<VALUE>0x00ff</VALUE>",
            ),
            (
                Edit::SetXattr { inode: file, name, value: None },
                Op::RemoveXattr,
                "<NAMESPACE>USER</NAMESPACE>",
            ),
            (
                Edit::SetAcl { inode: file, mode: 0o600, entries: vec![entry] },
                Op::SetAcl,
                "<TYPE>MASK</TYPE>\n        <PERM>rw-</PERM>",
            ),
            (
                Edit::Concat { target: file, sources: vec![InodeId(7)], at_ms: 1 },
                Op::ConcatDelete,
                "<SOURCE>7</SOURCE>",
            ),
            (
                Edit::CommitBlock { file, block: BlockId(8), length: 4 },
                Op::CommitBlock,
                "<NUM_BYTES>4</NUM_BYTES>",
            ),
            (
                Edit::Standing(StandingEdit::IssueToken { number: 6, token }),
                Op::GetDelegationToken,
                "<MAX_DATE>3</MAX_DATE>",
            ),
        ] {
            let mut data = Data::default();
            assert_eq!(describe(&edit, &mut data), op, "{edit:?}");
            assert!(data.0.contains(part), "{edit:?}: {}", data.0);
        }
    }

    #[test]
    fn edits_of_one_call_share_its_number_and_none_is_an_answer() {
        let delete = |inode| Edit::Delete { inode: InodeId(inode), at_ms: 1 };
        let two = record(None, vec![delete(1), delete(2)]);
        assert_eq!(text(4, 1, &two).matches("<TXID>4</TXID>").count(), 2);
        assert_eq!(kinds(&two), [Op::Delete, Op::Delete]);
        let none = record(None, Vec::new());
        assert!(text(4, 1, &none).contains("<OPCODE>OP_HANNO_ANSWER</OPCODE>"));
        assert_eq!(kinds(&none), [Op::Answer]);
    }
}
