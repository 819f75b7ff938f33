//! What earlier versions kept in files beside the journal: delegation tokens, and DataNodes in maintenance. A start reads them once, logs what
//! they hold, and removes them when that is durable, before it serves anybody. An interrupted start does it again: what the log has is skipped.
//!
//! ```text
//! delegation-tokens       hanno delegation tokens 2
//!                         <number> <issued ms> <expires ms> <last ms> <owner> <renewer>     one line per token, names percent-encoded
//!                         crc32 <8 hex digits of what stands above>
//! maintenance/ID.kept     "HNKP" | u32 version 1 | u32 CRC-32 of the body | body: postcard(node, replicas); numbers are little-endian
//! ```
//!
//! Invariants: nothing writes these files. One that is damaged is set aside with an error: its tokens must be fetched again, and what its node held
//! is copied.

use std::path::{Path, PathBuf};
use std::{fs, io};

use percent_encoding::percent_decode_str;

use crate::core::standing::{NodeAway, ReplicaAway, Token};
use crate::error::Error;

/// File of the tokens.
const TOKENS: &str = "delegation-tokens";
/// First line of it: what it is, and the version of its form.
const TOKENS_HEAD: &str = "hanno delegation tokens 2";
/// Directory of the nodes.
const NODES: &str = "maintenance";
const NODE_EXTENSION: &str = "kept";
const NODE_MAGIC: &[u8; 4] = b"HNKP";
const NODE_VERSION: u32 = 1;
const NODE_HEADER_BYTES: usize = 12;

/// A node in maintenance and its good replicas, ascending by block.
pub(crate) type StoredNode = (NodeAway, Vec<ReplicaAway>);

/// What the files hold.
#[derive(Default)]
pub(crate) struct Stored {
    /// By the time of their issue.
    pub(crate) tokens: Vec<(u32, Token)>,
    pub(crate) nodes: Vec<StoredNode>,
    /// Where it was read.
    pub(crate) files: Vec<PathBuf>,
}

impl Stored {
    /// Reads the files in a data directory.
    ///
    /// # Errors
    /// [`Error::Directory`] if one can neither be read nor set aside.
    pub(crate) fn read(data_dir: &Path) -> Result<Stored, Error> {
        let mut stored = Stored::default();
        let tokens = data_dir.join(TOKENS);
        if let Some(found) = read_one(&tokens, parse_tokens)? {
            stored.tokens = found;
            stored.tokens.sort_by_key(|(number, token)| (token.issued_ms, *number));
            stored.files.push(tokens);
        }
        let directory = data_dir.join(NODES);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => {
                entries.collect::<io::Result<Vec<_>>>().map_err(failed("read", &directory))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(stored),
            Err(source) => return Err(failed("read", &directory)(source)),
        };
        for path in entries.into_iter().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == NODE_EXTENSION)
                && let Some(node) = read_one(&path, decode_node)?
            {
                stored.nodes.push(node);
                stored.files.push(path);
            }
        }
        stored.nodes.sort_by_key(|(node, _)| node.id);
        Ok(stored)
    }
}

/// Removes files for good: what they hold is durable elsewhere. A token that is ended from now on must not come back with them.
///
/// # Errors
/// [`Error::Directory`] names the file.
pub(crate) fn remove(files: &[PathBuf]) -> Result<(), Error> {
    for path in files {
        let directory = path.parent().unwrap_or(path);
        fs::remove_file(path).map_err(failed("remove", path))?;
        sys::fs::sync_dir(directory).map_err(failed("sync", directory))?;
        tracing::info!(path = %path.display(), "what this file held is in the journal now: removed");
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Directory { action, path: path.to_owned(), source }
}

/// Reads a file; one that does not parse is set aside. `None` if there is none.
fn read_one<T>(path: &Path, parse: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, Error> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed("read", path)(source)),
    };
    let parsed = parse(&bytes);
    if parsed.is_none() {
        let aside = path.with_extension("damaged");
        fs::rename(path, &aside).map_err(failed("set aside", path))?;
        tracing::error!(
            path = %path.display(), kept = %aside.display(),
            "a file of an earlier version is damaged and was set aside: delegation tokens in it must be fetched again, replicas in it are copied"
        );
    }
    Ok(parsed)
}

/// `None` for what is not one whole list of this version.
pub(crate) fn parse_tokens(bytes: &[u8]) -> Option<Vec<(u32, Token)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (body, crc) = text.strip_suffix('\n')?.rsplit_once("crc32 ")?;
    if crc != format!("{:08x}", crc32fast::hash(body.as_bytes())) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next() != Some(TOKENS_HEAD) {
        return None;
    }
    lines.map(parse_token).collect()
}

