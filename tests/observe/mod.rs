//! What `deploy/observe/` ships for operators: alert rules, their page in the book, dashboards. They name only what daemons export, and the
//! alerts' conditions come true on a cluster that has the trouble.

mod conditions;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use needs::{Need, lacks};
use regex::Regex;
use serde_json::Value;

use self::rules::{Rule, Selector, rules, selectors};
use crate::monitoring::metrics;
use crate::support::{Cluster, Options, http, report};

const PAGE: &str = "docs/alerts.md";
/// What Prometheus itself knows of each target.
const BUILT_IN: &[&str] = &["up"];
/// Labels that Prometheus adds to each series.
const OF_TARGET: &[&str] = &["job", "instance"];
const SEVERITIES: &[&str] = &["critical", "warning", "info"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn all_rules() -> Vec<Rule> {
    rules(&text("deploy/observe/alerts.yml"))
}

/// Expressions of all dashboards, each with the dashboard's file.
fn dashboards() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("deploy/observe/dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let board: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(board["title"].is_string() && board["uid"].is_string(), "{name}");
        let mut expressions = Vec::new();
        collect(&board, &mut expressions);
        assert!(expressions.len() > 5, "{name}: {expressions:?}");
        found.extend(expressions.into_iter().map(|expr| (name.clone(), expr)));
    }
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, found));
        }
        _ => {}
    }
}

/// The names of the scrape configuration's jobs.
fn jobs() -> Vec<String> {
    let text = text("deploy/observe/prometheus.yml");
    let jobs = text.lines().filter_map(|line| line.trim().strip_prefix("- job_name: "));
    jobs.map(str::to_owned).collect()
}

/// A metric, with the labels of each of its series.
type Exported = BTreeMap<String, Vec<BTreeMap<String, String>>>;

/// From samples as a daemon writes them: `name{label="value"}`.
fn exported<'a>(samples: impl IntoIterator<Item = &'a String>) -> Exported {
    let mut exported = Exported::new();
    for sample in samples {
        let one = selectors(sample).remove(0);
        let labels = one.labels.into_iter().map(|(label, _, value)| (label, value)).collect();
        exported.entry(one.metric).or_default().push(labels);
    }
    exported
}

/// What is wrong with the selectors of an expression.
fn unknown(expr: &str, exported: &Exported, jobs: &[String]) -> Vec<String> {
    let found = selectors(expr);
    let mut violations = Vec::new();
    if found.is_empty() {
        violations.push(format!("nothing is selected: {expr}"));
    }
    for Selector { metric, labels } in found {
        let series = exported.get(&metric);
        if series.is_none() && !BUILT_IN.contains(&metric.as_str()) {
            violations.push(format!("no daemon exports {metric}: {expr}"));
            continue;
        }
        for (label, is, value) in labels {
            let value = if is == "=" { regex::escape(&value) } else { value };
            let value = Regex::new(&format!("^(?:{value})$")).unwrap();
            let known = match label.as_str() {
                "job" => jobs.iter().any(|job| value.is_match(job)),
                label if OF_TARGET.contains(&label) => true,
                label => series
                    .into_iter()
                    .flatten()
                    .any(|labels| labels.get(label).is_some_and(|known| value.is_match(known))),
            };
            if !known {
                violations.push(format!("no series of {metric} has {label} {is} {value}: {expr}"));
            }
        }
    }
    violations
}

/// Where rules and page differ, and what a rule or a section lacks.
fn unmatched(rules: &[Rule], page: &str) -> Vec<String> {
    let sections: Vec<(&str, &str)> =
        page.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')).collect();
    let titles: BTreeSet<&str> = sections.iter().map(|(title, _)| *title).collect();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    let mut violations = Vec::new();
    if titles.len() < sections.len() || names.len() < rules.len() {
        violations.push("a name is there twice".to_owned());
    }
    violations
        .extend(names.difference(&titles).map(|name| format!("{PAGE} has no section {name}")));
    violations.extend(titles.difference(&names).map(|title| format!("there is no alert {title}")));
    for (title, section) in sections {
        for part in ["**Confirm:** ", "**Do:** "] {
            if !section.contains(part) {
                violations.push(format!("{PAGE}: {title} has no {part}"));
            }
        }
    }
    for rule in rules {
        let key = |key: &str| rule.keys.get(key).map_or("", String::as_str);
        let runbook = format!("{PAGE}#{}", rule.name.to_lowercase());
        let is_told = !key("summary").is_empty() && !key("description").is_empty();
        if !is_told || key("runbook") != runbook || !SEVERITIES.contains(&key("severity")) {
            violations.push(format!("{} lacks a text, its runbook or a severity", rule.name));
        }
        if rule.expr.is_empty() || key("for").is_empty() {
            violations.push(format!("{} has no condition", rule.name));
        }
    }
    violations
}

