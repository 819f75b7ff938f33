//! The list of delegation tokens that are good: a token that is not in it was cancelled, or has run out.
//!
//! Kept in a file so that tokens survive a restart of the NameNode; written whole at each change, since tokens are few and rarely change:
//!
//! ```text
//! hanno delegation tokens 2
//! <sequence> <issued ms> <expires ms> <last ms> <owner> <renewer>     one line per token, names percent-encoded
//! crc32 <8 hex digits of what stands above>
//! ```
//!
//! A file that is damaged or of another version is put aside and the list begins empty: tokens must be fetched again, none becomes valid again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use percent_encoding::percent_decode_str;
use protocol::auth::Key;
use protocol::delegation::TOKENS_MAX;
use protocol::delegation::TokenInfo;

use crate::error::{Exception, WebError};
use crate::path;
use crate::token::{DELEGATION_KIND, Delegation};

/// How long a token is valid unless it is renewed, as HDFS: a day.
pub const RENEW_INTERVAL_MS: u64 = 24 * 3_600_000;
/// How long it can be renewed, as HDFS: seven days. No token is issued for longer, either.
pub const LIFETIME_MS: u64 = 7 * RENEW_INTERVAL_MS;
/// Longest name in a token, bytes: as a user's in a login link.
const NAME_BYTES_MAX: usize = 255;
/// First line of the file: what it is, and the version of its form.
const HEAD: &str = "hanno delegation tokens 2";

/// The list. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Book {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    key: Key,
    /// Replaced whole, so a lookup never waits for the disk.
    tokens: RwLock<Arc<Tokens>>,
    /// Held while the list is changed, from the first read of it until it is on disk.
    writing: Mutex<()>,
}

type Tokens = BTreeMap<u32, Entry>;

/// A good token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    issued_ms: u64,
    expires_ms: u64,
    last_ms: u64,
    owner: String,
    renewer: String,
}

/// A request for a token.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The user as whom its holder acts.
    pub owner: &'a str,
    /// Who may renew it; may be empty.
    pub renewer: &'a str,
    /// Hadoop's kind of token, if it is not the usual one.
    pub kind: Option<&'a str>,
    /// `host:port` that it is for.
    pub service: &'a str,
    /// How long it is valid unless it is renewed.
    pub lifetime_ms: u64,
}