fn parse_token(line: &str) -> Option<(u32, Token)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [number, issued, expires, last, owner, renewer] = words[..] else { return None };
    let name = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
    let token = Token {
        owner: name(owner)?,
        renewer: name(renewer)?,
        issued_ms: issued.parse().ok()?,
        expires_ms: expires.parse().ok()?,
        last_ms: last.parse().ok()?,
    };
    Some((number.parse().ok()?, token))
}

/// `None` for what is not one whole file of this version.
pub(crate) fn decode_node(bytes: &[u8]) -> Option<StoredNode> {
    let (header, body) = bytes.split_at_checked(NODE_HEADER_BYTES)?;
    let number = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let is_whole = header.starts_with(NODE_MAGIC)
        && number(4)? == NODE_VERSION
        && number(8)? == crc32fast::hash(body);
    match postcard::take_from_bytes(body) {
        Ok((node, [])) if is_whole => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use protocol::{BlockId, DatanodeId, GenerationStamp};

    use super::*;

    const TOKENS_GOLDEN: &str = "hanno delegation tokens 2\n\
        7 1 2 3 bob b%20c\n\
        9 0 2 3 a%20b \n\
        crc32 CRC\n";
    const NODE_GOLDEN: &str = "484e4b50010000005848f3ae\
        07070707070707070707070707070707016803683a3103683a32022f7200000201e907ac0202e907ac02";

    fn tokens_file() -> String {
        let body = TOKENS_GOLDEN.split("crc32").next().unwrap();
        TOKENS_GOLDEN.replace("CRC", &format!("{:08x}", crc32fast::hash(body.as_bytes())))
    }

    fn node_file() -> Vec<u8> {
        let digits =
            NODE_GOLDEN.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn token(owner: &str, renewer: &str, issued_ms: u64) -> Token {
        let (owner, renewer) = (owner.to_owned(), renewer.to_owned());
        Token { owner, renewer, issued_ms, expires_ms: 2, last_ms: 3 }
    }

    #[test]
    fn files_of_earlier_versions_are_read_whole_or_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Stored::read(directory.path()).unwrap().files.is_empty());
        fs::create_dir(directory.path().join(NODES)).unwrap();
        fs::write(directory.path().join(TOKENS), tokens_file()).unwrap();
        fs::write(directory.path().join("maintenance/07.kept"), node_file()).unwrap();
        fs::write(directory.path().join("maintenance/08.kept"), "HNKP").unwrap();
        for _ in 0..2 {
            let stored = Stored::read(directory.path()).unwrap();
            let (first, second) = ((9, token("a b", "", 0)), (7, token("bob", "b c", 1)));
            assert_eq!(stored.tokens, [first, second], "by the time of their issue");
            let [(node, replicas)] = &stored.nodes[..] else { panic!("one node") };
            assert_eq!((node.id, &*node.rack), (DatanodeId([7; 16]), "/r"));
            let stamp = GenerationStamp(1001);
            let replica = |id| ReplicaAway { block: BlockId(id), stamp, length: 300 };
            assert_eq!(replicas[..], [replica(1), replica(2)]);
            assert_eq!(stored.files.len(), 2);
        }
        assert!(directory.path().join("maintenance/08.damaged").try_exists().unwrap());
        remove(&Stored::read(directory.path()).unwrap().files).unwrap();
        assert!(Stored::read(directory.path()).unwrap().files.is_empty());
        fs::write(directory.path().join(TOKENS), "\u{e9}").unwrap();
        assert!(Stored::read(directory.path()).unwrap().tokens.is_empty());
        assert!(directory.path().join("delegation-tokens.damaged").try_exists().unwrap());
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_found() {
        let (tokens, node) = (tokens_file().into_bytes(), node_file());
        assert!(parse_tokens(&tokens).is_some() && decode_node(&node).is_some());
        for at in 0..tokens.len() {
            let mut bad = tokens.clone();
            bad[at] ^= 1;
            assert_eq!((parse_tokens(&bad), parse_tokens(&tokens[..at])), (None, None), "{at}");
        }
        for at in 0..node.len() {
            let mut bad = node.clone();
            bad[at] ^= 1;
            assert_eq!((decode_node(&bad), decode_node(&node[..at])), (None, None), "{at}");
        }
        assert_eq!(decode_node(&[&node[..], &[0]].concat()), None);
    }
}
