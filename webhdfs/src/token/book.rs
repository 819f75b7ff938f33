//! The list of delegation tokens that are good: a token that is not in it was cancelled, or has run out.
//!
//! Kept in a file so that tokens survive a restart of the NameNode; written whole at each change, since tokens are few and
//! change seldom:
//!
//! ```text
//! hanno delegation tokens 1
//! <sequence> <issued ms> <expires ms> <last ms>     one line per token
//! crc32 <8 hex digits of what stands above>
//! ```
//!
//! A damaged file is put aside and the list begins empty: tokens must be fetched again, none comes back to life.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use protocol::auth::Key;

use crate::error::{Exception, WebError};
use crate::token::{DELEGATION_KIND, Delegation};

/// How long a token is good unless it is renewed, as HDFS: a day.
const RENEW_INTERVAL_MS: u64 = 24 * 3_600_000;
/// How long it can be renewed, as HDFS: seven days.
const LIFETIME_MS: u64 = 7 * RENEW_INTERVAL_MS;
/// Tokens at once: 60 bytes each in the file.
const TOKENS_MAX: usize = 10_000;
/// First line of the file: what it is, and the version of its form.
const HEAD: &str = "hanno delegation tokens 1";

/// The list. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Book {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    key: Key,
    /// Replaced whole, so that nobody who looks a token up waits for the disk.
    tokens: RwLock<Arc<Tokens>>,
    /// Held by who changes the list, from its first look at it until it is on disk.
    writing: Mutex<()>,
}

type Tokens = BTreeMap<u32, Entry>;

