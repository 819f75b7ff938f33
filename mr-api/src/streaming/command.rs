//! A command line as Hadoop Streaming takes it: words between spaces, quotes keep spaces together, no shell.

use std::path::{Path, PathBuf};

/// Splits a command into its words. `'…'` and `"…"` protect spaces and each other; a backslash is an ordinary character.
pub(super) fn split(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Path of a command's program: a file in the task's directory wins over one on the path, so a script shipped with the job needs no `./`.
pub(super) fn locate(program: &str, directory: &Path) -> PathBuf {
    let here = directory.join(program);
    if program.contains('/') || here.is_file() { here } else { PathBuf::from(program) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        for (command, expected) in [
            ("cat", &["cat"][..]),
            ("  python3   m.py\t-x ", &["python3", "m.py", "-x"]),
            ("awk '{print $1, $2}' \"a b\"", &["awk", "{print $1, $2}", "a b"]),
            (r#"a\t "c'd" 'e\"f'"#, &[r"a\t", "c'd", r#"e\"f"#]),
            (r#"grep "\.gz" ''"#, &["grep", r"\.gz", ""]),
            ("it's", &["its"]),
            ("", &[]),
        ] {
            assert_eq!(split(command), expected, "{command}");
        }
    }

    #[test]
    fn a_file_of_the_task_is_found_without_a_path() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("m.py"), "").unwrap();
        assert_eq!(locate("m.py", directory.path()), directory.path().join("m.py"));
        assert_eq!(locate("./x", directory.path()), directory.path().join("./x"));
        assert_eq!(locate("/bin/cat", directory.path()), Path::new("/bin/cat"));
        assert_eq!(locate("cat", directory.path()), Path::new("cat"));
    }
}
