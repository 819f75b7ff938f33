//! Another cluster over WebHDFS, in plain text or encrypted as its address says.
//!
//! Requests that move bytes are made in two steps, with `noredirect`: the NameNode names the place, then the bytes go there. A token, if there is one, is
//! sent to the NameNode alone; without one it is told the user's name, which clusters with `auth = "simple"` believe.

mod answers;
mod request;
mod upload;

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::acl::AclEntry;
use protocol::namenode::DiffEntry;
use protocol::xattr::Xattr;
use serde::de::DeserializeOwned;
use transport::rpc::{Body, runtime};
use transport::web::Method;

use super::files::{Checksum, Creation, Files, NewFile, Outcome, Status, Tokens, Writer};
use super::rights;
use crate::error::PlaceError;
use answers::{
    AclAnswer, ChecksumAnswer, DiffAnswer, FileChecksum, ListAnswer, LocationAnswer, OutcomeAnswer,
    StatusAnswer, XattrsAnswer,
};
use request::{ask, whole};
use upload::Upload;

/// Names the tokens for other clusters: `host:port=token`, separated by commas.
const TOKENS_VARIABLE: &str = "HANNO_WEBHDFS_TOKENS";
/// What a path does not have in a URL as itself: all but RFC 3986's unreserved characters and the slash. No other character can mean something to a parser
/// of URLs, such as `\`, which it takes for a slash.
const ENCODED_IN_PATHS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The tokens that the environment names.
pub(crate) fn tokens_of_environment() -> Tokens {
    let text = std::env::var(TOKENS_VARIABLE).unwrap_or_default();
    let pairs = text.split([',', ' ', '\n']).filter_map(|pair| pair.trim().split_once('='));
    pairs.map(|(authority, token)| (authority.to_owned(), token.to_owned())).collect()
}

/// See the module.
pub(super) struct Web {
    base: String,
    /// `delegation=…` or `user.name=…`.
    who: String,
    creation: Creation,
}

impl Web {
    pub(super) fn new(base: &str, user: &str, token: Option<String>, creation: Creation) -> Self {
        let who = match token {
            Some(token) => format!("delegation={}", encoded(&token)),
            None => format!("user.name={}", encoded(user)),
        };
        Web { base: format!("{base}/webhdfs/v1"), who, creation }
    }

    /// The URL of a path. One with `.` or `..`, which no name is, would lead elsewhere: parsers of URLs resolve them, encoded or not.
    fn url(&self, path: &str, op: &str, parameters: &[(&str, &str)]) -> Outcome<String> {
        if path.split('/').any(|element| matches!(element, "." | "..")) {
            return Err(PlaceError::Dots { path: path.to_owned() });
        }
        let path = utf8_percent_encode(path, ENCODED_IN_PATHS);
        let mut url = format!("{}{path}?op={op}&{}", self.base, self.who);
        for (name, value) in parameters {
            url.push_str(&format!("&{name}={}", encoded(value)));
        }
        Ok(url)
    }

    /// A request without a body, and what comes with its answer.
    fn body(
        &self,
        method: Method,
        path: &str,
        op: &str,
        parameters: &[(&str, &str)],
    ) -> Outcome<Vec<u8>> {
        whole(ask(method, &self.url(path, op, parameters)?)?)
    }

    fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        op: &str,
        parameters: &[(&str, &str)],
    ) -> Outcome<T> {
        let body = self.body(method, path, op, parameters)?;
        serde_json::from_slice(&body).map_err(|_| PlaceError::Answer)
    }

    fn put(&self, path: &str, op: &str, parameters: &[(&str, &str)]) -> Outcome<()> {
        self.body(Method::Put, path, op, parameters).map(|_| ())
    }

    /// Where the bytes of an operation go, or come from.
    fn location(
        &self,
        method: Method,
        path: &str,
        op: &str,
        parameters: &[(&str, &str)],
    ) -> Outcome<String> {
        let parameters = [parameters, &[("noredirect", "true")]].concat();
        let answer: LocationAnswer = self.json(method, path, op, &parameters)?;
        Ok(answer.location)
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Permission bits after and before a umask, as parameters have them.
fn permissions((masked, unmasked): (u16, Option<u16>)) -> [String; 2] {
    [masked, unmasked.unwrap_or(masked)].map(|mode| format!("{mode:o}"))
}

/// A file as it comes.
struct Download {
    body: Body,
    rest: Bytes,
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match runtime().block_on(self.body.next()).map_err(io::Error::other)? {
                Some(bytes) => self.rest = bytes,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.rest.len());
        self.rest.split_to(count).copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl Files for Web {
    fn status(&self, path: &str) -> Outcome<Option<Status>> {
        match self.json::<StatusAnswer>(Method::Get, path, "GETFILESTATUS", &[]) {
            Ok(answer) => Ok(Some(answer.status.into_status()?)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &str) -> Outcome<Vec<Status>> {
        let answer: ListAnswer = self.json(Method::Get, path, "LISTSTATUS", &[])?;
        answer.statuses.list.into_iter().map(|status| status.into_entry()).collect()
    }

    fn open(&self, path: &str, offset: u64) -> Outcome<Box<dyn Read>> {
        let offset = offset.to_string();
        let from = self.location(Method::Get, path, "OPEN", &[("offset", &offset)])?;
        Ok(Box::new(Download { body: ask(Method::Get, &from)?, rest: Bytes::new() }))
    }

    fn create(&self, path: &str, new: NewFile) -> Outcome<Box<dyn Writer>> {
        let [permission, unmasked] = permissions(self.creation.umask().of_file());
        let replication = self.creation.replication(&new).map(|count| count.to_string());
        let block_size = self.creation.block_size(&new).map(|bytes| bytes.to_string());
        let overwrite = new.overwrite.to_string();
        let mut parameters = vec![
            ("overwrite", overwrite.as_str()),
            ("createparent", "false"),
            ("permission", &permission),
            ("unmaskedpermission", &unmasked),
        ];
        parameters.extend(replication.as_deref().map(|count| ("replication", count)));
        parameters.extend(block_size.as_deref().map(|bytes| ("blocksize", bytes)));
        let to = self.location(Method::Put, path, "CREATE", &parameters)?;
        Ok(Box::new(Upload::begin(Method::Put, to)))
    }

    fn append(&self, path: &str) -> Outcome<Box<dyn Writer>> {
        let to = self.location(Method::Post, path, "APPEND", &[])?;
        Ok(Box::new(Upload::begin(Method::Post, to)))
    }

    fn make_directories(&self, path: &str) -> Outcome<()> {
        let [permission, unmasked] = permissions(self.creation.umask().of_directory());
        let parameters = [("permission", &*permission), ("unmaskedpermission", &*unmasked)];
        self.json::<OutcomeAnswer>(Method::Put, path, "MKDIRS", &parameters)?.into_true()
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        self.put(from, "RENAME", &[("destination", to), ("renameoptions", "OVERWRITE")])
    }

    fn delete(&self, path: &str) -> Outcome<bool> {
        let parameters = [("recursive", "true")];
        Ok(self.json::<OutcomeAnswer>(Method::Delete, path, "DELETE", &parameters)?.outcome)
    }

    fn checksum(&self, path: &str) -> Outcome<Option<Checksum>> {
        let from = self.location(Method::Get, path, "GETFILECHECKSUM", &[])?;
        let answer: ChecksumAnswer = serde_json::from_slice(&whole(ask(Method::Get, &from)?)?)
            .map_err(|_| PlaceError::Answer)?;
        let FileChecksum { algorithm, bytes, length } = answer.checksum;
        // Hadoop sends a buffer that is longer.
        let hex = bytes.get(..2 * length.min(bytes.len())).unwrap_or(&bytes);
        Ok(Some(Checksum { algorithm, hex: hex.to_ascii_lowercase() }))
    }

    fn set_mode(&self, path: &str, mode: u16) -> Outcome<()> {
        self.put(path, "SETPERMISSION", &[("permission", &format!("{mode:o}"))])
    }

    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Outcome<()> {
        let named = [("owner", owner), ("group", group)];
        let given: Vec<_> = named.into_iter().filter(|(_, name)| !name.is_empty()).collect();
        self.put(path, "SETOWNER", &given)
    }

    fn set_times(&self, path: &str, mtime_ms: u64, atime_ms: u64) -> Outcome<()> {
        let (mtime, atime) = (mtime_ms.to_string(), atime_ms.to_string());
        self.put(path, "SETTIMES", &[("modificationtime", &mtime), ("accesstime", &atime)])
    }

    fn set_replication(&self, path: &str, replication: u16) -> Outcome<()> {
        let count = replication.to_string();
        let parameters = [("replication", count.as_str())];
        self.json::<OutcomeAnswer>(Method::Put, path, "SETREPLICATION", &parameters)?.into_true()
    }

    fn acl(&self, path: &str) -> Outcome<Vec<AclEntry>> {
        self.json::<AclAnswer>(Method::Get, path, "GETACLSTATUS", &[])?.whole()
    }

    fn set_acl(&self, path: &str, entries: &[AclEntry]) -> Outcome<()> {
        if rights::is_plain(entries) {
            return self.put(path, "REMOVEACL", &[]);
        }
        let list: Vec<String> = entries.iter().map(ToString::to_string).collect();
        self.put(path, "SETACL", &[("aclspec", &list.join(","))])?;
        match rights::has_default(entries) {
            true => Ok(()),
            false => self.put(path, "REMOVEDEFAULTACL", &[]),
        }
    }

    fn xattrs(&self, path: &str) -> Outcome<Vec<Xattr>> {
        let parameters = [("encoding", "base64")];
        self.json::<XattrsAnswer>(Method::Get, path, "GETXATTRS", &parameters)?.into_xattrs()
    }

    fn set_xattr(&self, path: &str, xattr: &Xattr) -> Outcome<()> {
        let value = answers::base64_of(&xattr.value);
        // Hadoop sets with one flag or the other, not with both.
        let parameters =
            |flag| [("xattr.name", xattr.name.as_str()), ("xattr.value", &value), ("flag", flag)];
        match self.put(path, "SETXATTR", &parameters("CREATE")) {
            Err(PlaceError::Remote { .. }) => self.put(path, "SETXATTR", &parameters("REPLACE")),
            done => done,
        }
    }

    fn changes(&self, path: &str, from: &str, to: &str) -> Outcome<Vec<DiffEntry>> {
        let parameters = [("oldsnapshotname", from), ("snapshotname", to)];
        self.json::<DiffAnswer>(Method::Get, path, "GETSNAPSHOTDIFF", &parameters)?.into_entries()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use percent_encoding::percent_decode_str;

    use super::*;

    #[test]
    fn urls_carry_any_path_and_value() {
        let web = Web::new("http://h:1", "a&b", None, Creation::default());
        let url = web.url("/x y/ü?#%", "RENAME", &[("destination", "/a&b=c")]).unwrap();
        let expected = "http://h:1/webhdfs/v1/x%20y/%C3%BC%3F%23%25?op=RENAME&user.name=a%26b&destination=%2Fa%26b%3Dc";
        assert_eq!(url, expected);
        let token = Web::new("http://h:1", "ann", Some("t-_k".to_owned()), Creation::default());
        let url = token.url("/", "OPEN", &[]).unwrap();
        assert!(url.ends_with("?op=OPEN&delegation=t%2D%5Fk"));
    }

    /// What a server sees of a path that is asked for: the path of its URL, decoded, and the query.
    fn seen(path: &str) -> (String, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            lines.find(|line| line.as_ref().unwrap().is_empty());
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\n";
            write!(stream, "{answer}{{\"boolean\":true}}").unwrap();
            request
        });
        assert!(Web::new(&base, "ann", None, Creation::default()).delete(path).unwrap());
        let request = server.join().unwrap();
        let target = request.split(' ').nth(1).unwrap();
        let (path, query) = target.split_once('?').unwrap();
        let path = percent_decode_str(path.strip_prefix("/webhdfs/v1").unwrap());
        (path.decode_utf8().unwrap().into_owned(), query.to_owned())
    }

    #[test]
    fn a_server_sees_the_path_that_is_meant() {
        // Each character at the beginning, in the middle, at the end and alone.
        let each = |c: char| format!("/{c}a/b{c}c/d{c}/{c}");
        let ascii = (1..128u8).map(char::from).filter(|c| !matches!(c, '/' | '.'));
        let others = "\u{85}\u{a0}é\u{301}ß日\u{3002}．／＼\u{200b}\u{2028}\u{202e}\u{feff}\u{fffd}\u{ffff}😀".chars();
        let mut path: String = ascii.chain(others).map(each).collect();
        for name in [
            "...",
            ".a",
            "a.",
            "a..b",
            "%2e",
            "%2E%2e",
            "%2e.",
            "%252e",
            "%",
            "%%",
            "%5c",
            "+",
            "a\\..\\b",
            "..;",
            ".?",
            "?op=DELETE&x=",
            "#",
            "http:",
            "@h:1",
        ] {
            path.push_str(&format!("/{name}"));
        }
        let (found, query) = seen(&path);
        for (found, meant) in found.split('/').zip(path.split('/')) {
            assert_eq!(found, meant);
        }
        assert_eq!(found, path);
        assert_eq!(query, "op=DELETE&user.name=ann&recursive=true");
    }

    #[test]
    fn dots_are_no_names() {
        // Nobody listens there: nothing is asked.
        let web = Web::new("http://127.0.0.1:1", "ann", None, Creation::default());
        for path in ["/.", "/..", "/a/..", "/a/../b", "/a/./b", "/../etc"] {
            let error = web.delete(path).unwrap_err();
            assert!(matches!(error, PlaceError::Dots { .. }), "{path}: {error}");
        }
    }
}
