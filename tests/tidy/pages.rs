//! Pages lead where they say and quote what is said: the book lists every page, links and their anchors resolve, and a message in
//! `docs/troubleshooting.md` is one that the code prints. The README stays short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::LitStr;

use super::house::{House, is_below, normal, root};
use super::prose;

/// The book's table of contents: it lists every page but itself.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The kinds of pages, in the order of the book. Who learns, does, looks up and understands needs a page each.
const KINDS: [&str; 4] = ["Tutorial", "How-to", "Reference", "Explanation"];
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";
const README: &str = "README.md";
/// Most lines of the README. It is read to its end by those who decide whether to go on; what is longer has a page of `docs/`.
const README_LINES_MAX: usize = 119;
/// Messages that a reader finds there at least.
const MESSAGES_MIN: usize = 40;
/// Fewer letters fit some text of the code by chance.
const MESSAGE_LETTERS_MIN: usize = 8;
/// Stands for what the code fills in.
const FILLED_IN: char = '…';

/// Pages by their paths from the root, and the other paths that links may name.
struct Pages {
    texts: BTreeMap<String, String>,
    others: BTreeSet<String>,
}

impl Pages {
    /// Those that promise to be right. Everything that they link to is looked for on the disk.
    fn here() -> Self {
        let book = ["docs/", "docs/adr/"].map(prose::pages).concat();
        let faces = [README, "CONTRIBUTING.md", "ARCHITECTURE.md"].map(str::to_owned);
        let paths = book.into_iter().chain(faces);
        let texts: BTreeMap<String, String> = paths
            .map(|path| (path.clone(), fs::read_to_string(root().join(path)).unwrap()))
            .collect();
        let links = texts.iter().flat_map(|(page, text)| links(page, text));
        let is_there = |path: &String| root().join(path).try_exists().unwrap();
        let others = links.map(|link| link.path).filter(is_there).collect();
        Self { texts, others }
    }

    fn of(files: &[(&str, &str)], others: &[&str]) -> Self {
        let texts = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        Self { texts, others: others.iter().map(|path| (*path).to_owned()).collect() }
    }
}

/// A link to a place of this project.
struct Link {
    line: usize,
    /// From the root; the page itself for a link within it.
    path: String,
    anchor: Option<String>,
}

/// The lines outside blocks of code, with their numbers and without what stands in code spans.
fn plain_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then(|| (number, without_spans(line)))
    })
}

/// Only what begins and ends in one line counts as a code span.
fn without_spans(line: &str) -> String {
    let (mut plain, mut rest) = (String::new(), line);
    while let Some((before, span, behind)) = first_span(rest) {
        plain.extend([before, &"x".repeat(span.len().min(1))]);
        rest = behind;
    }
    plain + rest
}

/// What stands before the first code span, the span, and what follows it.
fn first_span(line: &str) -> Option<(&str, &str, &str)> {
    let begin = line.find('`')?;
    let length = line[begin..].len() - line[begin..].trim_start_matches('`').len();
    let (inside, fence) = (begin + length, "`".repeat(length));
    let mut end = inside;
    loop {
        end += line[end..].find(&fence)?;
        let run = line[end..].len() - line[end..].trim_start_matches('`').len();
        if run == length {
            let span = &line[inside..end];
            let inner = span.strip_prefix(' ').and_then(|span| span.strip_suffix(' '));
            return Some((&line[..begin], inner.unwrap_or(span), &line[end + run..]));
        }
        end += run;
    }
}

