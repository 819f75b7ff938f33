//! Leaves out of texts what nobody else may read: secrets wherever they stand, and in log lines also what tells of users and their files.
//!
//! It errs to the safe side. What follows the name of a secret goes up to the end of the line, and so does every long word that looks random. A path stays
//! only below the cluster's own directories.

/// Stands for what was left out.
pub(super) const LEFT_OUT: &str = "(left out)";
/// Words of this many characters, with letters and digits and nothing but them, are keys or parts of them: a secret has 64, a token more.
const RANDOM_CHARS_MIN: usize = 32;
/// What begins ids, which are long and no secrets.
const IDS: &[&str] = &["job_", "attempt_", "task_", "application_", "blk_"];
/// Parts of the names of secrets.
const SECRET_NAMES: &[&str] = &[
    "secret",
    "token",
    "passw",
    "credential",
    "cookie",
    "signature",
    "authorization",
    "delegation",
    "private",
];
/// Fields of log lines that hold users, groups, or names that users chose.
const USERS_FIELDS: &[&str] = &[
    "user",
    "owner",
    "group",
    "groups",
    "caller",
    "name",
    "job_name",
    "queue",
    "path",
    "src",
    "dst",
    "source",
    "target",
    "output",
    "input",
    "file",
    "holder",
    "client_name",
];

/// Words of HTTP before what proves who asks.
const SCHEMES: &[&str] = &["Bearer", "bearer", "Negotiate"];

/// What to leave out.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    secrets: Vec<String>,
    directories: Vec<String>,
}

/// What a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Figures, settings and findings: no user has a word in them.
    Facts,
    /// Lines of a daemon's log.
    Log,
}

/// True for the name of a setting or field that holds a secret, or leads to one.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let last = name.rsplit(['.', '_', '-']).next().unwrap_or_default();
    last == "key" || SECRET_NAMES.iter().any(|part| name.contains(part))
}

impl Scrub {
    /// Leaves out these secrets, and paths that are not below these directories.
    pub(super) fn new(secrets: Vec<String>, directories: Vec<String>) -> Self {
        let is_long = |text: &String| !text.is_empty();
        Scrub { secrets: secrets.into_iter().filter(is_long).collect(), directories }
    }

    /// The text without what it may not tell.
    pub(super) fn text(&self, text: &str, kind: Kind) -> String {
        let mut known = text.to_owned();
        for secret in &self.secrets {
            known = known.replace(secret, LEFT_OUT);
        }
        let mut kept = String::with_capacity(known.len());
        for line in known.split_inclusive('\n') {
            self.line(line.trim_end_matches('\n'), kind, &mut kept);
            kept.push_str(if line.ends_with('\n') { "\n" } else { "" });
        }
        kept
    }

    fn line(&self, line: &str, kind: Kind, kept: &mut String) {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(is_separator).unwrap_or(rest.len());
            if end == 0 {
                kept.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let (word, after) = rest.split_at(end);
            let name = word.trim_end_matches(':');
            let follows = after.trim_start_matches(['"', '\'', ' ']);
            let is_option = name.starts_with('-') && after.starts_with(char::is_whitespace);
            let is_named = name.len() < word.len() || follows.starts_with(['=', ':']) || is_option;
            let is_scheme = SCHEMES.contains(&name);
            if (is_named && is_secret_name(name)) || (is_scheme && after.starts_with(' ')) {
                kept.extend([name, " ", LEFT_OUT]);
                return;
            }
            let is_users = kind == Kind::Log && USERS_FIELDS.contains(&name);
            match after.strip_prefix('=').or_else(|| debug_value(name.len() < word.len(), after)) {
                Some(value) if is_users => {
                    kept.extend([word, &after[..after.len() - value.len()], LEFT_OUT]);
                    rest = behind_value(value);
                }
                _ => {
                    self.word(word, kind, kept);
                    rest = after;
                }
            }
        }
    }

    fn word(&self, word: &str, kind: Kind, kept: &mut String) {
        if is_random(word) {
            return kept.push_str(LEFT_OUT);
        }
        match path_in(word).filter(|_| kind == Kind::Log) {
            Some(at) if !self.is_own(&word[at..]) => kept.extend([&word[..at], LEFT_OUT]),
            _ => kept.push_str(word),
        }
    }

