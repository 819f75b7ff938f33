//! The pages in a real browser, on a real cluster: everything is there, it moves by itself, it can be acted on by who is signed in and by
//! nobody else, and no text becomes more than text.
//!
//! With `HANNO_SCREENSHOTS=DIR` every page is also kept there as a picture, light and dark.

mod axe;
mod chromium;
mod files;
mod large;
mod pictures;
mod png;
mod stage;
mod steady;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use self::chromium::Browser;
use self::pictures::Pictures;
use self::stage::Stage;
use crate::support::http;

/// A name that would raise a dialog if it were drawn as markup.
const HOSTILE: &str = "\"><img src=x onerror=alert(1)>";
/// Size of a window on a desk.
const DESK: (u32, u32) = (1280, 860);

#[test]
fn people_see_and_steer_the_cluster_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    browser.appear(DESK, false);
    let mut stage = Stage::start();
    let pictures = Pictures::from_environment(&stage.cluster.directory);
    without_a_session(&stage, &browser);
    browser.open(&stage.login("JobTracker"));
    browser.open(&stage.login("NameNode"));
    files(&stage, &browser, &pictures);
    files::files_are_changed(&stage, &browser, &pictures);
    snapshots(&stage, &browser, &pictures);
    cluster(&stage, &browser, &pictures);
    steady::refusals_are_pages(&stage, &browser, &pictures);
    finished_jobs(&stage, &browser, &pictures);
    steady::tables_are_sorted(&stage, &browser);
    steady::the_navigation_can_be_skipped(&stage, &browser);
    steady::charts_grow(&stage, &browser, &pictures);
    let running = stage.start_waiting(HOSTILE, "first");
    steady::updates_leave_people_alone(&stage, &browser, &running);
    a_running_job(&stage, &browser, &pictures, &running);
    let victim = stage.start_waiting("to be killed", "second");
    foreign_pages_change_nothing(&stage, &browser, &victim);
    kill(&stage, &browser, &victim);
    signing_out(&stage, &browser);
    steady::a_lost_daemon_is_told(&stage, &browser, &pictures);
    assert_eq!(pictures.wanting(), Vec::<String>::new());
}

/// Everybody may see how the cluster is; nothing is offered that would change something, and a session cannot be guessed.
fn without_a_session(stage: &Stage, browser: &Browser) {
    for (daemon, path) in [
        (&stage.cluster.jobtracker, "/"),
        (&stage.cluster.jobtracker, "/workers"),
        (&stage.cluster.namenode, "/"),
        (&stage.cluster.namenode, "/datanodes"),
    ] {
        browser.open(&format!("{daemon}{path}"));
        browser.wait_text("read-only");
        let buttons = browser.script("return document.querySelectorAll('[data-method]').length");
        assert_eq!(buttons, 0, "{path}");
        browser.assert_quiet(path);
    }
    // What is in the cluster is not shown, and how to see it is.
    for path in ["/jobs", &format!("/jobs/{}", stage.succeeded), "/queues", "/about"] {
        browser.open(&format!("{}{path}", stage.cluster.jobtracker));
        browser.wait_text("hanno admin open");
        let text = browser.script("return document.body.innerText").to_string();
        assert!(!text.contains("wordcount") && !text.contains("hanno.jobtracker."), "{text}");
    }
    for path in ["/browse?path=/texts", "/snapshots", "/about"] {
        browser.open(&format!("{}{path}", stage.cluster.namenode));
        browser.wait_text("how to sign in");
        assert!(!browser.script("return document.body.innerText").to_string().contains("second"));
    }
    browser.complaints();
    browser
        .open(&format!("{}/login?user=tester&proof=Hanno-2.client.1.0.0", stage.cluster.namenode));
    browser.wait_text("This link is not good");
    // A refusal is an answer like any other, except to the browser's own log.
    browser.complaints();
    let link = stage.login("NameNode");
    browser.open(&link);
    browser.wait_text("tester");
    browser.click("header button[data-url='/logout']");
    browser.wait_text("read-only");
    browser.open(&link);
    browser.wait_text("This link was used before");
    browser.complaints();
}

