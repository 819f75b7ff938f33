//! The browser of files changes files: by keyboard, with one line of the daemon where it refuses, and an upload that is cancelled leaves nothing.

use std::fs;

use super::browse;
use super::chromium::Browser;
use super::pictures::Pictures;
use super::stage::Stage;
use super::steady::ENTER;

/// Keys that select what is in a field: Control with `a`, and Control let go.
const ALL: &str = "\u{e009}a\u{e000}";
/// Of an upload that is cancelled, and how fast it goes: it would take half a minute.
const UPLOAD_BYTES: usize = 2 << 20;
const UPLOAD_RATE: i64 = 64 << 10;

pub(super) fn files_are_changed(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    stage.cluster.dfs(&["-mkdir", "/edited"]).ok();
    stage.put("/edited/a", b"\x1b[31mred\x00\n");
    browser.open(&browse(stage, "/edited/a"));
    browser.click("#change summary");
    browser.wait("the forms", "document.querySelector('#change').open");
    pictures.take(browser, "namenode-file-changes");
    by_keyboard(stage, browser);
    a_lost_answer_is_asked_for_again(stage, browser);
    a_refusal_is_told(stage, browser);
    previews(stage, browser, pictures);
    to_the_trash(stage, browser);
    an_upload_is_cancelled(stage, browser);
}

/// Writes a field anew, and sends its form.
fn set(browser: &Browser, name: &str, value: &str) {
    browser.type_into(&format!("#change input[name={name}]"), &format!("{ALL}{value}{ENTER}"));
}

fn by_keyboard(stage: &Stage, browser: &Browser) {
    set(browser, "mode", "600");
    browser.wait_text("-rw-------");
    set(browser, "owner", "ann");
    browser.wait_text("ann:");
    set(browser, "group", "staff");
    browser.wait_text("ann:staff");
    set(browser, "replication", "1");
    let wanted = "[...document.querySelectorAll('.tile')].some((tile) => /^1\\s+replicas wanted$/.test(tile.innerText))";
    browser.wait("one replica", wanted);
    set(browser, "to", "/edited/b");
    browser.wait("its page", "location.search === '?path=%2Fedited%2Fb'");
    let stat = stage.cluster.dfs(&["-stat", "%a %u %g %r", "/edited/b"]).ok().stdout_text();
    assert_eq!(stat.trim(), "600 ann staff 1");
    assert_eq!(stage.cluster.dfs(&["-test", "-e", "/edited/a"]).code, 1);
    browser.assert_quiet("changes of a file");
}

/// The change was made and its answer lost: sent again, it is answered as the first time.
fn a_lost_answer_is_asked_for_again(stage: &Stage, browser: &Browser) {
    browser.click("#change summary");
    browser.script(
        "const whole = window.fetch;
         let isLost = false;
         window.fetch = async (url, options) => {
             const answer = await whole(url, options);
             if (!isLost && options.method === 'POST') {
                 isLost = true;
                 throw new TypeError('lost');
             }
             return answer;
         }",
    );
    set(browser, "to", "/edited/c");
    browser.wait("its page", "location.search === '?path=%2Fedited%2Fc'");
    assert_eq!(stage.cluster.dfs(&["-test", "-e", "/edited/c"]).code, 0);
    browser.assert_quiet("a lost answer");
    browser.click("#change summary");
    set(browser, "to", "/edited/b");
    browser.wait("its page", "location.search === '?path=%2Fedited%2Fb'");
}

fn a_refusal_is_told(stage: &Stage, browser: &Browser) {
    browser.click("#change summary");
    set(browser, "to", "/texts/first");
    browser.wait("a dialog", "document.querySelector('dialog')");
    let told = browser.script("return document.querySelector('dialog p').innerText");
    assert_eq!(told, "rename destination /texts/first already exists");
    let focused = "document.activeElement === document.querySelector('dialog button')";
    assert_eq!(browser.script(&format!("return {focused}")), true);
    browser.type_into("dialog button", ENTER);
    browser.wait("the dialog is gone", "!document.querySelector('dialog')");
    assert_eq!(stage.cluster.dfs(&["-test", "-e", "/edited/b"]).code, 0);
    browser.complaints();
}

fn previews(stage: &Stage, browser: &Browser, pictures: &Pictures) {
    browser.click("a[href$='preview=tail']");
    browser.wait("the preview", "document.querySelector('pre.preview')");
    let shown = browser.script("return document.querySelector('pre.preview').textContent");
    assert_eq!(shown, "\\x1b[31mred\\x00\n");
    stage.put("/edited/records", b"SEQ\x06\x01k\x01v");
    browser.open(&format!("{}&preview=head", browse(stage, "/edited/records")));
    browser.wait_text("This is a SequenceFile");
    browser.wait_text("hdfs dfs -text '/edited/records'");
    pictures.take(browser, "namenode-preview");
    browser.assert_quiet("previews");
    stage.cluster.dfs(&["-rm", "-skipTrash", "/edited/records"]).ok();
}

fn to_the_trash(stage: &Stage, browser: &Browser) {
    browser.open(&browse(stage, "/edited/b"));
    browser.type_into("main .tools button.danger", ENTER);
    browser.wait_text("Move the file to your trash");
    browser.type_into("dialog button.danger", ENTER);
    browser.wait_text("Nothing is here.");
    let trashed = "/user/tester/.Trash/Current/edited/b";
    assert_eq!(stage.cluster.dfs(&["-test", "-e", trashed]).code, 0);
    assert_eq!(stage.cluster.dfs(&["-test", "-e", "/edited/b"]).code, 1);
    browser.assert_quiet("the trash");
}

fn an_upload_is_cancelled(stage: &Stage, browser: &Browser) {
    let file = stage.scripts.join("large");
    fs::write(&file, vec![b'x'; UPLOAD_BYTES]).unwrap();
    browser.type_into("form[data-upload] input[type=file]", file.to_str().unwrap());
    browser.send_at(UPLOAD_RATE);
    browser.type_into("form[data-upload] button", ENTER);
    browser.wait_text("1 of 1: large");
    let listed = || stage.cluster.dfs(&["-ls", "-C", "/edited"]).ok().stdout_text();
    let is_under_way = || listed().contains("._COPYING_");
    stage.cluster.wait_until("the upload is under way", 60, |_| is_under_way());
    browser.type_into("form[data-upload] button[data-cancel]", ENTER);
    browser.wait_text("The upload was cancelled.");
    browser.type_into("dialog button", ENTER);
    browser.send_at(-1);
    stage.cluster.wait_until("nothing of it is left", 60, |_| listed().trim().is_empty());
    let is_ready = "!document.querySelector('form[data-upload] button').disabled && document.querySelector('form[data-upload] progress').hidden";
    browser.wait("the form can be used again", is_ready);
    browser.complaints();
}
