//! Views of jobs, logs and counters belong to their owners: the command line, the pages, the APIs and the workers show a job to its owner and those whom
//! the owner lets, its outline to other users, and to strangers how the cluster is. What was refused is in the audit log.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::cluster::{example_binary, hanno_binary};
use crate::support::{Cluster, Options, Outcome, http};

/// What only those may see who may look at the job: its name, its output and a key that it counted.
const SECRETS: [&str; 3] = ["acquisition", "/user/bob/merger", "goldfinger"];
/// The refusal of every look.
const REFUSAL: &str = "cannot perform operation VIEW_JOB on";

/// bob's job that carl may look at too, and one of eve's.
struct Scene {
    cluster: Cluster,
    bobs: String,
    map: String,
}

impl Scene {
    fn start(more: &[(&'static str, &str)]) -> Self {
        let mut options = Options { workers: 1, ..Options::tight() };
        let groups = "{ bob = [\"staff\"], carl = [\"auditors\"], eve = [\"staff\"] }";
        for daemon in ["NAMENODE", "JOBTRACKER"] {
            let [source, table] = match daemon {
                "NAMENODE" => ["HANNO_NAMENODE_GROUPS", "HANNO_NAMENODE_STATIC_GROUPS"],
                _ => ["HANNO_JOBTRACKER_GROUPS", "HANNO_JOBTRACKER_STATIC_GROUPS"],
            };
            options.variables.push((source, "static".to_owned()));
            options.variables.push((table, groups.to_owned()));
        }
        options.variables.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let cluster = Cluster::start(options);
        for user in ["bob", "eve"] {
            let home = format!("/user/{user}");
            cluster.dfs(&["-mkdir", "-p", &home]).ok();
            cluster.dfs(&["-chown", user, &home]).ok();
        }
        let text = tempfile::tempdir().unwrap();
        let file = text.path().join("f");
        fs::write(&file, "goldfinger a b a\n").unwrap();
        cluster.dfs(&["-put", file.to_str().unwrap(), "/text"]).ok();
        let mut scene = Scene { cluster, bobs: String::new(), map: String::new() };
        scene.bobs = scene.run(
            "bob",
            &["-D", "mapreduce.job.acl-view-job= auditors", "-D", "mapreduce.job.name=acquisition"],
            "/user/bob/merger",
        );
        scene.map = format!("{}_m_000000_0", scene.bobs.replace("job_", "attempt_"));
        scene
    }

    /// Runs a streaming job that writes to its log and counts; its id.
    fn run(&self, user: &str, properties: &[&str], output: &str) -> String {
        let script = "while read line; do echo $line; echo log of goldfinger >&2; \
                      echo reporter:counter:goldfinger,seen,1 >&2; done";
        let mapper = format!("sh -c '{script}'");
        let head = ["job", "streaming"];
        let tail = ["-input", "/text", "-output", output, "-mapper", &mapper, "-reducer", "NONE"];
        self.hanno(user, &[&head, properties, &tail].concat()).ok();
        let jobs = self.hanno(user, &["job", "-list", "all", "--json"]).ok().stdout_text();
        let jobs: Value = serde_json::from_str(&jobs).unwrap();
        let newest = jobs.as_array().unwrap().iter().find(|job| job["user"] == user).unwrap();
        newest["id"].as_str().unwrap().to_owned()
    }

    fn hanno(&self, user: &str, args: &[&str]) -> Outcome {
        let mut command = self.cluster.command(&hanno_binary(), args);
        command.env("HADOOP_USER_NAME", user);
        Outcome::of(command)
    }

    fn worker(&self) -> String {
        let file = self.cluster.directory.join("conf/worker-1.toml");
        let table: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
        format!("http://{}", table["bind"].as_str().unwrap())
    }

    /// A path of a route with bob's job in it.
    fn filled(&self, route: &str) -> String {
        let task = self.map.replace("attempt_", "task_");
        let task = task.strip_suffix("_0").unwrap();
        route
            .replace("{id}", &self.bobs)
            .replace("{job}", &self.bobs)
            .replace("{task}", task)
            .replace("{attempt}", &self.map)
            .replace("{application}", &self.bobs.replace("job_", "application_"))
            .replace("{address}", self.worker().trim_start_matches("http://"))
    }

    fn get(&self, daemon: &str, path: &str, headers: &str) -> http::Answer {
        let mut connection = http::Connection::open(daemon);
        let url = format!("{daemon}{path}");
        connection.send_head("GET", &url, &format!("{headers}Connection: close\r\n"));
        let head = connection.head();
        // Some answers are streams without an end.
        let is_stream =
            head.header("content-type").is_some_and(|kind| kind.contains("event-stream"));
        let body = if is_stream { connection.bytes(1) } else { connection.bytes(1 << 22) };
        http::Answer { body, ..head }
    }
}

fn names_secret(text: &str) -> Option<&'static str> {
    SECRETS.into_iter().find(|secret| text.contains(secret))
}

/// The routes of a daemon that the documentation lists, with whose they are.
fn routes(daemon: &str) -> Vec<(String, String)> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/routes.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(daemon)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `/"));
    let routes = rows.map(|row| {
        let mut cells = row.split(" | ");
        let path = format!("/{}", cells.next().unwrap().trim_end_matches('`'));
        (path, cells.next().unwrap().trim_end_matches(" |").to_owned())
    });
    routes.collect()
}

