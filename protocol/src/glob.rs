//! Globs as in Hadoop's shell and in the inputs of its jobs: `* ? [a-c] [^a] {a,b} \`. Whoever expands them lists directories.

use std::borrow::Cow;

/// True if `text` has any character with a meaning in globs.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// True if `text` can stand for other names than one: it has a wildcard, a class or braces without a backslash before them.
pub fn is_pattern(text: &str) -> bool {
    let is_open = |element: &str| Pattern::new(element).literal().is_none();
    outer_braces(text).is_some() || text.split('/').any(is_open)
}

/// The name that a glob which is no pattern stands for: `\*` is a star.
pub fn unquoted(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    Cow::Owned(plain)
}

/// Most patterns that one with braces can stand for. Each lists directories of its own; twenty pairs of two would be a million.
pub const ALTERNATIVES_MAX: usize = 10_000;

/// A pattern that stands for too many.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the braces stand for more than {ALTERNATIVES_MAX} patterns")]
pub struct TooManyAlternatives;

/// `{a,b}` written out, nested ones too. Unbalanced braces stay as they are.
///
/// # Errors
/// [`TooManyAlternatives`].
pub fn expand_braces(pattern: &str) -> Result<Vec<String>, TooManyAlternatives> {
    let mut alternatives = Vec::new();
    // Patterns still to be expanded, the next one last.
    let mut rest = vec![pattern.to_owned()];
    while let Some(pattern) = rest.pop() {
        let Some((open, close, commas)) = outer_braces(&pattern) else {
            alternatives.push(pattern);
            continue;
        };
        if alternatives.len() + rest.len() + commas.len() >= ALTERNATIVES_MAX {
            return Err(TooManyAlternatives);
        }
        let (before, after) = (&pattern[..open], &pattern[close + 1..]);
        let mut end = close;
        for start in commas.into_iter().rev().chain([open]) {
            rest.push(format!("{before}{}{after}", &pattern[start + 1..end]));
            end = start;
        }
    }
    Ok(alternatives)
}

/// Positions of the first balanced pair of braces and of the commas directly in it.
fn outer_braces(pattern: &str) -> Option<(usize, usize, Vec<usize>)> {
    let (mut open, mut depth, mut commas, mut escaped) = (None, 0u32, Vec::new(), false);
    for (at, c) in pattern.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => {
                depth += 1;
                open = open.or(Some(at));
            }
            ',' if depth == 1 => commas.push(at),
            '}' if depth == 1 => return Some((open?, at, commas)),
            '}' if depth > 1 => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A pattern for one path element.
#[derive(Debug)]
pub struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug)]
enum Token {
    Char(char),
    Any,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// Reads a pattern without braces. An unclosed `[` stands for itself.
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let (mut tokens, mut at) = (Vec::new(), 0);
        while let Some(&c) = chars.get(at) {
            at += 1;
            let token = match c {
                '*' => Token::Many,
                '?' => Token::Any,
                '\\' => match chars.get(at) {
                    Some(&next) => {
                        at += 1;
                        Token::Char(next)
                    }
                    None => Token::Char('\\'),
                },
                '[' => match class(&chars[at..]) {
                    Some((class, len)) => {
                        at += len;
                        class
                    }
                    None => Token::Char('['),
                },
                c => Token::Char(c),
            };
            tokens.push(token);
        }
        Pattern { tokens }
    }

    /// The name that this pattern matches, if it matches exactly one.
    pub fn literal(&self) -> Option<String> {
        self.tokens
            .iter()
            .map(|token| match token {
                Token::Char(c) => Some(*c),
                _ => None,
            })
            .collect()
    }

    /// True if the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut token) = (0, 0);
        // Where to resume after a mismatch: the last `*` and how much it has swallowed.
        let mut retry = None;
        while at < name.len() {
            match self.tokens.get(token) {
                Some(Token::Many) => {
                    retry = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(single) if single.fits(name[at]) => {
                    (at, token) = (at + 1, token + 1);
                    continue;
                }
                _ => {}
            }
            let Some((star, swallowed)) = retry else { return false };
            retry = Some((star, swallowed + 1));
            (at, token) = (swallowed + 1, star + 1);
        }
        self.tokens[token..].iter().all(|token| matches!(token, Token::Many))
    }
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Token::Char(own) => *own == c,
            Token::Any => true,
            Token::Many => false,
            Token::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

