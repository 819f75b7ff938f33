//! What a command of Hadoop's takes after its name. Most of it is read from the text that the command prints as its help, so that both tell the same.

/// A command with a parser of its own.
#[derive(Default)]
pub(crate) struct Outline {
    /// What it prints as its help.
    pub(crate) help: String,
    /// Its options.
    pub(crate) options: Vec<Word>,
    /// Words of which one comes first, each with the options that may follow.
    pub(crate) commands: Vec<(Word, Vec<Word>)>,
    /// True if such a word is understood without its dash, too.
    pub(crate) is_dash_optional: bool,
}

/// An option, or the name of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// With its dashes.
    pub(crate) name: String,
    /// One line, or nothing.
    pub(crate) about: String,
    /// True if a value follows.
    pub(crate) takes_value: bool,
}

impl Word {
    pub(crate) fn new(name: impl Into<String>, about: &str) -> Self {
        let about = about.lines().next().unwrap_or_default().trim();
        Word { name: name.into(), about: about.to_owned(), takes_value: false }
    }
}

impl Outline {
    /// A command that takes operands alone.
    pub(crate) fn plain(help: &str) -> Self {
        Outline { help: help.trim_end().to_owned(), ..Outline::default() }
    }

    /// A command with options, as its help describes them.
    pub(crate) fn with_options(help: &str) -> Self {
        let usage = help.lines().filter(|line| line.starts_with("Usage:"));
        let lines = described(help).into_iter().chain(usage.map(|line| (line.into(), "".into())));
        let mut options: Vec<Word> = Vec::new();
        for (left, about) in lines {
            for option in options_in(&left) {
                if options.iter().all(|known| known.name != option.name) {
                    options.push(Word { about: about.clone(), ..option });
                }
            }
        }
        Outline { options, ..Outline::plain(help) }
    }

    /// A command of commands, as its help describes them: one a line, its options behind it.
    pub(crate) fn with_commands(help: &str) -> Self {
        let command = |(left, about): (String, String)| {
            let (name, rest) = left.split_once(' ').unwrap_or((&left, ""));
            (Word::new(name, &about), options_in(rest))
        };
        let commands = described(help).into_iter().map(command).collect();
        Outline { commands, is_dash_optional: true, ..Outline::plain(help) }
    }
}

/// The lines of a help that describe something: what, and how. They are indented by two blanks or a tab; the description begins behind a tab or two blanks,
/// or in the next line. Examples are not among them.
pub(crate) fn described(help: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in help.lines().take_while(|line| !line.starts_with("Example")) {
        let is_begun = found.last().is_some_and(|(_, about)| about.is_empty());
        let text = match line.strip_prefix('\t').or_else(|| line.strip_prefix("  ")) {
            Some(text) if text.starts_with(|c: char| !c.is_whitespace()) => text,
            Some(text) if is_begun => {
                if let Some((_, about)) = found.last_mut() {
                    *about = text.trim().to_owned();
                }
                continue;
            }
            _ => continue,
        };
        let end = text.find('\t').or_else(|| text.find("  ")).unwrap_or(text.len());
        let (left, about) = text.split_at(end);
        found.push((left.to_owned(), about.trim().to_owned()));
    }
    found
}

/// The options that a usage names.
pub(crate) fn options_in(usage: &str) -> Vec<Word> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut options: Vec<Word> = Vec::new();
    for (at, _) in usage.match_indices('-') {
        let before = usage[..at].chars().next_back();
        let length = usage[at..].find(|c| !is_part(c)).unwrap_or(usage.len() - at);
        let (name, rest) = usage[at..].split_at(length);
        let letters = name.trim_start_matches('-');
        let is_option = letters.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_option || before.is_some_and(|c| !matches!(c, ' ' | '[' | '(' | '|' | '<' | '\t')) {
            continue;
        }
        let value = rest.strip_prefix(' ').unwrap_or_default();
        let takes_value = value.starts_with(|c: char| c == '<' || c.is_ascii_uppercase());
        if options.iter().all(|known| known.name != name) {
            options.push(Word { takes_value, ..Word::new(name, "") });
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[Word]) -> Vec<&str> {
        words.iter().map(|word| &*word.name).collect()
    }

    #[test]
    fn options_are_found_in_usages_and_nothing_else() {
        for (usage, expected) in [
            ("[-blockingDecommission] [-path <path>]", &["-blockingDecommission", "-path"][..]),
            ("<enter | leave>", &[]),
            ("[-f <hosts-file> | <comma-separated list>]", &["-f"]),
            ("-1 for ever, a - b", &[]),
            ("--json|-json (-x)", &["--json", "-json", "-x"]),
            ("[-a [-a | -b]]", &["-a", "-b"]),
        ] {
            assert_eq!(names(&options_in(usage)), expected, "{usage}");
        }
        let options = options_in("-path <path> [-info QUEUE] [-live] -json");
        let with_value: Vec<bool> = options.iter().map(|option| option.takes_value).collect();
        assert_eq!(with_value, [true, true, false, false]);
    }

    #[test]
    fn a_help_describes_options_or_commands() {
        let help = "Usage: hanno x [--json]\n\t-files -blocks\tblocks -not\n\t[-f <file>]\t\ta file\n\nProse -none.\n\nExamples:\n  -no\n";
        let outline = Outline::with_options(help);
        assert_eq!(names(&outline.options), ["-files", "-blocks", "-f", "--json"]);
        assert_eq!(outline.options[2].about, "a file");
        let help = "Usage: hanno x\n\n  -list [all] [--json]   lists\n  -long ID [-f]\n                 more\n";
        let outline = Outline::with_commands(help);
        let found: Vec<(&str, &str, Vec<&str>)> = outline
            .commands
            .iter()
            .map(|(word, options)| (&*word.name, &*word.about, names(options)))
            .collect();
        assert_eq!(found, [("-list", "lists", vec!["--json"]), ("-long", "more", vec!["-f"])]);
    }
}
