//! The alerts' conditions on a cluster that has the trouble: each rule's own expression holds then, and did not before.

use std::collections::BTreeMap;

use super::all_rules;
use super::rules::{Rule, selectors};
use crate::monitoring::metrics;
use crate::support::{Cluster, Options, processes, report};

/// Time for a DataNode to be found silent, and for one to be back.
const CHANGE_SECONDS: u64 = 60;

type Samples = BTreeMap<String, f64>;

fn rule(name: &str) -> Rule {
    all_rules().into_iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The sum of the series that the only selector of a rule selects.
fn value(rule: &Rule, samples: &Samples) -> f64 {
    let selectors = selectors(&rule.expr);
    let [selector] = selectors.as_slice() else { panic!("not one selector: {}", rule.expr) };
    let series = samples.iter().filter(|(sample, _)| {
        let series = super::rules::selectors(sample).remove(0);
        let has = |label| series.labels.contains(label);
        series.metric == selector.metric && selector.labels.iter().all(has)
    });
    let values: Vec<f64> = series.map(|(_, value)| *value).collect();
    assert!(!values.is_empty(), "nothing is {selector:?}");
    values.iter().sum()
}

/// Whether the expression of a rule holds: `SELECTOR > N`, `SELECTOR == N`, or `increase(SELECTOR[…]) > N`, for which `before` is the begin.
fn holds(rule: &Rule, before: &Samples, now: &Samples) -> bool {
    let is_increase = rule.expr.starts_with("increase(");
    let begin = if is_increase { value(rule, before) } else { 0.0 };
    let seen = value(rule, now) - begin;
    let (left, limit) = rule.expr.rsplit_once(' ').unwrap();
    let limit: f64 = limit.parse().unwrap();
    match left.rsplit_once(' ').unwrap().1 {
        ">" => seen > limit,
        "==" => seen == limit,
        other => panic!("{other}: {}", rule.expr),
    }
}

fn check_safe_mode(cluster: &Cluster) {
    let rule = rule("HannoSafeMode");
    let holds = || {
        let now = metrics(&cluster.namenode);
        holds(&rule, &now, &now)
    };
    assert!(!holds());
    cluster.hanno(&["dfsadmin", "-safemode", "enter"]).ok();
    assert!(holds());
    cluster.hanno(&["dfsadmin", "-safemode", "leave"]).ok();
    assert!(!holds());
}

fn check_failed_job(cluster: &Cluster) {
    let rule = rule("HannoJobFailed");
    let before = metrics(&cluster.jobtracker);
    assert!(!holds(&rule, &before, &before));
    let arguments = ["job", "streaming", "-input", "/file", "-mapper", "false", "-reducer", "cat"];
    let failing = [&arguments[..], &["-output", "/fails"]].concat();
    assert_eq!(cluster.hanno(&failing).code, 1);
    let after = metrics(&cluster.jobtracker);
    assert!(holds(&rule, &before, &after), "{after:?}");
    assert_eq!(value(&rule, &after) - value(&rule, &before), 1.0);
}

/// One DataNode stands still, so that it is silent; then it is killed, and the cluster starts it again.
fn check_dead_datanode(cluster: &Cluster) {
    let rules = ["HannoDatanodesDead", "HannoBlocksLowRedundancy"].map(rule);
    let all = |expected: bool| {
        let now = metrics(&cluster.namenode);
        rules.iter().all(|rule| holds(rule, &now, &now) == expected)
    };
    cluster.wait_healthy(CHANGE_SECONDS);
    assert!(all(false));
    processes::pause(cluster.pid("datanode-3").unwrap());
    cluster.wait_until("the alerts' conditions hold", CHANGE_SECONDS, |_| all(true));
    cluster.kill("datanode-3");
    cluster.wait_until("the alerts' conditions are over", CHANGE_SECONDS, |_| all(false));
}

#[test]
fn conditions_hold_while_there_is_trouble() {
    let cluster = Cluster::start(Options { workers: 1, ..Options::tight() });
    report::wait_live(&cluster, 3);
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("file");
    std::fs::write(&source, "a line\n").unwrap();
    cluster.dfs(&["-put", source.to_str().unwrap(), "/file"]).ok();
    check_safe_mode(&cluster);
    check_failed_job(&cluster);
    check_dead_datanode(&cluster);
}
