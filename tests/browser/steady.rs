//! Pages that stay open: updates leave alone what somebody is doing, tables keep the order that was chosen, and a page that lost its daemon says so and
//! comes back by itself.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::chromium::Browser;
use super::pictures::Pictures;
use super::stage::Stage;

/// Keys, as WebDriver names them.
pub(super) const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";

/// What `what` is on the page that is open, before and after something changes it.
struct Kept<'a>(&'a Browser);

impl Kept<'_> {
    /// Marks the elements that must stay the same.
    fn begin(&self) {
        self.0.script(
            "window.choice = document.querySelector('select[name=priority]');
             window.heading = document.querySelector('h1').firstChild;
             document.querySelector('#configuration').open = true;
             choice.focus();
             getSelection().selectAllChildren(document.querySelector('h1'));
             choice.value = 'VERY_LOW';
             scrollTo(0, 120)",
        );
    }

    fn assert(&self) {
        for (what, expression) in [
            ("the element", "choice.isConnected && heading.isConnected"),
            ("the focus", "document.activeElement === choice"),
            ("what is being chosen", "choice.value === 'VERY_LOW'"),
            ("an open section", "document.querySelector('#configuration').open"),
            ("the place on the page", "scrollY === 120"),
            ("selected text", "String(getSelection()) === heading.data"),
        ] {
            assert_eq!(self.0.script(&format!("return {expression}")), true, "{what} is lost");
        }
    }
}

/// Somebody is about to choose a priority, has opened a section, scrolled and selected text, and the job changes.
pub(super) fn updates_leave_people_alone(stage: &Stage, browser: &Browser, job: &str) {
    browser.open(&format!("{}/jobs/{job}", stage.cluster.jobtracker));
    browser.wait("the page listens", "source && source.readyState === EventSource.OPEN");
    let kept = Kept(browser);
    kept.begin();
    stage.cluster.hanno(&["job", "-set-priority", job, "HIGH"]).ok();
    browser.wait_text("HIGH priority");
    kept.assert();
    browser.assert_quiet("a page that somebody works on");
}

/// A click sorts, a second one the other way round, a third restores; an update keeps the order.
pub(super) fn tables_are_sorted(stage: &Stage, browser: &Browser) {
    browser.open(&format!("{}/jobs", stage.cluster.jobtracker));
    let column = |cell: u32| {
        let names = format!(
            "return [...document.querySelectorAll('tbody tr')].map((row) => row.cells[{cell}].innerText)"
        );
        browser.script(&names)
    };
    let before = column(2);
    let mut names: Vec<String> = serde_json::from_value(before.clone()).unwrap();
    names.sort_by_key(|name| name.to_lowercase());
    browser.click("th:nth-of-type(3) button.sort");
    assert_eq!(column(2), json!(names));
    assert_eq!(
        browser.script("return document.querySelector('[aria-sort]').ariaSort"),
        "ascending"
    );
    browser.script("document.dispatchEvent(new Event('stale'))");
    browser.wait("an update", "pending === null");
    assert_eq!(column(2), json!(names), "an update loses the order");
    // The keyboard does the same, and stays where it is.
    let name = "th:nth-of-type(3) button.sort";
    browser.type_into(name, ENTER);
    let focus = format!("document.activeElement === document.querySelector({})", json!(name));
    assert_eq!(browser.script(&format!("return {focus}")), true, "the focus is lost");
    assert_eq!(
        browser.script("return document.querySelector('[aria-sort]').ariaSort"),
        "descending"
    );
    names.reverse();
    assert_eq!(column(2), json!(names));
    browser.click(name);
    assert_eq!(column(2), before);
    assert_eq!(browser.script("return document.querySelector('[aria-sort]')"), json!(null));
    // Numbers by what they mean.
    let order = |texts: &[&str]| browser.script(&format!("return {}.sort(compare)", json!(texts)));
    let sorted = ["850 ms", "1.3 s", "4 min 05 s", "2 h 10 min", "none", ""];
    assert_eq!(order(&["", "2 h 10 min", "none", "1.3 s", "850 ms", "4 min 05 s"]), json!(sorted));
    let sorted = ["0 B", "812 B", "1.5 KiB", "1.0 GiB"];
    assert_eq!(order(&["1.0 GiB", "812 B", "1.5 KiB", "0 B"]), json!(sorted));
    let sorted = ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"];
    assert_eq!(order(&[sorted[2], sorted[0], sorted[1]]), json!(sorted));
    let sorted = ["10.0.0.9:1", "10.0.0.10:1"];
    assert_eq!(order(&[sorted[1], sorted[0]]), json!(sorted));
    browser.assert_quiet("sorting");
}