#[test]
fn jobs_are_shown_to_their_owners_and_those_they_let() {
    let scene = Scene::start(&[("HANNO_JOBTRACKER_HISTORY_JOB_COUNT_MAX", "1")]);
    commands(&scene, &scene.bobs);
    strangers(&scene);
    pages(&scene);
    // A job that has left the list is known by its history alone.
    scene.run("eve", &[], "/user/eve/out");
    assert_ne!(scene.hanno("bob", &["job", "-status", &scene.bobs]).code, 0, "it left the list");
    for (user, may) in [("bob", true), ("carl", true), ("tester", true), ("eve", false)] {
        let told = scene.hanno(user, &["job", "-history", &scene.bobs]);
        assert_eq!(told.code == 0, may, "{user}: {}", told.stderr);
        assert_eq!(told.stderr.contains(REFUSAL), !may, "{user}: {}", told.stderr);
        assert_eq!(names_secret(&told.stdout_text()).is_some(), may, "{user}");
    }
    audited(&scene);
}

/// Every command that looks at a job, as each user.
fn commands(scene: &Scene, job: &str) {
    let looks: [&[&str]; 7] = [
        &["job", "-status", job],
        &["job", "-counter", job, "goldfinger", "seen"],
        &["job", "-events", job, "0", "9"],
        &["job", "-list-attempt-ids", job, "MAP", "completed"],
        &["job", "-history", job],
        &["job", "-logs", job],
        &["job", "-logs", &scene.map],
    ];
    for (user, may) in [("bob", true), ("carl", true), ("tester", true), ("eve", false)] {
        for look in looks {
            let told = scene.hanno(user, look);
            let text = format!("{user} {look:?}: {} {}", told.stdout_text(), told.stderr);
            assert_eq!(told.code == 0, may, "{text}");
            assert_eq!(told.stderr.contains(REFUSAL), !may, "{text}");
            assert!(may || names_secret(&told.stdout_text()).is_none(), "{text}");
        }
        let list = scene.hanno(user, &["job", "-list", "all", "--json"]).ok().stdout_text();
        let list: Value = serde_json::from_str(&list).unwrap();
        let shown = &list.as_array().unwrap().iter().find(|shown| shown["id"] == *job).unwrap();
        assert_eq!(shown["is_outline"], !may, "{user}: {shown}");
        assert_eq!(names_secret(&shown.to_string()).is_some(), may, "{user}: {shown}");
        assert_eq!((&shown["user"], &shown["state"]), (&"bob".into(), &"SUCCEEDED".into()));
    }
    let log = scene.hanno("carl", &["job", "-logs", job]).ok().stdout_text();
    assert!(log.contains("log of goldfinger"), "{log}");
    // Who may look need not be one who may change.
    for user in ["carl", "eve"] {
        let killed = scene.hanno(user, &["job", "-kill", job]);
        assert_ne!(killed.code, 0);
        assert!(!killed.stdout_text().contains("KILLED"), "{}", killed.stdout_text());
    }
    let priority = scene.hanno("carl", &["job", "-set-priority", job, "HIGH"]);
    assert!(priority.stderr.contains("MODIFY_JOB"), "{}", priority.stderr);
}

/// Every route that the documentation lists answers strangers as it says.
fn strangers(scene: &Scene) {
    for (section, daemon) in
        [("JobTracker", scene.cluster.jobtracker.clone()), ("Workers", scene.worker())]
    {
        let routes = routes(section);
        assert!(routes.len() > 8, "{section}: {routes:?}");
        let audiences: BTreeSet<&str> = routes.iter().map(|(_, whose)| whose.as_str()).collect();
        for (route, whose) in &routes {
            let path = scene.filled(route);
            let shared = routes.iter().filter(|(other, _)| other == route).count() > 1;
            for query in ["", "?user.name=bob", "?user.name=tester&doas=bob", "?delegation=x"] {
                let answer = scene.get(&daemon, &format!("{path}{query}"), "");
                let text = answer.text();
                let told = format!("{daemon}{path}{query} ({whose}): {} {text}", answer.status);
                let secret = [names_secret(&text), text.contains(&scene.bobs).then_some("id")];
                assert_eq!(secret, [None, None], "{told}");
                match whose.as_str() {
                    "anybody" => assert!(answer.status < 400, "{told}"),
                    "users" => assert_eq!(answer.status, 401, "{told}"),
                    // On a path that users may read that answer comes first.
                    _ if shared => assert_eq!(answer.status, 401, "{told}"),
                    "signed calls" => assert!(matches!(answer.status, 401 | 405), "{told}"),
                    "users, from a page" => assert_eq!(answer.status, 405, "{told}"),
                    _ => panic!("{told}: one of {audiences:?}"),
                }
            }
        }
    }
}