fn browse(stage: &Stage, path: &str) -> String {
    let path: String = path.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("{}/browse?path={path}", stage.cluster.namenode)
}

/// Lists, makes, uploads, reads, deletes.
fn files(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    browser.open(&browse(stage, "/"));
    browser.wait_text(HOSTILE);
    pictures.take(browser, "namenode-files");
    browser.open(&browse(stage, &format!("/{HOSTILE}/{HOSTILE}")));
    browser.click("a[href$='preview=head']");
    browser.wait("the preview", "document.querySelector('pre.preview')");
    assert_eq!(browser.script("return document.querySelector('pre.preview').innerText"), HOSTILE);
    browser.assert_quiet("a hostile file");

    browser.open(&browse(stage, "/"));
    browser.type_into("form[data-make] input", "by hand");
    browser.click("form[data-make] button");
    browser.wait_text("by hand/");
    let upload = stage.scripts.join("upload & more.txt");
    let text = "a line\n".repeat(20_000);
    fs::write(&upload, &text).unwrap();
    browser.open(&browse(stage, "/by hand"));
    browser.type_into("form[data-upload] input[type=file]", upload.to_str().unwrap());
    browser.click("form[data-upload] button");
    browser.wait(
        "the uploaded file",
        "document.querySelector('td a')?.innerText === 'upload & more.txt'",
    );
    let cat = stage.cluster.dfs(&["-cat", "/by hand/upload & more.txt"]).ok();
    assert!(cat.stdout == text.as_bytes(), "{} bytes", cat.stdout.len());
    // A second time the file is in the way, and that is told.
    browser.type_into("form[data-upload] input[type=file]", upload.to_str().unwrap());
    browser.click("form[data-upload] button");
    browser
        .wait("a dialog", "document.querySelector('dialog')?.innerText.includes('already exists')");
    browser.click("dialog button");
    browser.complaints();

    browser.click("td a");
    browser.wait_text("First 64 KiB");
    let download = browser.script("return document.querySelector('a[download]').href");
    let download = download.as_str().unwrap();
    http::request("GET", download, b"").is(401);
    let cookies = format!("Cookie: {}\r\n", browser.cookies());
    let answer = http::request_with("GET", download, &cookies, b"").is(307);
    let data = http::request("GET", answer.header("location").unwrap(), b"").is(200);
    assert!(data.body == text.as_bytes());
    browser.click("#change summary");
    browser.click("#change button.danger");
    browser.wait_text("for good and not to the trash?");
    browser.click("dialog button:first-of-type");
    browser.wait("the dialog is gone", "!document.querySelector('dialog')");
    assert_eq!(stage.cluster.dfs(&["-test", "-e", "/by hand/upload & more.txt"]).code, 0);
    browser.confirm("#change button.danger", "for good and not to the trash?");
    browser.wait_text("Nothing is here.");
    assert_eq!(stage.cluster.dfs(&["-test", "-e", "/by hand/upload & more.txt"]).code, 1);
    browser.assert_quiet("the browser of files");

    browser.open(&browse(stage, "/texts/first"));
    let drawn = browser.script("return document.querySelectorAll('svg .block.good').length");
    assert!(drawn.as_u64() >= Some(10), "{drawn}");
    pictures.take(browser, "namenode-file");
    browser.assert_quiet("a file");
}

fn snapshots(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    browser.open(&format!("{}/snapshots", stage.cluster.namenode));
    browser.wait_text("/shared");
    browser.click("td a");
    browser.wait_text("tuesday");
    browser.script("document.querySelector('select[name=to]').value = 'tuesday'");
    browser.click("form.filter button");
    for text in ["+ created", "− deleted"] {
        browser.wait_text(text);
    }
    pictures.take(browser, "namenode-snapshots");
    browser.assert_quiet("snapshots");
}

