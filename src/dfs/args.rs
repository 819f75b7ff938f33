//! Arguments in Hadoop's style: single-dash words, options before operands, `--` ends options, generic options (`-D`, `-fs`)
//! anywhere among the options.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// An option of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opt {
    /// Without dashes.
    pub(crate) name: &'static str,
    /// True if the next argument is its value.
    pub(crate) takes_value: bool,
    /// Letters that may follow its name in the same word (`-ptopax`); they are then its value.
    pub(crate) letters: &'static str,
    /// True if its value may be missing before another option, and where taking it would leave too few operands (`-count -q -t /d`).
    pub(crate) is_optional: bool,
    /// True if its effect happens without it too; the help of its command says so.
    pub(crate) is_met: bool,
}

/// An option without a value.
pub(crate) const fn flag(name: &'static str) -> Opt {
    Opt { name, takes_value: false, letters: "", is_optional: false, is_met: false }
}

/// An option with a value.
pub(crate) const fn value(name: &'static str) -> Opt {
    Opt { takes_value: true, ..flag(name) }
}

/// An option that letters may follow in the same word.
pub(crate) const fn attached(name: &'static str, letters: &'static str) -> Opt {
    Opt { letters, ..flag(name) }
}

/// An option whose value may be missing before the last operands.
pub(crate) const fn value_unless_last(name: &'static str) -> Opt {
    Opt { is_optional: true, ..value(name) }
}

/// An option for something that happens anyway.
pub(crate) const fn met(name: &'static str) -> Opt {
    Opt { is_met: true, ..flag(name) }
}

/// The arguments that a command accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Its options.
    pub(crate) options: &'static [Opt],
    /// Fewest operands.
    pub(crate) min: usize,
    /// Most operands.
    pub(crate) max: usize,
    /// Take an unknown option for the first operand (`chmod -x f`).
    pub(crate) unknown_is_operand: bool,
}

/// The arguments given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parsed {
    options: BTreeMap<&'static str, String>,
    /// Everything after the options.
    pub(crate) operands: Vec<OsString>,
    /// `-D key=value`, in order.
    pub(crate) properties: Vec<(String, String)>,
    /// `-fs URI`.
    pub(crate) file_system: Option<String>,
    /// `-conf FILE`, in order.
    pub(crate) files: Vec<String>,
    /// Generic options that no command uses.
    pub(crate) unused: Vec<&'static str>,
}

impl Parsed {
    /// True if the option was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// Value of an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }
}

/// Wrong arguments.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgsError {
    /// An option that the command does not have.
    #[error("Illegal option {0}")]
    Illegal(String),
    /// An option without its value.
    #[error("option {0} requires 1 argument.")]
    NoValue(String),
    /// Too few operands.
    #[error("Not enough arguments: expected {expected} but got {actual}")]
    Few {
        /// Needed.
        expected: usize,
        /// Given.
        actual: usize,
    },
    /// Too many operands.
    #[error("Too many arguments: expected {expected} but got {actual}")]
    Many {
        /// Accepted.
        expected: usize,
        /// Given.
        actual: usize,
    },
    /// `-D` without `=`.
    #[error("-D needs key=value, not `{0}'")]
    Property(String),
}

/// Generic options that are accepted for the sake of scripts and that nothing here uses; each has a value.
pub(crate) const UNUSED_GENERIC: [&str; 4] = ["-jt", "-files", "-libjars", "-archives"];

/// Takes generic options off the front of `args` into `parsed` and returns the rest.
pub(crate) fn generic<'a>(
    mut args: &'a [OsString],
    parsed: &mut Parsed,
) -> Result<&'a [OsString], ArgsError> {
    while let Some((first, tail)) = args.split_first() {
        match take_generic(first, tail, parsed)? {
            Some(rest) => args = rest,
            None => break,
        }
    }
    Ok(args)
}

/// Reads the arguments that follow a command's name into `parsed`.
pub(crate) fn parse(
    mut args: &[OsString],
    format: &Format,
    parsed: &mut Parsed,
) -> Result<(), ArgsError> {
    while let Some((first, tail)) = args.split_first() {
        let Some(name) = option_name(first) else { break };
        if name.is_empty() {
            args = tail;
            break;
        }
        let bare = name.strip_prefix('-').unwrap_or(name);
        if let Some((option, letters)) = named_option(format.options, bare) {
            args = tail;
            let mut text = letters.to_owned();
            let next_is_option = tail.first().is_some_and(|next| option_name(next).is_some());
            let is_left_out = option.is_optional && (tail.len() <= format.min || next_is_option);
            if option.takes_value && !is_left_out {
                let (given, rest) =
                    tail.split_first().ok_or_else(|| ArgsError::NoValue(lossy(first)))?;
                (text, args) = (lossy(given), rest);
            }
            parsed.options.insert(option.name, text);
        } else if let Some(rest) = take_generic(first, tail, parsed)? {
            args = rest;
        } else if format.unknown_is_operand {
            break;
        } else {
            return Err(ArgsError::Illegal(lossy(first)));
        }
    }
    let actual = args.len();
    if actual < format.min {
        return Err(ArgsError::Few { expected: format.min, actual });
    }
    if actual > format.max {
        return Err(ArgsError::Many { expected: format.max, actual });
    }
    parsed.operands = args.to_vec();
    Ok(())
}

/// The option that a word without its dashes names, and the letters after it.
fn named_option<'a>(options: &[Opt], word: &'a str) -> Option<(Opt, &'a str)> {
    if let Some(option) = options.iter().find(|option| option.name == word) {
        return Some((*option, ""));
    }
    options.iter().find_map(|option| {
        let letters = word.strip_prefix(option.name)?;
        let known =
            !option.letters.is_empty() && letters.chars().all(|c| option.letters.contains(c));
        known.then_some((*option, letters))
    })
}