/// Every route of users shows bob's job to bob and carl, and not to eve.
fn pages(scene: &Scene) {
    let [bob, carl, eve] =
        ["bob", "carl", "eve"].map(|user| scene.cluster.session("JobTracker", user));
    let jobtracker = &scene.cluster.jobtracker;
    let users = routes("JobTracker").into_iter().filter(|(_, whose)| whose == "users");
    let mut of_the_job = 0;
    for (route, _) in users {
        let query =
            if route == "/compare" { format!("?a={0}&b={0}", scene.bobs) } else { String::new() };
        let path = format!("{}{query}", scene.filled(&route));
        if route == "/stacks" {
            continue;
        }
        let seen = [&bob, &carl].map(|session| scene.get(jobtracker, &path, session));
        for answer in &seen {
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
        let answer = scene.get(jobtracker, &path, &eve);
        let text = answer.text();
        assert_eq!(names_secret(&text), None, "{path}: {text}");
        if path.contains(&scene.bobs) || path.contains("/proxy/") {
            of_the_job += 1;
            assert_eq!(answer.status, 403, "{path}: {text}");
            assert!(text.contains(REFUSAL), "{path}: {text}");
        } else {
            assert_eq!(answer.status, 200, "{path}: {text}");
        }
    }
    assert!(of_the_job > 30, "{of_the_job} routes show a job");
    let page = |path: &str, session: &str| scene.get(jobtracker, path, session).is(200).text();
    let log = format!("/api/v1/jobs/{}/attempts/{}/log", scene.bobs, scene.map);
    assert!(page(&log, &carl).contains("log of goldfinger"));
    assert!(!page(&format!("{log}?stream=stdout"), &carl).contains("goldfinger"));
    for path in ["/", "/jobs"] {
        assert!(page(path, &bob).contains("acquisition"), "{path}");
        let outline = page(path, &eve);
        assert!(outline.contains(&scene.bobs) && outline.contains("shown to its owner"), "{path}");
    }
}

/// What was changed and what was refused is on disk, with who asked from where.
fn audited(scene: &Scene) {
    let path = scene.cluster.directory.join("jobtracker-1/audit.log");
    let (bobs, from) = (&scene.bobs, "(auth:SIMPLE)\tip=/127.0.0.1");
    let wanted = [
        format!(
            "allowed=true\tugi=bob {from}\tcmd=submitJob\tjob={bobs}\targ=acquisition\tproto=rpc"
        ),
        format!("allowed=false\tugi=eve {from}\tcmd=viewJob\tjob={bobs}\targ=null\tproto=rpc"),
        format!("allowed=false\tugi=eve {from}\tcmd=viewJob\tjob={bobs}\targ=null\tproto=http"),
        format!(
            "allowed=false\tugi=carl {from}\tcmd=setJobPriority\tjob={bobs}\targ=HIGH\tproto=rpc"
        ),
        format!("allowed=false\tugi=eve {from}\tcmd=killJob\tjob={bobs}\targ=null\tproto=rpc"),
    ];
    scene.cluster.wait_until("the audit log tells all", 60, |_| {
        let log = fs::read_to_string(&path).unwrap_or_default();
        wanted.iter().all(|line| log.lines().any(|found| found.ends_with(line.as_str())))
    });
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.lines().all(|line| line.contains(" INFO JobTracker.audit: allowed=")), "{log}");
    let allowed_looks =
        log.lines().filter(|line| line.contains("allowed=true") && line.contains("viewJob"));
    assert_eq!(allowed_looks.count(), 0, "looks that were allowed are not told: {log}");
}

#[test]
fn where_names_are_believed_a_name_is_what_it_says() {
    let scene = Scene::start(&[("HANNO_JOBTRACKER_AUTH", "simple")]);
    let job = format!("{}/api/v1/jobs/{}", scene.cluster.jobtracker, scene.bobs);
    for (query, status) in [
        ("?user.name=bob", 200),
        ("?user.name=carl", 200),
        ("?user.name=tester", 200),
        ("?user.name=eve", 403),
        // Hadoop's static user of pages.
        ("", 403),
    ] {
        let answer = http::request("GET", &format!("{job}{query}"), b"");
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
    // A worker asks for a signature all the same: names are the JobTracker's to believe.
    let log = format!("{}/logs/{}?user.name=bob", scene.worker(), scene.map);
    http::request("GET", &log, b"").is(401);
    let overview = http::request("GET", &scene.cluster.jobtracker, b"").is(200).text();
    assert!(overview.contains("may act as anybody"), "{overview}");
    // A driver's own look at its job goes by the same rule.
    let mut wordcount =
        scene.cluster.command(&example_binary("wordcount"), &["/text", "/user/eve/counts"]);
    wordcount.env("HADOOP_USER_NAME", "eve");
    Outcome::of(wordcount).ok();
}