/// Overviews, nodes, queues, workers.
fn cluster(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    let (namenode, jobtracker) = (&stage.cluster.namenode, &stage.cluster.jobtracker);
    for (url, text, name) in [
        (format!("{namenode}/"), "live DataNodes", "namenode-overview"),
        (format!("{namenode}/datanodes"), "Last heard of", "namenode-datanodes"),
        (format!("{jobtracker}/workers"), "Max slots", "jobtracker-workers"),
        (format!("{namenode}/about"), "hanno.namenode.", "namenode-about"),
        (format!("{jobtracker}/about"), "hanno.jobtracker.", "jobtracker-about"),
        (format!("{jobtracker}/login"), "hanno admin open", "login"),
    ] {
        browser.open(&url);
        browser.wait_text(text);
        pictures.take(browser, name);
        browser.assert_quiet(name);
    }
    browser.open(&format!("{jobtracker}/workers"));
    browser.click("td a[href^='/workers/']");
    browser.wait_text("Nothing runs there.");
    pictures.take(browser, "jobtracker-worker");
    browser.assert_quiet("a worker");
    browser.open(&format!("{namenode}/datanodes"));
    browser.click("td a[href^='/datanodes/']");
    browser.wait_text("in service");
    browser.wait_text("Nothing went wrong there");
    pictures.take(browser, "namenode-datanode");
    browser.assert_quiet("a DataNode");
    // The overview follows the cluster without being loaded again.
    browser.open(&format!("{namenode}/"));
    browser.script("window.unmoved = true");
    let before = browser.script("return document.querySelector('.tile b').innerText");
    stage.cluster.dfs(&["-mkdir", "/while-someone-looks"]).ok();
    browser
        .wait("a new count", &format!("document.querySelector('.tile b').innerText !== {before}"));
    assert_eq!(browser.script("return window.unmoved"), true);
}

/// A job that succeeded, one that failed, the list of them with its filters, a comparison.
fn finished_jobs(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    let jobs = format!("{}/jobs", stage.cluster.jobtracker);
    browser.open(&format!("{jobs}?state=failed"));
    assert_eq!(browser.script("return document.querySelectorAll('tbody tr').length"), 1);
    assert!(browser.text().contains(&stage.failed));
    browser.open(&jobs);
    assert_eq!(browser.script("return document.querySelectorAll('tbody tr').length"), 4);
    // The key for searching comes to the field of the page.
    browser.type_into("body", "/");
    let active = browser.script("return document.activeElement.name");
    assert_eq!(active, "q");
    browser.type_into("main input[name=q]", "poison");
    browser.click("form.filter button");
    browser.wait("one job", "document.querySelectorAll('tbody tr').length === 1");
    assert!(browser.script("return location.search").as_str().unwrap().contains("q=poison"));
    browser.open(&jobs);
    pictures.take(browser, "jobtracker-jobs");

    browser.open(&format!("{jobs}/{}", stage.succeeded));
    browser.wait_text("Bytes per partition");
    pictures.take(browser, "jobtracker-job");
    browser.click("#counters summary");
    browser.wait_text("MAP_INPUT_RECORDS");
    browser.open(&format!("{jobs}/{}/report.html", stage.succeeded));
    browser.open(&format!("{jobs}/{}", stage.succeeded));
    browser.click("a[href^='/compare']");
    browser.wait_text("Counters that differ");
    pictures.take(browser, "jobtracker-compare");

    browser.open(&format!("{jobs}/{}", stage.skewed));
    browser.wait_text("Hot keys");
    let key = browser.script("return document.querySelector('td.wide code').innerText");
    assert_eq!(key, HOSTILE, "the key that most records have, as text");
    browser.wait_text("Where the time went");
    browser.wait("a reduce in the shuffle", "document.querySelector('.area-shuffle')");
    pictures.take(browser, "jobtracker-job-skewed");
    browser.open(&format!("{jobs}/{}/attempts?kind=reduce&state=SUCCEEDED", stage.skewed));
    browser.click("tbody a");
    browser.wait_text("Phases");
    pictures.take(browser, "jobtracker-attempt-reduce");

    browser.open(&format!("{jobs}/{}", stage.failed));
    browser.wait_text("this line is poison");
    browser.wait_text("hanno job replay attempt_");
    pictures.take(browser, "jobtracker-job-failed");
    browser.click("main p a[href*='/attempts/attempt_']");
    browser.wait_text("about to fail");
    browser.open(&format!("{jobs}/{}/attempts?state=FAILED", stage.failed));
    pictures.take(browser, "jobtracker-attempts");
    browser.click("tbody a");
    browser.wait_text("about to fail");
    browser.wait_text("Ended in");
    browser.wait_text("map ");
    pictures.take(browser, "jobtracker-attempt");
    browser.click("p.crumbs a:last-of-type");
    browser.wait_text("Beside the other tasks");
    pictures.take(browser, "jobtracker-task");
    browser.assert_quiet("finished jobs");
}