/// The text after the first dash; empty for `--`; `None` for operands, among them `-` (standard input).
fn option_name(arg: &OsStr) -> Option<&str> {
    let name = arg.to_str()?.strip_prefix('-')?;
    match name {
        "" => None,
        "-" => Some(""),
        name => Some(name),
    }
}

fn take_generic<'a>(
    first: &OsStr,
    tail: &'a [OsString],
    parsed: &mut Parsed,
) -> Result<Option<&'a [OsString]>, ArgsError> {
    let Some(name) = option_name(first).filter(|name| !name.is_empty()) else { return Ok(None) };
    let (kind, attached) = match name.strip_prefix('D') {
        Some("") => ("D", None),
        Some(attached) if attached.contains('=') => ("D", Some(attached.to_owned())),
        _ => (name.strip_prefix('-').unwrap_or(name), None),
    };
    let unused = UNUSED_GENERIC.iter().find(|option| &option[1..] == kind);
    if !["D", "conf", "fs", "namenode"].contains(&kind) && unused.is_none() {
        return Ok(None);
    }
    let (text, rest) = match attached {
        Some(text) => (text, tail),
        None => {
            let (given, rest) =
                tail.split_first().ok_or_else(|| ArgsError::NoValue(lossy(first)))?;
            (lossy(given), rest)
        }
    };
    match kind {
        "D" => {
            let (key, value) = text.split_once('=').ok_or(ArgsError::Property(text.clone()))?;
            parsed.properties.push((key.to_owned(), value.to_owned()));
        }
        "conf" => parsed.files.push(text),
        "fs" | "namenode" => parsed.file_system = Some(text),
        _ => parsed.unused.extend(unused),
    }
    Ok(Some(rest))
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        options: &[flag("f"), value("t"), flag("json")],
        min: 1,
        max: 2,
        unknown_is_operand: false,
    };

    fn check(words: &[&str], format: &Format) -> Result<Parsed, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut parsed = Parsed::default();
        generic(&words, &mut parsed)
            .and_then(|rest| parse(rest, format, &mut parsed))
            .map_err(|error| error.to_string())?;
        Ok(parsed)
    }

    #[test]
    fn options_end_where_operands_begin() {
        let parsed =
            check(&["-D", "a=b=c", "-f", "-t", "4", "-Dx=1", "src", "-f"], &FORMAT).unwrap();
        assert!(parsed.has("f") && !parsed.has("json"));
        assert_eq!(parsed.value("t"), Some("4"));
        assert_eq!(parsed.operands, ["src", "-f"]);
        assert_eq!(parsed.properties, [("a".into(), "b=c".into()), ("x".into(), "1".into())]);
        assert_eq!(check(&["--", "-f"], &FORMAT).unwrap().operands, ["-f"]);
        assert_eq!(check(&["-f", "--", "--", "-"], &FORMAT).unwrap().operands, ["--", "-"]);
        assert_eq!(check(&["-", "x"], &FORMAT).unwrap().operands, ["-", "x"]);
        assert!(check(&["--json", "x"], &FORMAT).unwrap().has("json"));
        assert_eq!(
            check(&["-fs", "hanno://a:1", "x"], &FORMAT).unwrap().file_system.unwrap(),
            "hanno://a:1"
        );
    }

    #[test]
    fn mistakes_have_hadoops_words() {
        for (words, text) in [
            (&["-z", "x"][..], "Illegal option -z"),
            (&[], "Not enough arguments: expected 1 but got 0"),
            (&["a", "b", "c"], "Too many arguments: expected 2 but got 3"),
            (&["-t"], "option -t requires 1 argument."),
            (&["-D", "k", "x"], "-D needs key=value, not `k'"),
        ] {
            assert_eq!(check(words, &FORMAT).unwrap_err(), text);
        }
    }

    #[test]
    fn letters_may_follow_an_option() {
        const OPTIONS: &[Opt] = &[attached("p", "topax"), flag("put")];
        let format = Format { options: OPTIONS, ..FORMAT };
        assert_eq!(check(&["-pto", "a"], &format).unwrap().value("p"), Some("to"));
        assert_eq!(check(&["-p", "a"], &format).unwrap().value("p"), Some(""));
        assert!(check(&["-put", "a"], &format).unwrap().has("put"));
        assert_eq!(check(&["-pz", "a"], &format).unwrap_err(), "Illegal option -pz");
    }

    #[test]
    fn a_value_may_be_left_out_before_the_last_operand() {
        const OPTIONS: &[Opt] = &[flag("q"), value_unless_last("t")];
        let format = Format { options: OPTIONS, ..FORMAT };
        let parsed = check(&["-q", "-t", "/d"], &format).unwrap();
        assert_eq!((parsed.value("t"), parsed.operands.len()), (Some(""), 1));
        assert_eq!(check(&["-t", "SSD", "/d"], &format).unwrap().value("t"), Some("SSD"));
        let parsed = check(&["-t", "-q", "/d", "/e"], &format).unwrap();
        assert!(parsed.has("q") && parsed.value("t") == Some("") && parsed.operands.len() == 2);
    }

    #[test]
    fn a_mode_may_look_like_an_option() {
        let format = Format { unknown_is_operand: true, ..FORMAT };
        assert_eq!(check(&["-f", "-x", "file"], &format).unwrap().operands, ["-x", "file"]);
    }
}