impl Book {
    /// The list in the file at `path`; empty if there is none.
    ///
    /// # Errors
    /// If the file can neither be read nor put aside.
    pub fn open(path: &Path, key: Key) -> io::Result<Self> {
        let tokens = match std::fs::read_to_string(path) {
            Ok(text) => match parse(&text) {
                Some(tokens) => tokens,
                None => put_aside(path)?,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => put_aside(path)?,
            Err(error) => return Err(error),
        };
        let tokens = RwLock::new(Arc::new(tokens));
        let inner = Inner { path: path.to_owned(), key, tokens, writing: Mutex::new(()) };
        Ok(Book { inner: Arc::new(inner) })
    }

    /// A new token, on disk before it is given out.
    ///
    /// # Errors
    /// If a name has control characters or is too long, the lifetime is not between 1 ms and `LIFETIME_MS`, there are too many tokens, or
    /// the disk refuses.
    pub fn issue(&self, order: Order<'_>, now_ms: u64) -> Result<String, WebError> {
        let kind = order.kind.unwrap_or(DELEGATION_KIND);
        let names = [
            ("user.name", order.owner),
            ("kind", kind),
            ("renewer", order.renewer),
            ("service", order.service),
        ];
        for (name, text) in names {
            if text.chars().any(char::is_control) {
                return Err(WebError::parameter(name, "control characters"));
            }
            if text.len() > NAME_BYTES_MAX {
                let problem = format!("more than {NAME_BYTES_MAX} bytes");
                return Err(WebError::parameter(name, problem));
            }
        }
        if !(1..=LIFETIME_MS).contains(&order.lifetime_ms) {
            let problem = format!("a token is good for 1 ms to {LIFETIME_MS} ms (seven days)");
            return Err(WebError::parameter("lifetime", problem));
        }
        let last_ms = now_ms.saturating_add(LIFETIME_MS);
        let (owner, renewer) = (order.owner.to_owned(), order.renewer.to_owned());
        let entry = Entry {
            issued_ms: now_ms,
            expires_ms: now_ms.saturating_add(order.lifetime_ms),
            last_ms,
            owner: owner.clone(),
            renewer: renewer.clone(),
        };
        let sequence = self.change(|tokens| {
            tokens.retain(|_, entry| entry.expires_ms >= now_ms);
            if tokens.len() >= TOKENS_MAX {
                let text = format!(
                    "there are {TOKENS_MAX} delegation tokens already; `hanno admin token list` shows them"
                );
                return Err(WebError::new(Exception::Io, text));
            }
            let sequence = loop {
                let candidate = rand::random::<u32>() >> 1;
                if !tokens.contains_key(&candidate) {
                    break candidate;
                }
            };
            tokens.insert(sequence, entry);
            Ok(sequence)
        })?;
        let token = Delegation { owner, renewer, issued_ms: now_ms, last_ms, sequence };
        Ok(token.seal(&self.inner.key, kind, order.service))
    }

    /// The tokens that are good.
    pub fn list(&self, now_ms: u64) -> Vec<TokenInfo> {
        let tokens = Arc::clone(&self.inner.tokens.read());
        let good = tokens.iter().filter(|(_, entry)| entry.expires_ms >= now_ms);
        good.map(|(number, entry)| TokenInfo {
            number: *number,
            owner: entry.owner.clone(),
            renewer: entry.renewer.clone(),
            issued_ms: entry.issued_ms,
            expires_ms: entry.expires_ms,
            last_ms: entry.last_ms,
        })
        .collect()
    }

    /// Ends the token of a number, for an operator.
    ///
    /// # Errors
    /// If there is none.
    pub fn cancel_number(&self, number: u32) -> Result<(), WebError> {
        self.change(|tokens| match tokens.remove(&number) {
            Some(_) => Ok(()),
            None => {
                let text = format!("there is no delegation token {number}");
                Err(WebError::new(Exception::InvalidToken, text))
            }
        })
    }

    /// The number of a token.
    ///
    /// # Errors
    /// If it is none of this cluster's.
    pub fn number(&self, text: &str) -> Result<u32, WebError> {
        Ok(self.read(text)?.sequence)
    }

    /// The user as whom the holder of a token acts.
    ///
    /// # Errors
    /// If it is not valid any more, or never was.
    pub fn owner(&self, text: &str, now_ms: u64) -> Result<String, WebError> {
        let token = self.read(text)?;
        let tokens = Arc::clone(&self.inner.tokens.read());
        if find(&tokens, &token)?.expires_ms < now_ms {
            return Err(invalid("is expired", &token.owner));
        }
        Ok(token.owner)
    }

    /// Extends a token, for its renewer or, without a `user`, for an operator; returns its new end.
    ///
    /// # Errors
    /// If `user` is not its renewer, or it is not good any more.
    pub fn renew(&self, text: &str, user: Option<&str>, now_ms: u64) -> Result<u64, WebError> {
        let token = self.read(text)?;
        self.change(|tokens| {
            let entry = find(tokens, &token)?;
            if let Some(user) = user
                && (token.renewer.is_empty() || token.renewer != user)
            {
                let renewer = &token.renewer;
                let text = format!("{user} tries to renew a token with renewer {renewer}");
                return Err(WebError::new(Exception::AccessControl, text));
            }
            if entry.expires_ms < now_ms || entry.last_ms < now_ms {
                return Err(invalid("is expired", &token.owner));
            }
            let expires_ms = now_ms.saturating_add(RENEW_INTERVAL_MS).min(entry.last_ms);
            // A renewal never takes away what a token was given at first.
            let expires_ms = expires_ms.max(entry.expires_ms);
            tokens.insert(token.sequence, Entry { expires_ms, ..entry });
            Ok(expires_ms)
        })
    }

    /// Ends a token, for its owner or renewer.
    ///
    /// # Errors
    /// If `user` is neither, or the token is not good any more.
    pub fn cancel(&self, text: &str, user: &str) -> Result<(), WebError> {
        let token = self.read(text)?;
        self.change(|tokens| {
            find(tokens, &token)?;
            if user != token.owner && user != token.renewer {
                let text = format!("{user} is not authorized to cancel the token");
                return Err(WebError::new(Exception::AccessControl, text));
            }
            tokens.remove(&token.sequence);
            Ok(())
        })
    }

    fn read(&self, text: &str) -> Result<Delegation, WebError> {
        Delegation::open(&self.inner.key, text)
            .map_err(|error| WebError::new(Exception::InvalidToken, error.to_string()))
    }

    /// Judges and changes the list in one go: writes the new one, and only then takes it.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Tokens) -> Result<T, WebError>,
    ) -> Result<T, WebError> {
        let _writing = self.inner.writing.lock();
        let mut next = Tokens::clone(&self.inner.tokens.read());
        let outcome = change(&mut next)?;
        sys::fs::write_atomic(&self.inner.path, render(&next).as_bytes(), 0o600).map_err(
            |error| {
                let path = self.inner.path.display();
                tracing::error!(%path, %error, "cannot write the list of delegation tokens");
                WebError::new(Exception::Io, "the list of delegation tokens cannot be written")
            },
        )?;
        *self.inner.tokens.write() = Arc::new(next);
        Ok(outcome)
    }
}

