//! What a file names: every path with its imports resolved, every method, every macro (their arguments too), every text.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::UseTree;

/// Something that a file names, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// `std::fs::read` however it was imported; `.metadata()` and `.metadata(..)` for methods without and with arguments, `println!` for macros.
    pub(super) text: String,
    pub(super) line: usize,
}

/// All that a file names.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In the order of the file, what it imports among them.
    pub(super) names: Vec<Name>,
    /// What `use` imports, with its whole path; `*` ends a glob.
    pub(super) imports: Vec<Name>,
    /// The same of `pub use`: it is handed on, not used.
    pub(super) exports: Vec<Name>,
    /// Imported and handed on: the name here, and the whole path.
    pub(super) aliases: BTreeMap<String, String>,
    /// Texts outside comments, without their quotes.
    pub(super) texts: Vec<Name>,
}

/// Reads the code of a file.
pub(super) fn found(tokens: TokenStream) -> Found {
    let mut found = Found::default();
    imports(tokens.clone(), &mut found);
    names(tokens, &mut found);
    found
}

impl Found {
    /// Everything but texts.
    pub(super) fn all(&self) -> impl Iterator<Item = &Name> {
        self.names.iter().chain(&self.imports).chain(&self.exports)
    }
}

impl Name {
    /// True for what is called `path`, and for what is in it.
    pub(super) fn is_in(&self, path: &str) -> bool {
        self.text.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }
}

/// First all imports: a name may stand before its `use`.
fn imports(tokens: TokenStream, found: &mut Found) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if let TokenTree::Group(group) = &tokens[at] {
            imports(group.stream(), found);
        }
        match use_statement(&tokens[at..]) {
            Some((tree, line, length)) => {
                let is_export = at > 0 && is_public(&tokens[..at]);
                branch(&tree, "", &mut |path, alias| {
                    let names = if is_export { &mut found.exports } else { &mut found.imports };
                    names.push(Name { text: path.clone(), line });
                    if alias != path && !alias.is_empty() {
                        found.aliases.insert(alias, path);
                    }
                });
                at += length;
            }
            None => at += 1,
        }
    }
}

/// The `use` that these begin with, its line, and how many tokens it has before its semicolon.
fn use_statement(tokens: &[TokenTree]) -> Option<(UseTree, usize, usize)> {
    let TokenTree::Ident(word) = tokens.first()? else { return None };
    if word != "use" {
        return None;
    }
    let length = tokens.iter().position(|token| is_punct(token, ';'))?;
    let tree = syn::parse2(tokens[1..length].iter().cloned().collect()).ok()?;
    Some((tree, word.span().start().line, length))
}

/// True for what ends with `pub` or `pub(crate)`.
fn is_public(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Ident(word), TokenTree::Group(_)] | [.., TokenTree::Ident(word)] => {
            word == "pub"
        }
        _ => false,
    }
}

/// Gives each import of a tree, its whole path and its name here, to `import`.
fn branch(tree: &UseTree, prefix: &str, import: &mut dyn FnMut(String, String)) {
    let joined = |name: &str| match prefix {
        "" => name.to_owned(),
        prefix if name == "self" => prefix.to_owned(),
        prefix => format!("{prefix}::{name}"),
    };
    match tree {
        UseTree::Path(path) => branch(&path.tree, &joined(&path.ident.to_string()), import),
        UseTree::Group(group) => group.items.iter().for_each(|tree| branch(tree, prefix, import)),
        UseTree::Name(name) => {
            let path = joined(&name.ident.to_string());
            let alias = path.rsplit("::").next().unwrap_or_default().to_owned();
            import(path, alias);
        }
        UseTree::Rename(rename) => {
            import(joined(&rename.ident.to_string()), rename.rename.to_string());
        }
        UseTree::Glob(_) => import(joined("*"), String::new()),
    }
}

