//! Reads the options of `oiv` and `oev`.

use std::ffi::OsString;

use crate::absent::{self, Absent};

/// Why a command did nothing.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// The arguments are wrong: printed with the usage.
    Usage(String),
    /// Something that is not here was asked for, and it has been told.
    Refused,
    /// It failed.
    Failed(String),
}

/// An option.
pub(super) struct Known {
    /// Its names with their dashes; the first stands for all of them.
    pub(super) names: &'static [&'static str],
    pub(super) takes_value: bool,
}

/// The options that were given, by their first names.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Given(Vec<(&'static str, String)>);

impl Given {
    /// The value of an option.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// As [`Given::value`], for an option that must be there.
    pub(super) fn needed(&self, name: &str) -> Result<&str, Wrong> {
        self.value(name).ok_or_else(|| Wrong::Usage(format!("option {name} is missing")))
    }

    /// A number of bytes, or 0.
    pub(super) fn bytes(&self, name: &str) -> Result<u64, Wrong> {
        let Some(text) = self.value(name) else { return Ok(0) };
        text.parse().map_err(|_| {
            Wrong::Usage(format!("option {name} needs a number of bytes, not `{text}'"))
        })
    }
}

/// Reads the words after a command's name. Options of Hadoop's that are absent are refused by name.
pub(super) fn parse(
    (name, known, absent): (&str, &[Known], &[Absent]),
    words: &[OsString],
) -> Result<Given, Wrong> {
    let mut given = Given::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let word = text_of(word)?;
        let Some(option) = known.iter().find(|known| known.names.contains(&word)) else {
            if absent::refuse(name, word, absent) {
                return Err(Wrong::Refused);
            }
            return Err(Wrong::Usage(format!("unknown argument {word}")));
        };
        let mut value = String::new();
        if option.takes_value {
            if given.has(option.names[0]) {
                return Err(Wrong::Usage(format!("option {word} is given twice")));
            }
            let next = rest.next();
            let missing = || Wrong::Usage(format!("option {word} requires 1 argument."));
            text_of(next.ok_or_else(missing)?)?.clone_into(&mut value);
        }
        given.0.push((option.names[0], value));
    }
    Ok(given)
}

fn text_of(word: &OsString) -> Result<&str, Wrong> {
    word.to_str().ok_or_else(|| Wrong::Usage(format!("{} is not UTF-8", word.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[
        Known { names: &["-i", "--inputFile"], takes_value: true },
        Known { names: &["-format"], takes_value: false },
    ];
    const ABSENT: &[Absent] = &[Absent { name: "-t", instead: "nothing" }];

    fn given(words: &[&str]) -> Result<Given, Wrong> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(("oiv", KNOWN, ABSENT), &words)
    }

    #[test]
    fn options_have_several_names_and_one_value() {
        let all = given(&["-format", "--inputFile", "b", "-format"]).unwrap();
        assert_eq!((all.value("-i"), all.has("-format")), (Some("b"), true));
        assert!(matches!(all.needed("-o"), Err(Wrong::Usage(_))));
        assert!(matches!(all.bytes("-i"), Err(Wrong::Usage(_))));
        assert_eq!(given(&[]).unwrap().bytes("-i"), Ok(0));
    }

    #[test]
    fn what_is_unknown_or_absent_is_told_apart() {
        for words in [
            &["x"][..],
            &["-i"],
            &["-I", "a"],
            &["-format", "yes"],
            &["-i", "a", "--inputFile", "a"],
        ] {
            assert!(matches!(given(words), Err(Wrong::Usage(_))), "{words:?}");
        }
        assert_eq!(given(&["-t", "x"]), Err(Wrong::Refused));
    }
}
