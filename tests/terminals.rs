//! What others wrote, on a terminal: names, values, messages, counters and logs with sequences that terminals obey. `script` gives each command a
//! terminal of its own.

use std::path::Path;

use protocol::printable::steers;

use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome};

/// Sets the title, clears the screen, and the same in eight bits.
const EVIL: &str = "\x1b]0;owned\x07\x1b[2J\u{9b}31m";
/// Turns the direction of writing; names may hold it.
const TURN: &str = "\u{202e}";

/// Runs `hanno WORDS` on a terminal.
fn on_terminal(cluster: &Cluster, words: &[&str]) -> String {
    on_terminal_of_kind("xterm", cluster, words)
}

fn on_terminal_of_kind(kind: &str, cluster: &Cluster, words: &[&str]) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let line: Vec<String> = std::iter::once(hanno_binary().to_str().unwrap())
        .chain(words.iter().copied())
        .map(quoted)
        .collect();
    let mut command = cluster.command(Path::new("script"), &["-qec", &line.join(" "), "/dev/null"]);
    command.env("TERM", kind).env("LC_ALL", "C.UTF-8");
    let outcome = Outcome::of(command);
    // The terminal's own line ends.
    outcome.stdout_text().replace("\r\n", "\n")
}

#[test]
fn nothing_that_others_wrote_steers_a_terminal() {
    let cluster = Cluster::start(Options { datanodes: 1, workers: 1, ..Options::tight() });
    let file = format!("/evil/gnp{TURN}exe");
    cluster.dfs(&["-mkdir", "-p", &format!("/evil/{TURN}dir")]).ok();
    cluster.put_with_a_pause(&file, (b"a\nb\n", b""), || ()).ok();
    let value = EVIL.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    cluster.dfs(&["-setfattr", "-n", "user.evil", "-v", &format!("0x{value}"), &file]).ok();
    let script = format!(
        "printf '{EVIL}\\nreporter:counter:G{EVIL},N{EVIL},1\\nreporter:status:{EVIL}\\n' >&2; exit 3"
    );
    let name = format!("mapreduce.job.name={EVIL}");
    let job = [
        "job",
        "streaming",
        "-D",
        &name,
        "-D",
        "mapreduce.map.maxattempts=1",
        "--quiet",
        "-input",
        &file,
        "-output",
        "/evil-out",
        "-reducer",
        "NONE",
        "-mapper",
        &format!("sh -c \"{script}\""),
    ];
    // A terminal that knows no codes gets none, and the overview ends at once.
    for kind in ["dumb", ""] {
        for words in [["job", "top"], ["admin", "top"]] {
            let seen = on_terminal_of_kind(kind, &cluster, &words);
            assert!(seen.contains("jobs 0 running") && !seen.contains('\x1b'), "{kind}: {seen:?}");
        }
    }
    let mut shown = vec![on_terminal(&cluster, &job)];
    assert!(shown[0].contains("failed"), "{:?}", shown[0]);
    let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    let id = list.lines().last().and_then(|line| line.split('\t').next()).unwrap();
    let status = cluster.hanno(&["job", "-status", id]).ok().stdout_text();
    assert!(status.contains("\x1b]0;owned"), "into a pipe it goes as it is: {status:?}");
    let names = cluster.dfs(&["-ls", "-C", "/evil"]).ok().stdout_text();
    assert!(names.contains(TURN), "{names:?}");
    shown.extend(shown_by_commands(&cluster, &file, id));
    for text in &shown {
        assert!(!text.is_empty() && !text.contains(steers), "{text:?}");
    }
    let all = shown.concat();
    assert!(
        all.contains("\\x1b]0;owned\\x07") && all.contains("\\u{202e}"),
        "it is shown all the same"
    );
}

/// What commands show of it on a terminal.
fn shown_by_commands(cluster: &Cluster, file: &str, id: &str) -> Vec<String> {
    let mut shown = Vec::new();
    let missing = format!("/none{TURN}{EVIL}");
    for words in [
        &["dfs", "-ls", "-R", "/evil"][..],
        &["dfs", "-ls", "-C", "/evil"],
        &["dfs", "-du", "/evil"],
        &["dfs", "-count", "/evil/*"],
        &["dfs", "-find", "/evil", "-print0"],
        &["dfs", "-stat", "%n", file],
        &["dfs", "-getfattr", "-d", file],
        &["dfs", "-getfacl", file],
        &["dfs", "-checksum", file],
        &["dfs", "-ls", &missing],
        &["dfs", "-cat", &missing],
        &["dfs", "-put", &missing, "/x"],
        &["dfs", EVIL],
        &["dfs", "-rm", "-r", &format!("/evil/{TURN}dir")],
        &["dfsadmin", "-setQuota", "5", &missing],
        &["dfsadmin", EVIL],
        &["fsck", "/evil", "-files", "-blocks"],
        &["fsck", &missing],
        &["job", "-status", id],
        &["job", "-status", id, "--json"],
        &["job", "-history", id],
        &["job", "-logs", id],
        &["job", "-counter", id, EVIL, EVIL],
        &["job", "-kill", EVIL],
        &["job", "-list", "all"],
        &["job", "-list", "all", "--json"],
        &["job", "top", "--once"],
        &["queue", "-info", EVIL],
        &["getconf", "-confKey", EVIL],
        &["admin", "top", "--once"],
    ] {
        shown.push(on_terminal(cluster, words));
    }
    shown
}