    fn is_own(&self, path: &str) -> bool {
        self.directories.iter().any(|directory| {
            path.strip_prefix(directory.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }) && !path.contains("/..")
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "\"'`,;()[]{}<>&?=|".contains(c)
}

/// Where the path begins that a word is or ends with, after a colon or in an address.
fn path_in(word: &str) -> Option<usize> {
    let authority = word.find("://").map_or(0, |at| at + "://".len());
    let at = authority + word[authority..].find('/')?;
    let is_path = authority > 0 || at == 0 || word[..at].ends_with(':');
    (is_path && word.len() > at + 1).then_some(at)
}

fn is_random(word: &str) -> bool {
    let may_be = |c: char| c.is_ascii_alphanumeric() || "+-_.%/".contains(c);
    let has = |wanted: fn(&char) -> bool| word.chars().any(|c| wanted(&c));
    let is_id = IDS.iter().any(|id| word.starts_with(id));
    let is_mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    word.len() >= RANDOM_CHARS_MIN
        && is_mixed
        && !is_id
        && !word.starts_with('/')
        && word.chars().all(may_be)
}

/// The value of a field as Rust's debug form has it, behind `name:`: in quotes, or in quotes and brackets, or a list, which counts up to the end.
fn debug_value(has_colon: bool, after: &str) -> Option<&str> {
    let value = after.strip_prefix(' ').filter(|_| has_colon)?;
    let inner = value.strip_prefix("Some(").unwrap_or(value);
    inner.starts_with(['"', '[']).then_some(inner)
}

/// What follows a value: one in quotes, or of one without quotes, which may have blanks, the fields at the end of the line.
fn behind_value(text: &str) -> &str {
    let Some(quoted) = text.strip_prefix('"') else {
        let behind = text.find(' ').map_or("", |at| &text[at + 1..]);
        let is_field = |word: &str| {
            let name = word.split('=').next().unwrap_or_default();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
            name.len() < word.len() && !name.is_empty() && name.chars().all(is_plain)
        };
        let fields = behind.rsplit(' ').take_while(|word| is_field(word));
        let bytes: usize = fields.map(|word| " ".len() + word.len()).sum();
        return &text[text.len() - bytes..];
    };
    let mut is_escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            '"' if !is_escaped => return &quoted[at + 1..],
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, text: &str, expected: &str) {
        let secrets = vec!["hunter2".to_owned()];
        let scrub = Scrub::new(secrets, vec!["/data/hanno".to_owned()]);
        assert_eq!(scrub.text(text, kind), expected, "{text}");
    }

    #[test]
    fn secrets_go_wherever_they_stand() {
        let hex = "0123456789abcdef".repeat(4);
        let random = "aZ0/+".repeat(10);
        for kind in [Kind::Facts, Kind::Log] {
            check(kind, &format!("a {hex} b\n"), "a (left out) b\n");
            check(kind, &format!("x={random}= y"), "x=(left out)= y");
            check(kind, "it is hunter2!", "it is (left out)!");
            check(kind, "Authorization: Bearer abc", "Authorization (left out)");
            check(kind, "GET /?op=OPEN&delegation=abc&x=1", "GET /?op=OPEN&delegation (left out)");
            check(kind, "{\"api_token\": \"a b\", \"c\": 1}\nd", "{\"api_token (left out)\nd");
            check(kind, "tls.key=abc", "tls.key (left out)");
            check(kind, "sent Bearer abc def", "sent Bearer (left out)");
            check(kind, "curl --password abc /x", "curl --password (left out)");
        }
    }

    #[test]
    fn facts_stay_as_they_are() {
        for text in [
            "namenode_datanodes_entering_maintenance 0\n",
            "worker_attempts_ended_total{kind=\"map\",state=\"failed\"} 12",
            "2026-11-27T22:45:47.123456Z  INFO namenode::server: starts address=127.0.0.1:9870",
            "attempt_202611201830_0001_m_000000_0 of job_202611201830_0001",
            "no directory /data/hanno/logs is missing, text/plain",
        ] {
            check(Kind::Log, text, text);
        }
        check(Kind::Facts, "{\"key\":\"hanno.x\",\"value\":\"/etc/x\"}", "{\"key (left out)");
        check(Kind::Facts, "\"dir\": \"/disk1/x\"", "\"dir\": \"/disk1/x\"");
    }

    #[test]
    fn of_users_a_log_tells_nothing() {
        for (text, expected) in [
            ("user=ann size=3", "user=(left out) size=3"),
            ("job_name=\"a \\\" b\" size=3", "job_name=(left out) size=3"),
            ("path=\"/a b", "path=(left out)"),
            ("cannot open /user/ann/x: gone", "cannot open (left out) gone"),
            ("see http://h:1/webhdfs/v1/user/ann", "see http://h:1(left out)"),
            ("file:/home/ann/x", "file:(left out)"),
            ("in /data/hanno/logs/a, not /data/hannover", "in /data/hanno/logs/a, not (left out)"),
            ("/data/hanno/../../home/ann", "(left out)"),
            ("user=ann smith size=3", "user=(left out) size=3"),
            ("name=the plan for ann", "name=(left out)"),
            ("job{name=the {x} for ann}: began size=3", "job{name=(left out) size=3"),
            ("name=plan a=b ann", "name=(left out)"),
            ("Status { groups: [\"staff\", \"b\"], size: 3 }", "Status { groups: (left out)"),
            (
                "Status { owner: \"ann s\", group: Some(\"staff\"), size: 3 }",
                "Status { owner: (left out), group: Some((left out)), size: 3 }",
            ),
        ] {
            check(Kind::Log, text, expected);
        }
    }
}