fn names(tokens: TokenStream, found: &mut Found) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if let Some((_, _, length)) = use_statement(&tokens[at..]) {
            at += length;
            continue;
        }
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_doc(tokens.get(at + 1)) => {
                at += 1
            }
            TokenTree::Group(group) => names(group.stream(), found),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let inner = text.trim_end_matches('#').strip_suffix('"');
                if let Some((_, inner)) = inner.and_then(|text| text.split_once('"')) {
                    let line = literal.span().start().line;
                    found.texts.push(Name { text: inner.to_owned(), line });
                }
            }
            TokenTree::Ident(_) => at = name(&tokens, at, found),
            TokenTree::Punct(_) => {}
        }
        at += 1;
    }
}

/// Takes in the path or method that begins here; the place of its last token.
fn name(tokens: &[TokenTree], begin: usize, found: &mut Found) -> usize {
    let (mut text, mut at) = (tokens[begin].to_string(), begin);
    let line = tokens[begin].span().start().line;
    let after = |at: usize, text: &str| {
        text.chars()
            .enumerate()
            .all(|(step, c)| tokens.get(at + 1 + step).is_some_and(|t| is_punct(t, c)))
    };
    while after(at, "::") {
        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
        text = format!("{text}::{next}");
        at += 3;
    }
    let is_method = begin > 0
        && is_punct(&tokens[begin - 1], '.')
        && !(begin > 1 && is_punct(&tokens[begin - 2], '.'));
    if is_method {
        let arguments = match tokens.get(at + 1) {
            Some(TokenTree::Group(group)) => arguments(group),
            _ => "",
        };
        text = format!(".{text}{arguments}");
    } else if after(at, "!") && !after(at, "!=") {
        text.push('!');
    } else {
        text = resolved(&text, &found.aliases);
    }
    found.names.push(Name { text, line });
    at
}

fn arguments(group: &Group) -> &'static str {
    match (group.delimiter(), group.stream().is_empty()) {
        (Delimiter::Parenthesis, true) => "()",
        (Delimiter::Parenthesis, false) => "(..)",
        _ => "",
    }
}

/// A path with its first part written out as it was imported.
pub(super) fn resolved(path: &str, aliases: &BTreeMap<String, String>) -> String {
    let mut path = path.to_owned();
    // `use std::fs; use fs::File;`: an import may stand on another.
    for _ in 0..8 {
        let (first, rest) =
            path.split_once("::").map_or((&*path, ""), |(first, rest)| (first, rest));
        let Some(whole) =
            aliases.get(first).filter(|whole| !whole.starts_with(&format!("{first}::")))
        else {
            break;
        };
        path = if rest.is_empty() { whole.clone() } else { format!("{whole}::{rest}") };
    }
    path
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == c)
}

/// True for what stands behind the `#` of a comment.
fn is_doc(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else { return false };
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(first)) if first == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(code: &str) -> Vec<String> {
        let found = found(code.parse().unwrap());
        found.names.into_iter().map(|name| name.text).collect()
    }

    #[test]
    fn names_are_resolved_through_imports() {
        let code =
            "use std::{fs, time::SystemTime as Clock}; fn f() { fs::read(p); Clock::now(); }";
        assert_eq!(texts(code)[2..], ["std::fs::read", "p", "std::time::SystemTime::now"]);
        assert_eq!(
            texts("fn f() { a.metadata(&p)?; b.metadata(); x..y }")[2..],
            ["a", ".metadata(..)", "p", "b", ".metadata()", "x", "y"]
        );
        assert_eq!(
            texts("fn f() { println!(\"{}\", fs::x()) } use std::fs;")[2..],
            ["println!", "std::fs::x"]
        );
    }

    #[test]
    fn texts_are_found_outside_comments() {
        let found = found(
            "/// \"no\"\nconst A: &str = \"yes\"; const B: &str = r#\"raw\"#;".parse().unwrap(),
        );
        assert_eq!(found.texts[0].text, "yes");
        assert_eq!((&*found.texts[1].text, found.texts.len(), found.texts[0].line), ("raw", 2, 2));
    }
}
