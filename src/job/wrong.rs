//! Command lines that have no meaning.

/// What is wrong with a command line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("no command")]
    Nothing,
    #[error("{0}: Unknown command")]
    Command(String),
    #[error("{option}: {what} is missing")]
    Missing { option: String, what: &'static str },
    #[error("{option}: `{word}' is one word too many")]
    TooMany { option: String, word: String },
    #[error("{option}: `{word}' is not {expected}")]
    Word { option: String, word: String, expected: &'static str },
}

/// A command line with this word behind all that the command takes.
pub(super) fn too_many(option: &str, word: &str) -> Wrong {
    Wrong::TooMany { option: option.to_owned(), word: word.to_owned() }
}
