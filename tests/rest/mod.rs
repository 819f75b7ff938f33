//! What programs read over HTTP: `/api/v1` against its own description, Hadoop's history API against shapes that are kept beside this file,
//! `/metrics` of every daemon by a parser that is not ours.

mod files;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use needs::{Need, lacks};
use serde_json::{Value, json};

use crate::support::cluster::{SUPERUSER, hanno_binary};
use crate::support::{Cluster, Options, data, http};

/// If set, the shapes are written instead of compared.
const RENEW_VARIABLE: &str = "HANNO_TEST_RENEW_SHAPES";
/// Where Python may be: the one that is found first, and the system's, which packages are for.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];
/// Reads metrics with Prometheus' own Python library.
const PARSER: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
families = list(read(sys.stdin.read()))
assert families and all(f.type != 'unknown' for f in families), families
print(sum(len(f.samples) for f in families))";

fn get(url: &str) -> Value {
    http::request("GET", &named(url), b"").is(200).json()
}

/// An address, asked in the name of who runs the jobs here.
fn named(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}user.name={SUPERUSER}")
}

#[test]
fn programs_read_what_is_described() {
    let mut options = Options { workers: 1, ..Options::tight() };
    // Files are shown to those who are signed in, or everybody where names are believed.
    options.variables.push(("HANNO_NAMENODE_WEBHDFS", r#"{ auth = "simple" }"#.to_owned()));
    options.variables.push(("HANNO_JOBTRACKER_AUTH", "simple".to_owned()));
    let cluster = Cluster::start(options);
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("text");
    fs::write(&source, data::text(7, 20_000)).unwrap();
    cluster.dfs(&["-put", source.to_str().unwrap(), "/text"]).ok();
    cluster.example("wordcount", &["/text", "/counts"]).ok();
    let job = get(&format!("{}/api/v1/jobs", cluster.jobtracker))[0]["id"].clone();
    let job = job.as_str().unwrap();
    own(&cluster, job);
    hadoops(&cluster, job);
    masters(&cluster, job);
    xml(&cluster, job);
    changes_need_a_session(&cluster, job);
    changes_need_a_right(&cluster);
    metrics(&cluster);
}

/// A path of a description with the names of a job, its first map and that map's first attempt.
fn filled(path: &str, job: &str) -> String {
    path.replace("{id}", job)
        .replace("{task}", &format!("{}_m_000000", job.replace("job", "task")))
        .replace("{attempt}", &format!("{}_m_000000_0", job.replace("job", "attempt")))
}

/// Every GET of both descriptions answers as it says.
fn own(cluster: &Cluster, job: &str) {
    for (daemon, count) in [(&cluster.jobtracker, 10), (&cluster.namenode, 4)] {
        let description = get(&format!("{daemon}/api/v1/openapi.json"));
        let mut checked = 0;
        for (path, operations) in description["paths"].as_object().unwrap() {
            let content = &operations["get"]["responses"]["200"]["content"]["application/json"];
            let Some(expected) = content.get("schema") else { continue };
            let path = filled(path, job);
            let questions: &[&str] =
                if path.ends_with("/files") { &["?path=/", "?path=/text"] } else { &[""] };
            for question in questions {
                let answer = get(&format!("{daemon}{path}{question}"));
                let problems = schema::check(&description, expected, &answer);
                assert!(problems.is_empty(), "{path}{question}: {problems:#?}\n{answer:#}");
            }
            checked += 1;
        }
        assert_eq!(checked, count, "{daemon}");
    }
    let file = format!("{}/api/v1/files?path=/text", cluster.namenode);
    assert!(get(&file)["blocks"][0].get("token").is_none(), "a token is a permission");
}

/// Hadoop's names and types, kept as files.
fn hadoops(cluster: &Cluster, job: &str) {
    let base = format!("{}/ws/v1/history", cluster.jobtracker);
    let of_job = format!("{base}/mapreduce/jobs/{job}");
    let tasks = get(&format!("{of_job}/tasks?type=r"));
    let task = tasks["tasks"]["task"][0]["id"].as_str().unwrap().to_owned();
    let of_task = format!("{of_job}/tasks/{task}");
    let attempt = format!("{of_task}/attempts/attempt_{}_0", task.strip_prefix("task_").unwrap());
    for (name, url) in [
        ("info", format!("{base}/info")),
        ("jobs", format!("{base}/mapreduce/jobs")),
        ("job", of_job.clone()),
        ("jobattempts", format!("{of_job}/jobattempts")),
        ("counters", format!("{of_job}/counters")),
        ("conf", format!("{of_job}/conf")),
        ("tasks", format!("{of_job}/tasks")),
        ("task", of_task.clone()),
        ("task-counters", format!("{of_task}/counters")),
        ("attempts", format!("{of_task}/attempts")),
        ("attempt", attempt.clone()),
        ("attempt-counters", format!("{attempt}/counters")),
    ] {
        compare(name, &shape(&get(&url)));
    }
    let missing =
        http::request("GET", &named(&format!("{of_job}/tasks/task_1_0001_m_000000")), b"").is(404);
    compare("refusal", &shape(&missing.json()));
    for (url, status, warning) in [
        (format!("{base}/mapreduce/jobs?state=succeeded"), 400, None),
        (format!("{of_job}/tasks?type=map"), 400, None),
        (format!("{base}/mapreduce/jobs?state=SUCCEEDED&limit=1"), 200, None),
        (format!("{base}/mapreduce/jobs?depth=1"), 200, Some("depth")),
        (format!("{of_job}/counters?doas=bob"), 200, Some("doas")),
        (format!("{}/api/v1/jobs?state=RUNNING", cluster.jobtracker), 200, Some("state")),
        (format!("{}/jmx?get=a", cluster.namenode), 400, None),
        (format!("{}/jmx?depth=1", cluster.namenode), 200, Some("depth")),
        (format!("{}/api/v1/nodes?state=live", cluster.namenode), 200, Some("state")),
        (format!("{}/browse?preview=all", cluster.namenode), 400, None),
        (format!("{}/fsck?files=0", cluster.namenode), 400, None),
    ] {
        let answer = http::request("GET", &named(&url), b"");
        let told =
            warning.map(|name| format!("299 hanno \"ignored, this address has not: {name}\""));
        assert_eq!((answer.status, answer.header("warning")), (status, told.as_deref()), "{url}");
    }
    let counters = get(&format!("{of_job}/counters"));
    let text = counters.to_string();
    let groups = counters["jobCounters"]["counterGroup"].as_array().unwrap();
    let all = groups.iter().flat_map(|group| group["counter"].as_array().unwrap());
    let records = all.clone().find(|counter| counter["name"] == "MAP_INPUT_RECORDS").expect(&text);
    assert!(records["mapCounterValue"].as_u64() > Some(0), "{records}");
    assert_eq!(records["mapCounterValue"], records["totalCounterValue"]);
    assert_eq!(records["reduceCounterValue"], 0);
}

/// The API of an application master: of all jobs, and below the application of one.
fn masters(cluster: &Cluster, job: &str) {
    let all = format!("{}/ws/v1/mapreduce", cluster.jobtracker);
    let application = job.replace("job_", "application_");
    let one = format!("{}/proxy/{application}/ws/v1/mapreduce", cluster.jobtracker);
    let state = filled("jobs/{id}/tasks/{task}/attempts/{attempt}/state", job);
    let map = state.strip_suffix("/state").unwrap();
    for base in [&all, &one] {
        compare("master-info", &shape(&get(&format!("{base}/info"))));
        compare("master-job", &shape(&get(&format!("{base}/jobs/{job}"))));
        compare("master-state", &shape(&get(&format!("{base}/{state}"))));
        compare("counters", &shape(&get(&format!("{base}/jobs/{job}/counters"))));
        compare("tasks", &shape(&get(&format!("{base}/jobs/{job}/tasks"))));
        compare("attempt-counters", &shape(&get(&format!("{base}/{map}/counters"))));
    }
    assert_eq!(get(&format!("{all}/jobs")), json!({ "jobs": { "job": [] } }), "none runs");
    let jobs = get(&format!("{one}/jobs"));
    compare("master-jobs", &shape(&jobs));
    assert_eq!(
        (&jobs["jobs"]["job"][0]["id"], &jobs["jobs"]["job"][0]["mapProgress"]),
        (&json!(job), &json!(100.0))
    );
    assert_eq!(get(&format!("{one}/info"))["info"]["appId"], application);
    for missing in [one.replace("application_", "application_9"), format!("{all}/jobs/{job}9")] {
        let url = if missing.ends_with("mapreduce") { format!("{missing}/jobs") } else { missing };
        compare("refusal", &shape(&http::request("GET", &named(&url), b"").is(404).json()));
    }
}

/// The same in XML for who asks for that, read by a parser that is not ours.
fn xml(cluster: &Cluster, job: &str) {
    let ask = |url: &str, accept: &str| {
        let mut connection = http::Connection::open(url);
        let headers = format!("Accept: {accept}\r\nConnection: close\r\n");
        connection.send_head("GET", &named(url), &headers);
        connection.answer()
    };
    let base = format!("{}/ws/v1", cluster.jobtracker);
    let of_job = format!("{base}/history/mapreduce/jobs/{job}");
    let map = filled(&format!("{base}/mapreduce/jobs/{{id}}/tasks/{{task}}/attempts"), job);
    let script = "import sys, xml.etree.ElementTree as e
print(' '.join(x.tag + ':' + (x.text or '') for x in e.parse(sys.stdin).iter()))";
    for (url, part) in [
        (of_job.clone(), format!("job:  id:{job}")),
        (format!("{of_job}/counters"), "name:MAP_INPUT_RECORDS".to_owned()),
        (format!("{of_job}/tasks"), "tasks: task: ".to_owned()),
        (map.clone(), "taskAttempts: taskAttempt: ".to_owned()),
        (
            format!("{map}/{}/state", filled("{attempt}", job)),
            "jobTaskAttemptState: state:SUCCEEDED".to_owned(),
        ),
    ] {
        let answer = ask(&url, "application/xml").is(200);
        assert_eq!(answer.header("content-type"), Some("application/xml"));
        let text = python(script, &answer.body);
        let words: Vec<&str> = part.split("  ").collect();
        assert!(words.iter().all(|word| text.contains(word)), "{url}: {text}");
    }
    let missing = ask(&format!("{of_job}9"), "application/xml").is(404).text();
    assert!(missing.contains("<exception>NotFoundException</exception>"), "{missing}");
    ask(&of_job, "text/csv").is(406);
    ask(&of_job, "text/csv, */*;q=0.1").is(200).json();
}

/// What a script prints that is given some bytes.
fn python(script: &str, input: &[u8]) -> String {
    let mut child = Command::new(PYTHONS[0])
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Somebody who is signed in changes own jobs, and no others.
fn changes_need_a_right(cluster: &Cluster) {
    let words = ["job", "streaming", "-input", "/text", "-output", "/slept"];
    let more = ["-mapper", "sleep 600", "-reducer", "NONE"];
    let mut driver = cluster.command(&hanno_binary(), &[&words[..], &more[..]].concat());
    let mut driver = driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let newest = || get(&format!("{}/api/v1/jobs", cluster.jobtracker))[0].clone();
    cluster.wait_until("a map sleeps", 60, |_| newest()["maps"]["running"].as_u64() > Some(0));
    let job = newest()["id"].as_str().unwrap().to_owned();
    let own = format!("{}/api/v1/jobs/{job}", cluster.jobtracker);
    let attempt = filled(&format!("{own}/attempts/{{attempt}}/state"), &job);
    let task = filled(&format!("{own}/tasks/{{task}}/state"), &job);
    let masters = filled(
        &format!(
            "{}/ws/v1/mapreduce/jobs/{{id}}/tasks/{{task}}/attempts/{{attempt}}/state",
            cluster.jobtracker
        ),
        &job,
    );
    let changes = [
        ("PATCH", &own, r#"{"priority":"VERY_HIGH"}"#),
        ("PUT", &attempt, r#"{"state":"FAILED"}"#),
        ("PUT", &task, r#"{"state":"KILLED"}"#),
        ("PUT", &masters, r#"{"state":"KILLED"}"#),
        ("DELETE", &own, ""),
    ];
    let eve = cluster.session("JobTracker", "eve");
    for (method, url, body) in changes {
        let answer = act(cluster, &eve, (method, url, body)).is(403);
        assert!(answer.text().contains("eve"), "{method} {url}: {}", answer.text());
    }
    let report = newest();
    assert_eq!((&report["state"], &report["priority"]), (&json!("RUNNING"), &json!("NORMAL")));
    assert_eq!(report["maps"]["failed_attempts"], 0);
    let owner = cluster.session("JobTracker", report["user"].as_str().unwrap());
    for (method, url, body) in [changes[0], changes[4]] {
        act(cluster, &owner, (method, url, body)).is(202);
    }
    cluster.wait_until("the job is killed", 60, |_| newest()["state"] == "KILLED");
    assert_eq!(newest()["priority"], "VERY_HIGH");
    let _ = driver.wait();
}

/// What a page of the JobTracker sends in a session.
fn act(cluster: &Cluster, session: &str, (method, url, body): (&str, &str, &str)) -> http::Answer {
    let mut connection = http::Connection::open(url);
    let page = format!("Origin: {}\r\nX-Hanno-Page: 1\r\n{session}", cluster.jobtracker);
    let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
    connection.send_head(method, url, &format!("{page}{length}"));
    connection.send(body.as_bytes()).unwrap();
    connection.answer()
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rest").join(format!("{name}.json"))
}

fn compare(name: &str, shape: &Value) {
    let path = golden(name);
    if std::env::var_os(RENEW_VARIABLE).is_some() {
        fs::write(&path, format!("{shape:#}\n")).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(*shape, expected, "{name} has another shape than {}", path.display());
}

/// A value with every leaf replaced by its kind, and of a list one element that has all that any has.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(number) if number.is_f64() => json!("fraction"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(values) => {
            let shapes: Vec<Value> = values.iter().map(shape).collect();
            shapes.iter().for_each(|each| assert_eq!(*each, shapes[0], "elements differ"));
            Value::Array(shapes.into_iter().take(1).collect())
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(name, value)| (name.clone(), shape(value)));
            Value::Object(entries.collect())
        }
    }
}

/// Nothing changes without somebody signed in, on any path that could.
fn changes_need_a_session(cluster: &Cluster, job: &str) {
    for daemon in [&cluster.jobtracker, &cluster.namenode] {
        let description = get(&format!("{daemon}/api/v1/openapi.json"));
        for (path, operations) in description["paths"].as_object().unwrap() {
            for method in ["PUT", "POST", "PATCH", "DELETE"] {
                if operations.get(method.to_lowercase()).is_none() {
                    continue;
                }
                let path = filled(path, job);
                let url = format!("{daemon}{path}?path=/text");
                let own = format!("Origin: {daemon}\r\nX-Hanno-Page: 1\r\n");
                for (headers, status) in [("", 403), (own.as_str(), 401)] {
                    let body = if method == "PATCH" {
                        r#"{"priority":"HIGH"}"#
                    } else if path.ends_with("/state") {
                        r#"{"state":"KILLED"}"#
                    } else {
                        ""
                    };
                    let mut connection = http::Connection::open(&url);
                    let head =
                        format!("{headers}Content-Length: {}\r\nConnection: close\r\n", body.len());
                    connection.send_head(method, &url, &head);
                    connection.send(body.as_bytes()).unwrap();
                    let answer = connection.answer();
                    assert_eq!(answer.status, status, "{method} {url}: {}", answer.text());
                }
            }
        }
    }
    assert_eq!(cluster.dfs(&["-test", "-e", "/text"]).code, 0);
}

fn metrics(cluster: &Cluster) {
    let has_library = |python: &&&str| {
        let probe = Command::new(python).args(["-c", "import prometheus_client"]).output();
        probe.is_ok_and(|probe| probe.status.success())
    };
    let Some(python) = PYTHONS.iter().find(has_library) else {
        lacks(Need::Prometheus, "no Python here has prometheus_client");
        return;
    };
    let workers = get(&format!("{}/api/v1/workers", cluster.jobtracker));
    let worker = format!("http://{}", workers[0]["http_address"].as_str().unwrap());
    let nodes = get(&format!("{}/api/v1/nodes", cluster.namenode));
    let node = format!("http://{}", nodes[0]["info"]["http_address"].as_str().unwrap());
    for daemon in [&cluster.namenode, &cluster.jobtracker, &worker, &node] {
        let text = http::request("GET", &format!("{daemon}/metrics"), b"").is(200);
        let mut child = Command::new(python)
            .args(["-c", PARSER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &text.body).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{daemon}: {errors}\n{}", text.text());
        let samples: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        assert!(samples > 5, "{daemon}: {samples}");
    }
}
