//! What a page tells its reader to do, block by block.
//!
//! Invariant: each block of the page is a step or belongs to one, or the page is refused.

/// Begins and ends a block.
const FENCE: &str = "```";

/// A step, and the line at which its block begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) step: Step,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Commands, and what they print.
    Run { script: String, shown: String },
    /// A new file.
    Write { path: String, text: String },
    /// Lines of a file, and those that stand there afterwards.
    Change { path: String, from: String, to: String },
}

/// The steps of a page; an error names the line of a block that is none.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let (mut blocks, mut lines) = (Vec::new(), (1..).zip(page.lines()));
    // The file that the line above a block names, and whether a block of commands is the last one.
    let (mut named, mut printing) = (None, false);
    while let Some((line, text)) = lines.next() {
        let refused = |reason: &str| Err(format!("line {line}: {reason}"));
        let Some(language) = text.strip_prefix(FENCE) else {
            if text.contains(FENCE) || text.contains("~~~") || text.contains("<pre") {
                return refused("a block begins at the beginning of a line, with ```");
            }
            if !text.is_empty() {
                named = file_name(text);
            }
            continue;
        };
        let mut body = String::new();
        loop {
            match lines.next() {
                None => return refused("this block has no end"),
                Some((_, FENCE)) => break,
                Some((_, text)) => body.extend([text, "\n"]),
            }
        }
        let step = match (language, named.take()) {
            ("sh", None) => Step::Run { script: body, shown: String::new() },
            ("text", None) if printing => {
                let Some(Block { step: Step::Run { shown, .. }, .. }) = blocks.last_mut() else {
                    return refused("no command prints this");
                };
                (*shown, printing) = (body, false);
                continue;
            }
            ("text", None) => return refused("no command prints this"),
            ("rust" | "awk", Some(path)) => Step::Write { path, text: body },
            ("diff", Some(path)) => {
                let (from, to) = change(&body).ok_or(format!("line {line}: no diff"))?;
                Step::Change { path, from, to }
            }
            ("rust" | "awk" | "diff", None) => return refused("the line above names no file"),
            ("sh" | "text", Some(_)) => return refused("the line above names a file"),
            (other, _) => return refused(&format!("a block of `{other}`")),
        };
        printing = matches!(step, Step::Run { .. });
        blocks.push(Block { line: line + 1, step });
    }
    Ok(blocks)
}

/// The name in a line that is nothing else: `` `src/main.rs`: ``.
fn file_name(line: &str) -> Option<String> {
    let name = line.strip_prefix('`')?.strip_suffix("`:")?;
    (!name.contains('`')).then(|| name.to_owned())
}

/// The lines before and after.
fn change(body: &str) -> Option<(String, String)> {
    let (mut from, mut to) = (String::new(), String::new());
    for line in body.split_inclusive('\n') {
        let (sign, rest) = match line {
            "\n" => (" ", line),
            _ => line.split_at_checked(1)?,
        };
        match sign {
            " " => {
                from.push_str(rest);
                to.push_str(rest);
            }
            "-" => from.push_str(rest),
            "+" => to.push_str(rest),
            _ => return None,
        }
    }
    (!from.is_empty() && from != to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(page: &str) -> Vec<Step> {
        blocks(page).unwrap().into_iter().map(|block| block.step).collect()
    }

    #[test]
    fn blocks_are_steps() {
        let page = "# A page\n```sh\nls\n```\nIt prints\n\n```text\na\n\nb\n```\n\n`a/b`:\n\n```rust\nfn f() {}\n```\n";
        assert_eq!(blocks(page).unwrap()[0].line, 3);
        let file = Step::Write { path: "a/b".to_owned(), text: "fn f() {}\n".to_owned() };
        let run = Step::Run { script: "ls\n".to_owned(), shown: "a\n\nb\n".to_owned() };
        assert_eq!(steps(page), [run, file]);
        let page = "`a`:\n```diff\n one\n\n-two\n+three\n```\n";
        let (from, to) = ("one\n\ntwo\n".to_owned(), "one\n\nthree\n".to_owned());
        assert_eq!(steps(page), [Step::Change { path: "a".to_owned(), from, to }]);
        let page = "```sh\nls\n```\n```sh\nls\n```\n```text\na\n```\n";
        let run = |shown: &str| Step::Run { script: "ls\n".to_owned(), shown: shown.to_owned() };
        assert_eq!(steps(page), [run(""), run("a\n")]);
    }

    #[test]
    fn a_block_that_is_no_step_is_refused() {
        for (page, reason) in [
            ("```\nls\n```\n", "line 1: a block of ``"),
            ("```sh run\nls\n```\n", "line 1: a block of `sh run`"),
            ("x\n```python\n```\n", "line 2: a block of `python`"),
            ("```sh\nls\n", "line 1: this block has no end"),
            ("  ```sh\nls\n  ```\n", "line 1: a block begins"),
            ("~~~sh\nls\n~~~\n", "line 1: a block begins"),
            ("```text\na\n```\n", "line 1: no command prints this"),
            ("```sh\nls\n```\n```text\na\n```\n```text\nb\n```\n", "line 7: no command prints"),
            ("`a`:\n```awk\n```\n```text\na\n```\n", "line 4: no command prints"),
            ("```rust\nfn f() {}\n```\n", "line 1: the line above names no file"),
            ("`a`:\nmore\n```rust\n```\n", "line 3: the line above names no file"),
            ("`a`:\n```sh\nls\n```\n", "line 2: the line above names a file"),
            ("`a`:\n```diff\n same\n```\n", "line 2: no diff"),
            ("`a`:\n```diff\n+new\n```\n", "line 2: no diff"),
            ("`a`:\n```diff\nold\n```\n", "line 2: no diff"),
        ] {
            let refused = blocks(page).unwrap_err();
            assert!(refused.starts_with(reason), "{page}: {refused}");
        }
    }
}