/// Progress and log move by themselves, priority and attempts can be changed, hostile texts stay texts.
fn a_running_job(stage: &Stage, browser: &Browser, pictures: &Pictures, id: &str) {
    let jobtracker = &stage.cluster.jobtracker;
    browser.open(&format!("{jobtracker}/"));
    browser.wait_text(HOSTILE);
    pictures.take(browser, "jobtracker-overview");
    browser.open(&format!("{jobtracker}/queues"));
    browser.wait_text("wanted besides");
    pictures.take(browser, "jobtracker-queues");
    browser.assert_quiet("overview and queues");

    let job = format!("{jobtracker}/jobs/{id}");
    browser.open(&format!("{job}/attempts?state=RUNNING"));
    browser.wait("the phase of an attempt", "/map \\d+%/.test(document.body.innerText)");
    browser.click("tbody a");
    browser.wait_text("Phase");
    browser.wait_text(HOSTILE);
    let lines = "document.querySelector('pre.log').innerText.split('still waiting').length";
    let before = browser.script(&format!("return {lines}"));
    browser.wait("the log follows", &format!("{lines} > {before}"));
    let attempt = browser.script("return document.querySelector('h1').innerText");
    let attempt_id = attempt.as_str().unwrap();
    assert_eq!(put_state(browser, id, attempt_id, "FAILED"), 400);
    browser.complaints();
    browser.click("main button.danger");
    browser.click("dialog button.danger");
    browser.wait_text("KILLED");
    assert_eq!(put_state(browser, id, attempt_id, "KILLED"), 200);
    browser.assert_quiet("a running attempt");
    let session = stage.cluster.session("JobTracker", "tester");
    let ask = |url: &str| http::request_with("GET", url, &session, b"").is(200);
    let masters = ask(&format!("{jobtracker}/ws/v1/mapreduce/jobs")).json();
    let own =
        masters["jobs"]["job"].as_array().unwrap().iter().find(|job| job["id"] == id).unwrap();
    assert_eq!((&own["state"], &own["name"]), (&json!("RUNNING"), &json!(HOSTILE)));

    browser.open(&job);
    browser.wait_text(HOSTILE);
    pictures.take(browser, "jobtracker-job-running");
    browser.script("window.unmoved = true");
    let choose = "const each = document.querySelector('select[name=priority]'); each.value = 'VERY_HIGH'; \
                  each.dispatchEvent(new Event('change', { bubbles: true }))";
    browser.script(choose);
    browser.wait_text("VERY_HIGH priority");
    stage.open_gate("first");
    browser.wait_text("SUCCEEDED");
    assert_eq!(browser.script("return window.unmoved"), true, "the page was loaded again");
    let told = ask(&format!("{job}/live")).text();
    assert_eq!(told, "event: end\ndata: now\n\n", "an event without data would not arrive");
    browser.click("#counters summary");
    browser.wait_text(HOSTILE);
    browser.assert_quiet("a running job");
    let ids = stage.cluster.hanno(&["job", "-list-attempt-ids", id, "MAP", "killed"]).stdout_text();
    assert!(ids.contains(attempt.as_str().unwrap()), "{ids}");
}