/// Alerts of which the unit tests do not show that they fire, or that they are silent.
fn untested(rules: &[Rule], tests: &str) -> Vec<String> {
    let cases: Vec<&str> = tests.split("- alertname: ").skip(1).collect();
    let mut violations = Vec::new();
    for rule in rules {
        let of = |case: &&&str| case.lines().next() == Some(rule.name.as_str());
        let (silent, firing): (Vec<&str>, Vec<&str>) =
            cases.iter().filter(of).copied().partition(|case| case.contains("exp_alerts: []"));
        if silent.is_empty() || firing.is_empty() {
            violations.push(format!(
                "{}: {} fire, {} are silent",
                rule.name,
                firing.len(),
                silent.len()
            ));
        }
    }
    violations
}

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn every_alert_has_a_section_and_every_section_an_alert() {
    let rules = all_rules();
    assert!(rules.len() >= 25, "the rules were read");
    assert_none(&unmatched(&rules, &text(PAGE)));
    assert_none(&untested(&rules, &text("deploy/observe/alerts_test.yml")));
}

#[test]
fn a_rule_without_a_section_and_a_section_without_a_rule_are_found() {
    let keys = [
        ("for", "0m"),
        ("severity", "info"),
        ("summary", "s"),
        ("description", "d"),
        ("runbook", "docs/alerts.md#a"),
    ];
    let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let whole = Rule { name: "A".to_owned(), expr: "a".to_owned(), keys };
    let page = "# Alerts\n\n## A\n\nIt is.\n\n**Confirm:** look\n\n**Do:** mend\n";
    assert_none(&unmatched(std::slice::from_ref(&whole), page));
    let without = |key: &str| {
        let mut rule = whole.clone();
        rule.keys.remove(key);
        rule
    };
    let mut nothing = whole.clone();
    nothing.expr.clear();
    for rule in ["for", "severity", "summary", "description", "runbook"].map(without) {
        assert_eq!(unmatched(std::slice::from_ref(&rule), page).len(), 1, "{rule:?}");
    }
    assert_eq!(unmatched(&[nothing], page), ["A has no condition"]);
    let more = format!("{page}\n## B\n\n**Confirm:** look\n");
    let expected = ["there is no alert B", "docs/alerts.md: B has no **Do:** "];
    assert_eq!(unmatched(std::slice::from_ref(&whole), &more), expected);
    assert_eq!(
        unmatched(std::slice::from_ref(&whole), "# Alerts\n"),
        ["docs/alerts.md has no section A"]
    );
    assert_eq!(unmatched(&[whole.clone(), whole.clone()], page), ["a name is there twice"]);

    let silent = "- alertname: A\n  exp_alerts: []\n";
    let firing = "- alertname: A\n  exp_alerts:\n    - exp_labels:\n";
    assert_none(&untested(std::slice::from_ref(&whole), &format!("{silent}{firing}")));
    for tests in [silent, firing, ""] {
        assert_eq!(untested(std::slice::from_ref(&whole), tests).len(), 1, "{tests}");
    }
}

#[test]
fn a_metric_that_no_daemon_exports_is_found() {
    let samples = ["a_total{state=\"failed\"}", "b"].map(str::to_owned);
    let (exported, jobs) = (exported(&samples), ["hanno-x".to_owned()]);
    for expr in
        ["b > 0 and up{job=~\"hanno-.*\"} == 1", "rate(a_total{state=~\"failed|killed\"}[5m])"]
    {
        assert_none(&unknown(expr, &exported, &jobs));
    }
    for expr in ["c > 0", "b{x=\"y\"}", "a_total{state=\"killed\"}", "b{job=\"other\"}", "1 > 0"] {
        assert_eq!(unknown(expr, &exported, &jobs).len(), 1, "{expr}");
    }
}

/// The figures of every daemon of a cluster.
fn all_metrics(cluster: &Cluster) -> Vec<BTreeMap<String, f64>> {
    let workers = http::request("GET", &format!("{}/api/v1/workers", cluster.jobtracker), b"");
    let workers = workers.is(200).json();
    let worker = format!("http://{}", workers[0]["http_address"].as_str().unwrap());
    let node = &report::datanodes(cluster)[0];
    let node = format!("http://{}", node["info"]["http_address"].as_str().unwrap());
    [&cluster.namenode, &cluster.jobtracker, &node, &worker].map(|daemon| metrics(daemon)).into()
}

#[test]
fn rules_and_dashboards_name_what_daemons_export() {
    let cluster = Cluster::start(Options { datanodes: 1, workers: 1, ..Options::tight() });
    report::wait_live(&cluster, 1);
    let figures = all_metrics(&cluster);
    let exported = exported(figures.iter().flat_map(BTreeMap::keys));
    let jobs = jobs();
    assert_eq!(jobs.len(), figures.len(), "{jobs:?}");
    for rule in all_rules() {
        assert_none(&unknown(&rule.expr, &exported, &jobs));
    }
    for (board, expr) in dashboards() {
        let violations = unknown(&expr, &exported, &jobs);
        assert!(violations.is_empty(), "{board}: {violations:?}");
    }
}

/// Prometheus' own tool accepts the rules, and each fires and is silent as `alerts_test.yml` says.
#[test]
fn promtool_tests_the_rules() {
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let mut command = Command::new("promtool");
        let output = command.args(arguments).current_dir(root().join("deploy/observe")).output();
        match output {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return lacks(Need::Promtool, "there is no promtool");
            }
            Err(error) => panic!("promtool: {error}"),
            Ok(output) => assert!(
                output.status.success(),
                "{arguments:?}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
}