/// What the list says of a token.
fn find(tokens: &Tokens, token: &Delegation) -> Result<Entry, WebError> {
    let entry = tokens.get(&token.sequence).filter(|entry| entry.issued_ms == token.issued_ms);
    entry.cloned().ok_or_else(|| invalid("can't be found in cache", &token.owner))
}

fn invalid(what: &str, owner: &str) -> WebError {
    let text = format!("token ({DELEGATION_KIND} token for {owner}) {what}");
    WebError::new(Exception::InvalidToken, text)
}

fn put_aside(path: &Path) -> io::Result<BTreeMap<u32, Entry>> {
    let aside = path.with_extension("damaged");
    std::fs::rename(path, &aside)?;
    tracing::error!(kept = %aside.display(), "the list of delegation tokens is damaged or of another version; all tokens have to be fetched again");
    Ok(BTreeMap::new())
}

pub(crate) fn render(tokens: &BTreeMap<u32, Entry>) -> String {
    let mut text = format!("{HEAD}\n");
    for (sequence, Entry { issued_ms, expires_ms, last_ms, owner, renewer }) in tokens {
        let (owner, renewer) = (path::encode_value(owner), path::encode_value(renewer));
        writeln!(text, "{sequence} {issued_ms} {expires_ms} {last_ms} {owner} {renewer}")
            .expect("writing into memory cannot fail");
    }
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("crc32 {crc:08x}\n"));
    text
}