fn links(page: &str, text: &str) -> Vec<Link> {
    let folder = Path::new(page).parent().unwrap();
    let mut found = Vec::new();
    for (line, text) in plain_lines(text) {
        let behind = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let mut targets: Vec<&str> = behind.map(|(target, _)| target).collect();
        let defined = text.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        targets.extend(defined.map(|(_, target)| target.trim()));
        for target in targets.into_iter().filter(|target| !target.contains("://")) {
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            let path = match path {
                "" => page.to_owned(),
                path => normal(&folder.join(path)),
            };
            found.push(Link { line, path, anchor });
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if is_code || !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor_of(title.trim());
        let count = counts.entry(anchor.clone()).or_insert(0);
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

fn anchor_of(title: &str) -> String {
    let mut pieces = title.split("](");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    pieces.for_each(|piece| shown.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest)));
    let kept = shown.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// True for what mdBook does not lead to: files outside, its table of contents, and a `README.md`, which it calls otherwise.
fn is_lost_in_book(page: &str, path: &str) -> bool {
    let is_renamed = page != SUMMARY && (path == SUMMARY || path.ends_with("/README.md"));
    !is_below(path, "docs") || is_renamed
}

/// Links that lead nowhere, and links of the book that lead out of it.
fn dead_links(pages: &Pages) -> Vec<String> {
    let mut violations = Vec::new();
    for (page, text) in &pages.texts {
        for Link { line, path, anchor } in links(page, text) {
            let linked = pages.texts.get(&path);
            if linked.is_none() && !pages.others.contains(&path) {
                violations.push(format!("{page}:{line}: there is no {path}"));
            } else if is_below(page, "docs") && is_lost_in_book(page, &path) {
                violations.push(format!("{page}:{line}: {path} is not in the book"));
            }
            let known = |anchor: &String| linked.is_some_and(|text| anchors(text).contains(anchor));
            if let Some(anchor) = anchor.filter(|anchor| !known(anchor)) {
                violations.push(format!("{page}:{line}: {path} has no heading #{anchor}"));
            }
        }
    }
    violations
}

/// Pages that the table of contents lists never, twice, or under no kind.
fn unlisted(pages: &Pages) -> Vec<String> {
    let text = &pages.texts[SUMMARY];
    let mut violations = Vec::new();
    let titles: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    if titles.first() != Some(&"Summary") || titles[1..] != KINDS {
        violations.push(format!("{SUMMARY}: the kinds of pages are {KINDS:?}, not {titles:?}"));
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for link in links(SUMMARY, text) {
        *counts.entry(link.path).or_insert(0) += 1;
    }
    let book = pages.texts.keys().filter(|page| is_below(page, "docs") && *page != SUMMARY);
    for page in book {
        match counts.remove(page) {
            Some(1) => {}
            Some(count) => violations.push(format!("{SUMMARY}: {page} is listed {count} times")),
            None => violations.push(format!("{SUMMARY}: {page} is not listed")),
        }
    }
    violations.extend(counts.keys().map(|path| format!("{SUMMARY}: {path} is no page")));
    violations
}

/// The messages of a page: the first cells of its tables, each of which is one code span; or the line of one that is not.
fn messages(page: &str, text: &str) -> (Vec<(usize, String)>, Vec<String>) {
    let (mut found, mut violations) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines()) {
        let Some(cell) = text.strip_prefix("| ").filter(|cell| !cell.starts_with("message |"))
        else {
            continue;
        };
        match first_span(cell) {
            Some(("", span, behind)) if behind.starts_with(" |") => {
                found.push((line, span.to_owned()));
            }
            _ => violations.push(format!("{page}:{line}: a message is one code span")),
        }
    }
    (found, violations)
}

/// A text of the code as its readers see it: `…` for what is filled in.
fn spoken(literal: &str) -> String {
    let (mut text, mut rest) = (String::new(), literal);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        text.push_str(before);
        let doubled = behind.starts_with("{{") || behind.starts_with("}}");
        match behind.find('}') {
            _ if doubled => {
                text.push_str(&behind[..1]);
                rest = &behind[2..];
            }
            Some(end) if behind.starts_with('{') => {
                text.push(FILLED_IN);
                rest = &behind[end + 1..];
            }
            _ => {
                text.push_str(&behind[..1]);
                rest = &behind[1..];
            }
        }
    }
    text + rest
}

/// All texts in what users run.
fn all_spoken(house: &House) -> Vec<String> {
    let run = house.production().filter(|source| !is_below(&source.path, "sim"));
    let literals = run.flat_map(|source| &source.found.texts);
    literals
        .map(|literal| {
            let quoted = syn::parse_str::<LitStr>(&format!("\"{}\"", literal.text));
            spoken(&quoted.map_or(literal.text.clone(), |quoted| quoted.value()))
        })
        .collect()
}

/// Messages of a page that nothing in the code prints.
fn unspoken(house: &House, page: &str, text: &str) -> Vec<String> {
    let texts = all_spoken(house);
    let (messages, mut violations) = messages(page, text);
    for (line, message) in messages {
        let stable = message.trim_matches([FILLED_IN, ' ']);
        let letters = stable.chars().filter(|c| c.is_alphabetic()).count();
        if letters < MESSAGE_LETTERS_MIN {
            violations.push(format!("{page}:{line}: too short to be found: {message}"));
        } else if !texts.iter().any(|text| text.contains(stable)) {
            violations.push(format!("{page}:{line}: the code does not say: {message}"));
        }
    }
    violations
}

/// How many lines a README has, if these are too many.
fn too_long(text: &str) -> Option<usize> {
    Some(text.lines().count()).filter(|count| *count > README_LINES_MAX)
}

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn the_book_lists_every_page() {
    let pages = Pages::here();
    assert!(pages.texts.len() > 40, "the walk found the pages");
    assert_none(&unlisted(&pages));
}

#[test]
fn links_lead_somewhere() {
    let pages = Pages::here();
    let count: usize = pages.texts.iter().map(|(page, text)| links(page, text).len()).sum();
    assert!(count > 200, "only {count} links were found");
    assert_none(&dead_links(&pages));
}

#[test]
fn troubleshooting_quotes_what_the_code_says() {
    let text = fs::read_to_string(root().join(TROUBLESHOOTING)).unwrap();
    let count = messages(TROUBLESHOOTING, &text).0.len();
    assert!(count >= MESSAGES_MIN, "only {count} messages were found");
    assert_none(&unspoken(House::here(), TROUBLESHOOTING, &text));
}

#[test]
fn the_readme_is_read_in_one_go() {
    let text = fs::read_to_string(root().join(README)).unwrap();
    assert!(text.starts_with("# Hanno\n"), "this is the README");
    assert_eq!(too_long(&text), None, "lines; {README} has at most {README_LINES_MAX}");
}

#[test]
fn a_readme_that_is_too_long_is_found() {
    assert_eq!(too_long(&"line\n".repeat(README_LINES_MAX)), None);
    assert_eq!(too_long(&"line\n".repeat(README_LINES_MAX + 1)), Some(README_LINES_MAX + 1));
    assert_eq!(too_long(&("\n".repeat(README_LINES_MAX) + "no end")), Some(README_LINES_MAX + 1));
}

#[test]
fn a_page_that_the_book_lacks_is_found() {
    let kinds = "# Summary\n# Tutorial\n# How-to\n# Reference\n# Explanation\n";
    let of = |summary: &str| {
        let pages = [("README.md", ""), (SUMMARY, summary), ("docs/a.md", ""), ("docs/b/c.md", "")];
        unlisted(&Pages::of(&pages, &["docs/d.md"]))
    };
    let both = "- [A](a.md)\n  - [C](b/c.md)\n";
    assert_eq!(of(&format!("{kinds}{both}")), Vec::<String>::new());
    for (summary, violation) in [
        (format!("{kinds}- [A](a.md)\n"), "docs/b/c.md is not listed"),
        (format!("{kinds}{both}- [A](a.md)\n"), "docs/a.md is listed 2 times"),
        (format!("{kinds}{both}- [D](d.md)\n"), "docs/d.md is no page"),
        (format!("{}{both}", kinds.replace("How-to", "Guides")), "the kinds of pages are"),
        (format!("{both}{kinds}# More\n"), "the kinds of pages are"),
    ] {
        let found = of(&summary);
        assert_eq!(found.len(), 1, "{summary}: {found:?}");
        assert!(found[0].contains(violation), "{summary}: {found:?}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let b =
        "# It's `b`: a/b\n\n## Same\n\n### Same\n\n```sh\n# no heading\n```\n## See [b](b.md)_x\n";
    let of = |page: &str, text: &str| {
        let pages = [(page, text), ("docs/b.md", b), ("README.md", "# Top")];
        let others = ["docs/picture.png", "src/main.rs", SUMMARY, "docs/c/README.md"];
        dead_links(&Pages::of(&pages, &others))
    };
    for text in [
        "[b](b.md), [b](../docs/b.md), ![picture](picture.png), [it](#top)\n# Top",
        "[`b`](b.md#its-b-ab) [b](b.md#same) [b](b.md#same-1) [b](b.md#see-b_x)",
        "[else](https://example.org/nothing#where) `[b](nothing.md)` ``a ` [b](nothing.md)``",
        "```text\n[b](nothing.md)\n```",
        "[b]: b.md#same",
    ] {
        assert_eq!(of("docs/a.md", text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(of("CONTRIBUTING.md", "[a](src/main.rs) [b](docs/b.md#same)").len(), 0);
    for (text, violation) in [
        ("\n[b](nothing.md)", "docs/a.md:2: there is no docs/nothing.md"),
        ("[b](docs/b.md)", "docs/a.md:1: there is no docs/docs/b.md"),
        ("`a` [`b`](nothing.md) `c`", "docs/a.md:1: there is no docs/nothing.md"),
        ("```sh\n```\n[b]: nothing.md", "docs/a.md:3: there is no docs/nothing.md"),
        ("[b](b.md#same-2)", "docs/a.md:1: docs/b.md has no heading #same-2"),
        ("[b](b.md#no-heading)", "docs/a.md:1: docs/b.md has no heading #no-heading"),
        ("[b](#same)", "docs/a.md:1: docs/a.md has no heading #same"),
        ("![b](picture.png#x)", "docs/a.md:1: docs/picture.png has no heading #x"),
        ("[b](../README.md)", "docs/a.md:1: README.md is not in the book"),
        ("[b](../src/main.rs)", "docs/a.md:1: src/main.rs is not in the book"),
        ("[b](SUMMARY.md)", "docs/a.md:1: docs/SUMMARY.md is not in the book"),
        ("[b](c/README.md)", "docs/a.md:1: docs/c/README.md is not in the book"),
    ] {
        assert_eq!(of("docs/a.md", text), [violation], "{text}");
    }
}

#[test]
fn a_message_that_nothing_prints_is_found() {
    const CODE: &str = r#"//! A crate.
        #[derive(Error)]
        enum Error {
            /// Nothing says only this.
            #[error("cannot reach {address}: is \"{}\" right, or \
                     {{else}}?", name())]
            Away,
        }
        #[cfg(test)]
        mod tests { const A: &str = "said by tests alone"; }"#;
    let house = House::of(&[("sys/src/lib.rs", CODE)]);
    let of = |row: &str| {
        let text = format!("# Page\n\n| message | cause |\n|---|---|\n{row}\n");
        unspoken(&house, "page", &text)
    };
    for row in [
        "| `cannot reach …` | a |",
        "| ``… reach …: is \"…\" right, or {else}?`` | `b` |",
        "| `is \"…\" right, or` | a |",
    ] {
        assert_eq!(of(row), Vec::<String>::new(), "{row}");
    }
    for (row, violation) in [
        ("| `cannot reach it` | a |", "page:5: the code does not say: cannot reach it"),
        ("| `cannot … address` | a |", "page:5: the code does not say"),
        ("| `cannot reach {address}` | a |", "page:5: the code does not say"),
        ("| `Nothing says only this.` | a |", "page:5: the code does not say"),
        ("| `said by tests alone` | a |", "page:5: the code does not say"),
        ("| `… right` | a |", "page:5: too short to be found"),
        ("| cannot reach … | a |", "page:5: a message is one code span"),
        ("| `cannot reach …` or so | a |", "page:5: a message is one code span"),
    ] {
        let found = of(row);
        assert_eq!(found.len(), 1, "{row}: {found:?}");
        assert!(found[0].starts_with(violation), "{row}: {found:?}");
    }
}