/// The first stop of the keyboard leads past the navigation.
pub(super) fn the_navigation_can_be_skipped(stage: &Stage, browser: &Browser) {
    for daemon in [&stage.cluster.namenode, &stage.cluster.jobtracker] {
        browser.open(&format!("{daemon}/"));
        browser.type_into("body", TAB);
        assert_eq!(browser.script("return document.activeElement.className"), "skip");
        browser.type_into("a.skip", ENTER);
        browser.wait("the content has the focus", "document.activeElement.id === 'content'");
    }
    browser.assert_quiet("skipping the navigation");
}

/// Both overviews and the pages of the nodes have charts of the last hour, with their numbers as text, and a page that stays open gets each new point.
pub(super) fn charts_grow(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    let (namenode, jobtracker) = (&stage.cluster.namenode, &stage.cluster.jobtracker);
    // From the list of nodes to one of them, and to where that one's own page is.
    let own_page = |list: &str, row: &str| {
        browser.open(list);
        browser.click(row);
        browser.wait("its own page", "document.querySelector('main a[href^=http]')");
        let page = browser.script("return document.querySelector('main a[href^=http]').href");
        page.as_str().unwrap().to_owned()
    };
    let datanode = own_page(&format!("{namenode}/datanodes"), "td a[href^='/datanodes/']");
    let worker = own_page(&format!("{jobtracker}/workers"), "td a[href^='/workers/']");
    for (page, name, charts_min) in [
        (namenode, "", 4),
        (jobtracker, "", 4),
        (&datanode, "datanode-overview", 11),
        (&worker, "worker-overview", 12),
    ] {
        browser.open(page);
        let lines = "[...document.querySelectorAll('.chart svg .line')].map((line) => line.getAttribute('d'))";
        browser.wait("there are charts", &format!("{lines}.length >= {charts_min}"));
        let labels = "[...document.querySelectorAll('.chart svg')].map((chart) => chart.ariaLabel)";
        let named = format!(
            "{labels}.every((label) => / in the last hour: now .+, at least /.test(label))"
        );
        assert_eq!(browser.script(&format!("return {named}")), true, "a chart says nothing");
        browser.script(&format!("window.drawn = String({lines}); window.unmoved = true"));
        browser.wait("a new point", &format!("String({lines}) !== drawn"));
        assert_eq!(browser.script("return window.unmoved"), true, "the page was loaded again");
        if !name.is_empty() {
            pictures.take(browser, name);
        }
    }
    browser.assert_quiet("charts");
}

/// The daemon is killed, and then hangs. Each time the page says so, and is right again once the daemon is back.
pub(super) fn a_lost_daemon_is_told(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    let cluster = &stage.cluster;
    browser.open(&format!("{}/", cluster.jobtracker));
    browser.wait("the page listens", "source && source.readyState === EventSource.OPEN");
    browser.script(
        "window.unmoved = true; window.told = [];
         const note = document.getElementById('connection');
         new MutationObserver(() => told.push(note.textContent)).observe(note, { childList: true })",
    );
    cluster.kill("jobtracker-1");
    browser.wait("the page says it", "told.some((text) => text.startsWith('No connection since'))");
    browser.wait("it is right again", "document.getElementById('connection').hidden");
    cluster.wait_healthy(60);

    let pid = cluster.pid("jobtracker-1").expect("it runs again");
    let signal = |signal| {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    };
    browser.wait("the page listens", "source && source.readyState === EventSource.OPEN");
    signal(Signal::STOP);
    browser.wait_text("No word from the server since");
    pictures.take(browser, "jobtracker-lost");
    signal(Signal::CONT);
    browser.wait("it is right again", "document.getElementById('connection').hidden");
    assert_eq!(browser.script("return window.unmoved"), true, "the page was loaded again");
    // Failed requests are in the browser's own log.
    browser.complaints();
}

/// What is not there, or not for everybody, is a page with a way back.
pub(super) fn refusals_are_pages(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    let (namenode, jobtracker) = (&stage.cluster.namenode, &stage.cluster.jobtracker);
    for url in [
        format!("{jobtracker}/no/such/page"),
        format!("{jobtracker}/jobs/job_202001010000_0001"),
        format!("{jobtracker}/workers/nowhere:1"),
        format!("{namenode}/no-such-page"),
    ] {
        browser.open(&url);
        browser.wait_text("There is no such page");
        pictures.take(browser, "refusal");
        browser.click("main a[href='/']");
        browser.wait("the overview", "document.querySelector('nav a[aria-current]')");
    }
    browser.complaints();
}