/// A good token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    issued_ms: u64,
    expires_ms: u64,
    last_ms: u64,
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
    /// If a name has control characters, there are too many, or the disk refuses.
    pub fn issue(
        &self,
        (owner, renewer): (&str, &str),
        (kind, service): (Option<&str>, &str),
        now_ms: u64,
    ) -> Result<String, WebError> {
        let kind = kind.unwrap_or(DELEGATION_KIND);
        for (name, text) in [("kind", kind), ("renewer", renewer), ("service", service)] {
            if text.chars().any(char::is_control) {
                return Err(WebError::parameter(name, "control characters"));
            }
        }
        let last_ms = now_ms.saturating_add(LIFETIME_MS);
        let sequence = self.change(|tokens| {
            tokens.retain(|_, entry| entry.expires_ms >= now_ms);
            if tokens.len() >= TOKENS_MAX {
                let text = format!("there are {TOKENS_MAX} delegation tokens already");
                return Err(WebError::new(Exception::Io, text));
            }
            let sequence = loop {
                let candidate = rand::random::<u32>() >> 1;
                if !tokens.contains_key(&candidate) {
                    break candidate;
                }
            };
            let expires_ms = now_ms.saturating_add(RENEW_INTERVAL_MS);
            tokens.insert(sequence, Entry { issued_ms: now_ms, expires_ms, last_ms });
            Ok(sequence)
        })?;
        let (owner, renewer) = (owner.to_owned(), renewer.to_owned());
        let token = Delegation { owner, renewer, issued_ms: now_ms, last_ms, sequence };
        Ok(token.seal(&self.inner.key, kind, service))
    }

    /// Whom the holder of a token acts as.
    ///
    /// # Errors
    /// If it is not good any more, or never was.
    pub fn owner(&self, text: &str, now_ms: u64) -> Result<String, WebError> {
        let token = self.read(text)?;
        let tokens = Arc::clone(&self.inner.tokens.read());
        if find(&tokens, &token)?.expires_ms < now_ms {
            return Err(invalid("is expired", &token.owner));
        }
        Ok(token.owner)
    }

    /// Makes a token good for another while, for its renewer; returns when that ends.
    ///
    /// # Errors
    /// If `user` is not its renewer, or it is not good any more.
    pub fn renew(&self, text: &str, user: &str, now_ms: u64) -> Result<u64, WebError> {
        let token = self.read(text)?;
        self.change(|tokens| {
            let entry = find(tokens, &token)?;
            if token.renewer.is_empty() || token.renewer != user {
                let renewer = &token.renewer;
                let text = format!("{user} tries to renew a token with renewer {renewer}");
                return Err(WebError::new(Exception::AccessControl, text));
            }
            if entry.expires_ms < now_ms || entry.last_ms < now_ms {
                return Err(invalid("is expired", &token.owner));
            }
            let expires_ms = now_ms.saturating_add(RENEW_INTERVAL_MS).min(entry.last_ms);
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
    entry.copied().ok_or_else(|| invalid("can't be found in cache", &token.owner))
}

fn invalid(what: &str, owner: &str) -> WebError {
    let text = format!("token ({DELEGATION_KIND} token for {owner}) {what}");
    WebError::new(Exception::InvalidToken, text)
}

fn put_aside(path: &Path) -> io::Result<BTreeMap<u32, Entry>> {
    let aside = path.with_extension("damaged");
    std::fs::rename(path, &aside)?;
    tracing::error!(kept = %aside.display(), "the list of delegation tokens is damaged; all tokens have to be fetched again");
    Ok(BTreeMap::new())
}

fn render(tokens: &BTreeMap<u32, Entry>) -> String {
    let mut text = format!("{HEAD}\n");
    for (sequence, Entry { issued_ms, expires_ms, last_ms }) in tokens {
        writeln!(text, "{sequence} {issued_ms} {expires_ms} {last_ms}")
            .expect("writing into memory cannot fail");
    }
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("crc32 {crc:08x}\n"));
    text
}

fn parse(text: &str) -> Option<BTreeMap<u32, Entry>> {
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
    let mut words = line.split(' ');
    let sequence = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse().ok();
    let (issued_ms, expires_ms, last_ms) = (number()?, number()?, number()?);
    words.next().is_none().then_some((sequence, Entry { issued_ms, expires_ms, last_ms }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const DAY: u64 = RENEW_INTERVAL_MS;

    fn key() -> Key {
        crate::token::token_key(&Key::new([1; 32]))
    }

    fn exception<T: std::fmt::Debug>(result: Result<T, WebError>) -> Exception {
        result.unwrap_err().exception
    }

    #[test]
    fn the_life_of_a_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let book = Book::open(&path, key()).unwrap();
        let token = book.issue(("alice", "yarn"), (None, "nn:9870"), NOW).unwrap();
        assert_eq!(book.owner(&token, NOW).as_deref(), Ok("alice"));
        assert_eq!(book.owner(&token, NOW + DAY).as_deref(), Ok("alice"));
        assert_eq!(exception(book.owner(&token, NOW + DAY + 1)), Exception::InvalidToken);
        assert_eq!(exception(book.renew(&token, "alice", NOW)), Exception::AccessControl);
        assert_eq!(book.renew(&token, "yarn", NOW + DAY), Ok(NOW + 2 * DAY));
        // A restart changes nothing.
        let book = Book::open(&path, key()).unwrap();
        assert_eq!(book.owner(&token, NOW + 2 * DAY).as_deref(), Ok("alice"));
        for day in 2..=7 {
            let end = book.renew(&token, "yarn", NOW + day * DAY).unwrap();
            assert_eq!(end, NOW + (day + 1).min(7) * DAY);
        }
        assert_eq!(
            exception(book.renew(&token, "yarn", NOW + 7 * DAY + 1)),
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
            let token = book.issue(("alice", "yarn"), (None, ""), NOW).unwrap();
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        begin.wait();
                        while book.renew(&token, "yarn", NOW).is_ok() {}
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
        let token = book.issue(("alice", "yarn"), (None, ""), NOW).unwrap();
        let _writing = book.inner.writing.lock();
        assert_eq!(book.owner(&token, NOW).as_deref(), Ok("alice"));
    }

    #[test]
    fn names_have_no_control_characters() {
        let directory = tempfile::tempdir().unwrap();
        let book = Book::open(&directory.path().join("tokens"), key()).unwrap();
        for (renewer, kind, service) in
            [("a\0b", None, ""), ("yarn", Some("kind\0x"), ""), ("yarn", None, "host\n:1")]
        {
            let issued = book.issue(("alice", renewer), (kind, service), NOW);
            assert_eq!(exception(issued), Exception::IllegalArgument, "{renewer:?} {kind:?}");
        }
    }

    #[test]
    fn a_damaged_list_revives_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let book = Book::open(&path, key()).unwrap();
        let token = book.issue(("alice", "yarn"), (None, ""), NOW).unwrap();
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
        let entry = Entry { issued_ms: 1, expires_ms: 2, last_ms: 3 };
        let text = render(&[(7, entry)].into());
        assert_eq!(
            text,
            "hanno delegation tokens 1\n7 1 2 3\ncrc32 CRC\n"
                .replace("CRC", &text[text.len() - 9..text.len() - 1])
        );
        assert_eq!(parse(&text), Some([(7, entry)].into()));
    }
}