/// Reads what follows `[`: the class and how many characters it took, the `]` included.
fn class(chars: &[char]) -> Option<(Token, usize)> {
    let negated = matches!(chars.first(), Some('^' | '!'));
    let mut at = usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let mut take = || {
            let c = *chars.get(at)?;
            at += 1;
            if c != '\\' {
                return Some((c, false));
            }
            let escaped = *chars.get(at)?;
            at += 1;
            Some((escaped, true))
        };
        let (low, escaped) = take()?;
        if low == ']' && !escaped && !ranges.is_empty() {
            return Some((Token::Class { negated, ranges }, at));
        }
        let is_range = chars.get(at) == Some(&'-') && chars.get(at + 1).is_some_and(|c| *c != ']');
        if is_range {
            let high = chars[at + 1];
            ranges.push((low, high));
            at += 2;
        } else {
            ranges.push((low, low));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*", &["", "a", "ä b"][..], &[][..]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["ab", "acb"]),
            ("?x", &["ax", "üx"], &["x", "aax"]),
            ("[a-c]1", &["a1", "c1"], &["d1", "-1"]),
            ("[^a-c]1", &["d1"], &["a1", "1"]),
            ("[]x]", &["]", "x"], &["y"]),
            ("[a", &["[a"], &["a"]),
            ("[a-]", &["a", "-"], &["b"]),
            (r"\*x", &["*x"], &["ax"]),
            (r"x\", &[r"x\"], &["x"]),
            ("*.txt", &[".txt", "a.txt"], &["a.txt2"]),
        ] {
            let compiled = Pattern::new(pattern);
            yes.iter().for_each(|name| assert!(compiled.matches(name), "{pattern} {name}"));
            no.iter().for_each(|name| assert!(!compiled.matches(name), "{pattern} {name}"));
        }
        assert_eq!(Pattern::new(r"a\*b").literal().as_deref(), Some("a*b"));
        assert_eq!(Pattern::new("a*b").literal(), None);
    }

    #[test]
    fn a_pattern_can_stand_for_several_names() {
        for text in ["/a/*", "?", "/[ab]/c", "{a,b}", "/a/{b}", r"\{a,{b}"] {
            assert!(is_pattern(text), "{text}");
        }
        for text in ["/a/b", r"/t/\*", r"\{a,b\}", "/brace{", "/class[a", r"a\"] {
            assert!(!is_pattern(text), "{text}");
        }
    }

    #[test]
    fn names_lose_their_backslashes() {
        for (text, name) in [
            ("a*b", "a*b"),
            (r"\*", "*"),
            (r"/t/\{a,b\}", "/t/{a,b}"),
            (r"a\\b", r"a\b"),
            (r"a\b", "ab"),
            (r"a\", r"a\"),
        ] {
            assert_eq!(unquoted(text), name, "{text}");
        }
    }

    #[test]
    fn braces() {
        for (pattern, expanded) in [
            ("a", &["a"][..]),
            ("{a,b}c", &["ac", "bc"]),
            ("x{1,2{a,b}}y", &["x1y", "x2ay", "x2by"]),
            ("{a/b,c}/{d,e}", &["a/b/d", "a/b/e", "c/d", "c/e"]),
            ("{a", &["{a"]),
            (r"\{a,b}", &[r"\{a,b}"]),
            ("{}", &[""]),
        ] {
            assert_eq!(expand_braces(pattern).unwrap(), expanded, "{pattern}");
        }
    }

    #[test]
    fn braces_that_stand_for_too_many_are_refused() {
        assert_eq!(expand_braces(&"{a,b}".repeat(13)).unwrap().len(), 1 << 13);
        for pattern in
            ["{a,b}".repeat(14), "{a,b}".repeat(10_000), format!("{{{}}}", ",".repeat(10_000))]
        {
            assert_eq!(expand_braces(&pattern), Err(TooManyAlternatives));
        }
        let nested = ["{".repeat(5_000), "}".repeat(5_000)].concat();
        assert_eq!(expand_braces(&nested).unwrap(), [""]);
    }
}
