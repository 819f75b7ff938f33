//! `-find`: paths below others that match an expression.

use std::ffi::OsString;

use protocol::glob::Pattern;

use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Item, alternatives, text_of};

/// A term of an expression. Terms are joined by "and"; actions are always true.
enum Term {
    /// `-name`, `-iname`: the last element of the path matches one of the patterns.
    Name { patterns: Vec<Pattern>, ignore_case: bool },
    /// `-print`, `-print0`: prints the path and this terminator.
    Print { end: &'static str },
}

/// Finds.
pub(super) fn find(context: &Context) -> Result<(), Failure> {
    let (paths, expression) = split(&context.args.operands);
    let mut terms = parse(expression)?;
    if !terms.iter().any(|term| matches!(term, Term::Print { .. })) {
        terms.push(Term::Print { end: "\n" });
    }
    let here = [OsString::from(".")];
    let paths = if paths.is_empty() { &here[..] } else { paths };
    let mut screen = Screen::new()?;
    context.for_each(paths, |item| visit(context, &item, &terms, &mut screen))?;
    screen.flush()
}

/// Paths end where the first word with a dash begins.
fn split(operands: &[OsString]) -> (&[OsString], &[OsString]) {
    let is_expression = |word: &OsString| word.to_str().is_some_and(|text| text.starts_with('-'));
    operands.split_at(operands.iter().position(is_expression).unwrap_or(operands.len()))
}

fn parse(words: &[OsString]) -> Result<Vec<Term>, Failure> {
    let mut terms = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let word = text_of(word)?;
        match word.trim_start_matches('-') {
            name @ ("name" | "iname") => {
                let text = words.next().ok_or_else(|| {
                    Failure::Usage(format!("Not enough arguments: {word} needs a pattern"))
                })?;
                terms.push(name_term(text_of(text)?, name == "iname")?);
            }
            "print" => terms.push(Term::Print { end: "\n" }),
            "print0" => terms.push(Term::Print { end: "\0" }),
            "a" | "and" => {}
            _ => return Err(Failure::Text(format!("Unexpected argument: {word}"))),
        }
    }
    Ok(terms)
}

fn name_term(text: &str, ignore_case: bool) -> Result<Term, Failure> {
    let text = if ignore_case { text.to_lowercase() } else { text.to_owned() };
    let patterns = alternatives(&text)?.iter().map(|text| Pattern::new(text)).collect();
    Ok(Term::Name { patterns, ignore_case })
}

fn visit(
    context: &Context,
    item: &Item,
    terms: &[Term],
    screen: &mut Screen,
) -> Result<(), Failure> {
    let name = item.named.path.name().unwrap_or_default();
    for term in terms {
        match term {
            Term::Name { patterns, ignore_case } => {
                let name = if *ignore_case { name.to_lowercase() } else { name.to_owned() };
                if !patterns.iter().any(|pattern| pattern.matches(&name)) {
                    break;
                }
            }
            Term::Print { end } => screen.print(&format!("{}{end}", item.named.typed))?,
        }
    }
    if !item.status.directory {
        return Ok(());
    }
    for child in context.store.children(&item.named)? {
        match visit(context, &child, terms, screen) {
            Err(Failure::ReaderLeft) => return Err(Failure::ReaderLeft),
            Err(failure) => context.report(&failure),
            Ok(()) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn paths_come_before_the_expression() {
        let all = words(&["/a", "b", "-name", "x*", "-print"]);
        let (paths, expression) = split(&all);
        assert_eq!((paths.len(), expression.len()), (2, 3));
        assert_eq!(parse(expression).unwrap().len(), 2);
    }

    #[test]
    fn mistakes_are_told() {
        for (expression, text) in [
            (&["-foo"][..], "Unexpected argument: -foo"),
            (&["-print", "x"], "Unexpected argument: x"),
            (&["-name"], "Not enough arguments: -name needs a pattern"),
        ] {
            assert_eq!(parse(&words(expression)).err().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_fit_with_and_without_case() {
        for (pattern, ignore_case, name, fits) in [
            ("A*", false, "Abc", true),
            ("A*", false, "abc", false),
            ("A*", true, "abc", true),
            ("{x,y}?", false, "y1", true),
        ] {
            let Ok(Term::Name { patterns, .. }) = name_term(pattern, ignore_case) else {
                unreachable!()
            };
            assert_eq!(patterns.iter().any(|pattern| pattern.matches(name)), fits, "{pattern}");
        }
    }
}
