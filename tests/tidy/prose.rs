//! Pages are read once and understood: no sentence is longer than a breath.

use std::fs;
use std::path::Path;

use super::house::root;

/// Most words of a sentence; code counts as one.
const SENTENCE_WORDS_MAX: usize = 35;
/// Made by tests from tables in the code.
const GENERATED: &[&str] = &["docs/properties.md", "docs/routes.md"];

/// The sentences that are too long, each with its page.
fn long_sentences(page: &str, text: &str) -> Vec<String> {
    let mut violations = Vec::new();
    for block in blocks(text) {
        for sentence in sentences(&without_code(&block)) {
            let count = sentence.split_whitespace().count();
            if count > SENTENCE_WORDS_MAX {
                let begin: String = sentence.chars().take(60).collect();
                violations.push(format!("{page}: {count} words: {begin}…"));
            }
        }
    }
    violations
}

/// Paragraphs, items of lists, headings, and cells of tables; blocks of code are left out.
fn blocks(text: &str) -> Vec<String> {
    let (mut blocks, mut block) = (Vec::new(), String::new());
    let mut is_code = false;
    for line in text.lines().map(str::trim) {
        is_code ^= line.starts_with("```");
        let is_item = line.starts_with(['#', '>', '|', '`'])
            || line.starts_with("- ")
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_code || is_item || line.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
        if line.starts_with('|') {
            blocks.extend(line.split('|').map(str::to_owned));
        } else if !is_code && !line.starts_with("```") {
            block.push_str(line.strip_prefix("- ").unwrap_or(line));
            block.push(' ');
        }
    }
    blocks.push(block);
    blocks
}

/// With one word for each piece of code and no targets of links.
fn without_code(block: &str) -> String {
    let mut text = String::new();
    for (index, piece) in block.split('`').enumerate() {
        text.push_str(if index % 2 == 0 { piece } else { "code" });
    }
    let mut pieces = text.split("](");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest));
    }
    plain
}

fn sentences(text: &str) -> Vec<String> {
    let (mut sentences, mut sentence) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        sentence.push(word);
        if word.ends_with(['.', '!', '?']) {
            sentences.push(std::mem::take(&mut sentence).join(" "));
        }
    }
    sentences.push(sentence.join(" "));
    sentences
}

pub(super) fn pages(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"));
    pages.map(|name| format!("{folder}{name}")).collect()
}

#[test]
fn sentences_of_pages_are_short() {
    let all = ["", "docs/", "docs/adr/", "fuzz/"].map(pages).concat();
    assert!(all.len() > 20, "{all:?}");
    let mut violations = Vec::new();
    for page in all.iter().filter(|page| !GENERATED.contains(&&***page)) {
        let is_history = page.ends_with("CHANGELOG.md");
        let text = fs::read_to_string(root().join(page)).unwrap();
        violations.extend(long_sentences(page, &text).into_iter().filter(|_| !is_history));
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn a_long_sentence_is_found_wherever_it_stands() {
    let long = "word ".repeat(SENTENCE_WORDS_MAX) + "word";
    for text in [
        format!("Short. {long}."),
        format!("- item\n- {long}\n"),
        format!("| a | {long} |"),
        format!("```sh\ncode\n```\n{long}"),
        format!("[{long}](place)"),
    ] {
        assert_eq!(long_sentences("page", &text).len(), 1, "{text}");
    }
    let half = "word ".repeat(SENTENCE_WORDS_MAX - 1) + "word";
    for text in [
        format!("{half}. {half}."),
        format!("- {half}\n- {half}"),
        format!("| {half} | {half} |"),
        format!("```sh\n{long}\n```"),
        format!("`{long}`"),
    ] {
        assert_eq!(long_sentences("page", &text), Vec::<String>::new(), "{text}");
    }
}
