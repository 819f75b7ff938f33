//! Reads the alert rules as `deploy/observe/alerts.yml` writes them, one key a line, and the selectors of their expressions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// Words of expressions that are no metrics. Functions are known by their parenthesis.
const WORDS: &[&str] =
    &["and", "or", "unless", "bool", "offset", "sum", "min", "max", "avg", "count"];
/// Words before a list of labels.
const BEFORE_LABELS: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];

static MATCHER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)""#).unwrap());

/// An alert rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) expr: String,
    /// All other keys of the rule.
    pub(super) keys: BTreeMap<String, String>,
}

/// What an expression selects: a metric, and what it says of labels as `(label, operator, value)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) metric: String,
    pub(super) labels: Vec<(String, String, String)>,
}

/// The rules of a file. Panics on a line that it does not understand.
pub(super) fn rules(text: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (key, value) = line.trim().split_once(':').unwrap_or_else(|| panic!("no key: {line}"));
        let value = scalar(value.trim());
        match (key.strip_prefix("- ").unwrap_or(key), rules.last_mut()) {
            ("groups" | "rules" | "labels" | "annotations" | "name", _) => {}
            ("alert", _) => rules.push(Rule { name: value, ..Rule::default() }),
            ("expr", Some(rule)) => rule.expr = value,
            (key, Some(rule)) => {
                let before = rule.keys.insert(key.to_owned(), value);
                assert_eq!(before, None, "{}: {key} is there twice", rule.name);
            }
            (_, None) => panic!("outside of a rule: {line}"),
        }
    }
    rules
}

/// A value of YAML in one line: in single quotes, in double quotes, or as it is.
fn scalar(text: &str) -> String {
    let inside = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    match (inside('\''), inside('"')) {
        (Some(plain), _) => plain.replace("''", "'"),
        (_, Some(escaped)) => escaped.replace("\\\"", "\"").replace("\\\\", "\\"),
        _ => text.to_owned(),
    }
}

/// The selectors of an expression.
pub(super) fn selectors(expr: &str) -> Vec<Selector> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (mut found, mut rest) = (Vec::new(), expr);
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '"' => behind(&rest[1..], '"'),
            '[' => behind(rest, ']'),
            _ if first.is_ascii_digit() => {
                rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.')
            }
            _ if is_word(first) => {
                let after = rest.trim_start_matches(is_word);
                word(&rest[..rest.len() - after.len()], after.trim_start(), &mut found)
            }
            _ => &rest[first.len_utf8()..],
        };
    }
    found
}

/// Takes a word, and returns what is left of the text behind it.
fn word<'a>(word: &str, after: &'a str, found: &mut Vec<Selector>) -> &'a str {
    if BEFORE_LABELS.contains(&word) {
        return behind(after, ')');
    }
    if WORDS.contains(&word) || after.starts_with('(') {
        return after;
    }
    let (braces, after) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
        Some((braces, after)) => (braces, after),
        None => ("", after),
    };
    let labels = MATCHER.captures_iter(braces).map(|matched| {
        let part = |index: usize| matched[index].to_owned();
        (part(1), part(2), part(3))
    });
    found.push(Selector { metric: word.to_owned(), labels: labels.collect() });
    after
}

fn behind(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

#[test]
fn rules_are_read_as_they_are_written() {
    let text = "# Rules.\ngroups:\n  - name: g\n    rules:\n      - alert: A\n        expr: 'a{b=\"c\"} > 0'\n        for: 5m\n        \
                annotations:\n          summary: \"a \\\"b\\\": c\"\n      - alert: B\n        expr: b\n";
    let keys = [("for", "5m"), ("summary", "a \"b\": c")];
    let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let first = Rule { name: "A".to_owned(), expr: "a{b=\"c\"} > 0".to_owned(), keys };
    let second = Rule { name: "B".to_owned(), expr: "b".to_owned(), ..Rule::default() };
    assert_eq!(rules(text), [first, second]);
}

#[test]
fn only_metrics_are_selected() {
    let names = |expr: &str| -> Vec<String> {
        selectors(expr).into_iter().map(|selector| selector.metric).collect()
    };
    for (expr, metrics) in [
        ("a > 0.5", &["a"][..]),
        ("a_b / ignoring(job, instance) c and on (d) e == 1e3", &["a_b", "c", "e"]),
        (
            "sum by (le, job) (rate(a_total{x=\"y z\"}[5m])) or increase(b[$__rate_interval])",
            &["a_total", "b"],
        ),
        ("histogram_quantile(0.99, sum by (le) (rate(a_bucket[5m]))) > 1", &["a_bucket"]),
        ("avg_over_time(a[10m] offset 1d) unless b", &["a", "b"]),
    ] {
        assert_eq!(names(expr), metrics, "{expr}");
    }
    let one = selectors("a{b=\"c\", d=~\"e|f\"}").remove(0);
    let label = |name: &str, is: &str, value: &str| (name.into(), is.into(), value.into());
    assert_eq!(one.labels, [label("b", "=", "c"), label("d", "=~", "e|f")]);
}