/// Sets the state of an attempt by Hadoop's API, from the page that is open. Returns the status.
fn put_state(browser: &Browser, job: &str, attempt: &str, state: &str) -> u64 {
    let task = attempt.replace("attempt", "task");
    let task = task.rsplit_once('_').unwrap().0;
    let url = format!("/ws/v1/mapreduce/jobs/{job}/tasks/{task}/attempts/{attempt}/state");
    let body = json!(json!({ "state": state }).to_string());
    let send = format!(
        "window.answered = null; fetch('{url}', {{ method: 'PUT', headers: {{ 'x-hanno-page': '1' }}, body: {body} }})\
         .then((answer) => window.answered = answer.status)"
    );
    browser.script(&send);
    browser.wait("an answer", "window.answered");
    browser.script("return window.answered").as_u64().unwrap()
}

/// A page from elsewhere, opened by somebody who is signed in: forms and scripts of it change nothing.
fn foreign_pages_change_nothing(stage: &Stage, browser: &Browser, job: &str) {
    let (namenode, jobtracker) = (&stage.cluster.namenode, &stage.cluster.jobtracker);
    let page = format!(
        "<form id=kill method=post action='{jobtracker}/api/v1/jobs/{job}?_method=DELETE'></form>\
         <form id=cut method=post action='{namenode}/webhdfs/v1/texts/first?op=TRUNCATE&newlength=0&user.name=tester'></form>\
         <form id=out method=post action='{jobtracker}/logout'></form>"
    );
    let address = serve(page);
    for form in ["kill", "cut", "out"] {
        browser.open(&address);
        browser.script(&format!("document.getElementById('{form}').submit()"));
        browser.wait("the form was sent", &format!("location.href !== {}", json!(address)));
    }
    browser.open(&address);
    for (method, url) in [
        ("DELETE", format!("{jobtracker}/api/v1/jobs/{job}")),
        ("POST", format!("{jobtracker}/logout")),
        ("DELETE", format!("{namenode}/api/v1/files?path=/texts&recursive=true")),
    ] {
        let send = format!(
            "window.sent = null; fetch({}, {{ method: '{method}', credentials: 'include', headers: {{ 'x-hanno-page': '1' }} }})\
             .then(() => window.sent = 'answered', () => window.sent = 'refused')",
            json!(url)
        );
        browser.script(&send);
        browser.wait("an outcome", "window.sent !== null");
        assert_eq!(browser.script("return window.sent"), "refused", "{method} {url}");
    }
    browser.complaints();
    assert_eq!(stage.state(job), "RUNNING");
    let length = stage.cluster.dfs(&["-stat", "%b", "/texts/first"]).ok().stdout_text();
    assert_ne!(length.trim(), "0");
    // The same without a browser that would ask first: header and session, but another origin.
    for origin in ["http://127.0.0.1:1", "null"] {
        let mut connection = http::Connection::open(jobtracker);
        let headers = format!("Origin: {origin}\r\nX-Hanno-Page: 1\r\nContent-Length: 0\r\n");
        connection.send_head("DELETE", &format!("{jobtracker}/api/v1/jobs/{job}"), &headers);
        connection.answer().is(403);
    }
    let rebound = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    for daemon in [namenode, jobtracker] {
        let mut connection = http::Connection::open(daemon);
        connection.send(rebound.as_bytes()).unwrap();
        connection.answer().is(421);
    }
}

/// Serves one page on an address of its own, as long as the test runs.
fn serve(page: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let length = page.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {length}\r\n\r\n{page}");
        }
    });
    address
}

/// The way it is meant: a click and a question.
fn kill(stage: &Stage, browser: &Browser, job: &str) {
    browser.open(&format!("{}/jobs/{job}", stage.cluster.jobtracker));
    browser.wait_text("to be killed");
    browser.confirm("main button.danger", "What it has made so far is lost.");
    browser.wait_text("KILLED");
    assert_eq!(stage.state(job), "KILLED");
    browser.assert_quiet("kill");
}

fn signing_out(stage: &Stage, browser: &Browser) {
    browser.open(&format!("{}/", stage.cluster.jobtracker));
    browser.wait_text("tester");
    browser.click("header button[data-url='/logout']");
    browser.wait_text("read-only");
    browser.assert_quiet("signing out");
}