pub(crate) fn parse(text: &str) -> Option<BTreeMap<u32, Entry>> {
    let (body, crc) = text.strip_suffix('\n')?.rsplit_once("crc32 ")?;
    if crc != format!("{:08x}", crc32fast::hash(body.as_bytes())) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next() != Some(HEAD) {
        return None;
    }
    lines.map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(u32, Entry)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [sequence, issued, expires, last, owner, renewer] = words[..] else { return None };
    let number = |text: &str| text.parse().ok();
    let name = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
    let entry = Entry {
        issued_ms: number(issued)?,
        expires_ms: number(expires)?,
        last_ms: number(last)?,
        owner: name(owner)?,
        renewer: name(renewer)?,
    };
    Some((sequence.parse().ok()?, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const DAY: u64 = RENEW_INTERVAL_MS;

    fn key() -> Key {
        crate::token::token_key(&Key::new([1; 32]))
    }

    fn order<'a>(owner: &'a str, renewer: &'a str) -> Order<'a> {
        Order { owner, renewer, kind: None, service: "nn:9870", lifetime_ms: DAY }
    }

    fn exception<T: std::fmt::Debug>(result: Result<T, WebError>) -> Exception {
        result.unwrap_err().exception
    }

    #[test]
    fn the_life_of_a_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let book = Book::open(&path, key()).unwrap();
        let token = book.issue(order("alice", "yarn"), NOW).unwrap();
        assert_eq!(book.owner(&token, NOW).as_deref(), Ok("alice"));
        assert_eq!(book.owner(&token, NOW + DAY).as_deref(), Ok("alice"));
        assert_eq!(exception(book.owner(&token, NOW + DAY + 1)), Exception::InvalidToken);
        assert_eq!(exception(book.renew(&token, Some("alice"), NOW)), Exception::AccessControl);
        assert_eq!(book.renew(&token, Some("yarn"), NOW + DAY), Ok(NOW + 2 * DAY));
        // A restart changes nothing.
        let book = Book::open(&path, key()).unwrap();
        assert_eq!(book.owner(&token, NOW + 2 * DAY).as_deref(), Ok("alice"));
        for day in 2..=7 {
            let end = book.renew(&token, Some("yarn"), NOW + day * DAY).unwrap();
            assert_eq!(end, NOW + (day + 1).min(7) * DAY);
        }
        assert_eq!(
            exception(book.renew(&token, Some("yarn"), NOW + 7 * DAY + 1)),
            Exception::InvalidToken
        );
        assert_eq!(exception(book.cancel(&token, "eve")), Exception::AccessControl);
        book.cancel(&token, "alice").unwrap();
        assert_eq!(exception(book.owner(&token, NOW)), Exception::InvalidToken);
        assert_eq!(exception(book.cancel(&token, "alice")), Exception::InvalidToken);
        let book = Book::open(&path, key()).unwrap();
        assert_eq!(exception(book.owner(&token, NOW)), Exception::InvalidToken);
    }

    #[test]
    fn whatever_renewals_come_at_the_same_time_a_cancelled_token_stays_cancelled() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let book = Book::open(&path, key()).unwrap();
        for _ in 0..20 {
            let token = book.issue(order("alice", "yarn"), NOW).unwrap();
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        begin.wait();
                        while book.renew(&token, Some("yarn"), NOW).is_ok() {}
                    });
                }
                begin.wait();
                book.cancel(&token, "alice").unwrap();
            });
            assert_eq!(exception(book.owner(&token, NOW)), Exception::InvalidToken);
        }
        assert!(std::fs::read_to_string(&path).unwrap().lines().count() == 2, "none is left");
    }

    #[test]
    fn a_token_is_looked_up_while_the_list_is_being_written() {
        let directory = tempfile::tempdir().unwrap();
        let book = Book::open(&directory.path().join("tokens"), key()).unwrap();
        let token = book.issue(order("alice", "yarn"), NOW).unwrap();
        let _writing = book.inner.writing.lock();
        assert_eq!(book.owner(&token, NOW).as_deref(), Ok("alice"));
    }

    #[test]
    fn names_have_no_control_characters_and_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let book = Book::open(&directory.path().join("tokens"), key()).unwrap();
        let long = "x".repeat(256);
        for (renewer, kind, service) in [
            ("a\0b", None, ""),
            ("yarn", Some("kind\0x"), ""),
            ("yarn", None, "host\n:1"),
            (long.as_str(), None, ""),
        ] {
            let issued = book.issue(Order { kind, service, ..order("alice", renewer) }, NOW);
            assert_eq!(exception(issued), Exception::IllegalArgument, "{renewer:?} {kind:?}");
        }
    }

    #[test]
    fn tokens_are_listed_and_ended_by_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let book = Book::open(&path, key()).unwrap();
        let week = Order { lifetime_ms: LIFETIME_MS, ..order("alice smith", "") };
        let token = book.issue(week, NOW).unwrap();
        let number = book.number(&token).unwrap();
        for lifetime_ms in [0, LIFETIME_MS + 1] {
            let refused = book.issue(Order { lifetime_ms, ..week }, NOW);
            assert_eq!(exception(refused), Exception::IllegalArgument, "{lifetime_ms}");
        }
        let book = Book::open(&path, key()).unwrap();
        let listed = book.list(NOW + 6 * DAY);
        assert_eq!((listed.len(), listed[0].number), (1, number));
        assert_eq!((listed[0].owner.as_str(), listed[0].renewer.as_str()), ("alice smith", ""));
        assert!(book.owner(&token, NOW + LIFETIME_MS).is_ok());
        assert_eq!(book.list(NOW + LIFETIME_MS + 1), []);
        assert_eq!(exception(book.cancel_number(number ^ 1)), Exception::InvalidToken);
        book.cancel_number(number).unwrap();
        assert_eq!(exception(book.owner(&token, NOW)), Exception::InvalidToken);
    }

    #[test]
    fn a_damaged_list_revives_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let book = Book::open(&path, key()).unwrap();
        let token = book.issue(order("alice", "yarn"), NOW).unwrap();
        let good = std::fs::read(&path).unwrap();
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            for text in [&bad[..], &good[..index]] {
                std::fs::write(&path, text).unwrap();
                let book = Book::open(&path, key()).unwrap();
                assert!(book.owner(&token, NOW).is_err(), "{index}");
            }
        }
        std::fs::write(&path, &good).unwrap();
        assert!(Book::open(&path, key()).unwrap().owner(&token, NOW).is_ok());
    }

    #[test]
    fn the_form_of_the_file() {
        let (owner, renewer) = ("a b".to_owned(), String::new());
        let entry = Entry { issued_ms: 1, expires_ms: 2, last_ms: 3, owner, renewer };
        let text = render(&[(7, entry.clone())].into());
        assert_eq!(
            text,
            "hanno delegation tokens 2\n7 1 2 3 a%20b \ncrc32 CRC\n"
                .replace("CRC", &text[text.len() - 9..text.len() - 1])
        );
        assert_eq!(parse(&text), Some([(7, entry)].into()));
    }
}
