//! Addresses in options, properties, files and paths: each acts on the cluster that it names, or is an error that names it. Two clusters
//! stand side by side, so that a command on the wrong one shows.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::cluster::{Ports, example_binary, hanno_binary};
use crate::support::{Cluster, Options, Outcome, data};

/// One DataNode and one worker are enough: what counts is which cluster acts.
fn small() -> Options {
    Options { datanodes: 1, workers: 1, ..Options::tight() }
}

fn authority(cluster: &Cluster) -> &str {
    cluster.namenode.trim_start_matches("http://")
}

/// Everything that a command on the wrong cluster could have changed.
fn state(cluster: &Cluster) -> String {
    let names = cluster.dfs(&["-ls", "-R", "/"]).ok().stdout_text();
    let quotas = cluster.dfs(&["-count", "-q", "/", "/d"]).ok().stdout_text();
    format!("{names}{quotas}")
}

/// A configuration file of Hadoop's that names a file system.
fn site_file(directory: &Path, name: &str, address: &str) -> String {
    let path = directory.join(name);
    let property = format!("<name>fs.defaultFS</name><value>{address}</value>");
    fs::write(&path, format!("<configuration><property>{property}</property></configuration>"))
        .unwrap();
    path.to_str().unwrap().to_owned()
}

/// The ways to name a file system before a command.
fn named(directory: &Path, number: usize, address: &str) -> Vec<Vec<String>> {
    let file = site_file(directory, &format!("site-{number}.xml"), address);
    let property = format!("fs.defaultFS={address}");
    let ways = [vec!["-fs", address], vec!["-D", &property], vec!["-conf", &file]];
    ways.into_iter().map(|words| words.into_iter().map(str::to_owned).collect()).collect()
}

/// Arguments with which a command asks the NameNode for something; `None` for commands that do not ask it.
fn arguments(command: &str) -> Option<&'static [&'static str]> {
    Some(match command {
        "debug" => &["recoverLease", "-path", "/f"],
        "dfs" | "fs" => &["-ls", "/"],
        "dfsadmin" => &["-report"],
        "balancer" => &[],
        "distcp" => &["/a", "/b"],
        "fsck" => &["/"],
        "fetchdt" => &["token"],
        "ec" => &["-getPolicy", "-path", "/f"],
        "getconf" => &["-confKey", "fs.defaultFS"],
        "groups" => &["ann"],
        "haadmin" => &["-checkHealth", "nn1"],
        "lsSnapshottableDir" => &[],
        "lsSnapshot" => &["/d"],
        "snapshotDiff" => &["/d", "a", "b"],
        "storagepolicies" => &["-listPolicies"],
        // They ask the JobTracker, or nobody.
        "oev" | "oiv" | "job" | "queue" | "mradmin" | "jar" | "streaming" | "envvars"
        | "checknative" | "version" | "app" | "application" | "applicationattempt"
        | "container" | "logs" | "node" | "top" => {
            return None;
        }
        other => panic!("say here with which arguments {other} asks the NameNode"),
    })
}

/// Nobody listens at either address, so each command ends with an error that names the one it tried.
#[test]
fn the_directory_of_the_configuration_counts_for_every_command() {
    let ports = Ports::take();
    let [named, other] = [0, 1].map(|offset| format!("127.0.0.1:{}", ports.base + offset));
    let directory = tempfile::tempdir().unwrap();
    site_file(directory.path(), "core-site.xml", &format!("hanno://{named}"));
    let run = |program: &str, words: &[&str], by_variable: bool| {
        let mut command = Command::new(hanno_binary());
        command.arg0(program).current_dir(directory.path()).env("HOME", directory.path());
        match by_variable {
            true => command.env("HADOOP_CONF_DIR", directory.path()),
            false => {
                command.env("HANNO_NAMENODE", format!("http://{other}"));
                command.arg("--config").arg(directory.path())
            }
        };
        command.args(words);
        Outcome::of(command)
    };
    for program in ["hdfs", "hadoop", "mapred", "yarn"] {
        let usage = run(program, &[], false).stderr;
        let commands: Vec<&str> =
            usage.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        assert!(!commands.is_empty(), "{usage}");
        let check = &|command: &str| {
            let Some(arguments) = arguments(command) else { return };
            let words = [&[command], arguments].concat();
            for by_variable in [false, true] {
                let outcome = run(program, &words, by_variable);
                let said = format!("{}{}", outcome.stderr, outcome.stdout_text());
                let is_right = said.contains(&named) && !said.contains(&other);
                assert!(is_right, "{program} {words:?}: {said}");
            }
        };
        // Each waits for a daemon that is not there.
        thread::scope(|scope| {
            for command in commands {
                let command = command.split_whitespace().next().unwrap();
                scope.spawn(move || check(command));
            }
        });
    }
}

#[test]
fn a_directory_of_the_configuration_that_is_none_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let mut command = Command::new(hanno_binary());
    command.arg0("hdfs").arg("version").env("HOME", directory.path());
    command.env("HADOOP_CONF_DIR", &missing);
    let outcome = Outcome::of(command);
    let text = format!("HADOOP_CONF_DIR names {}, which is no directory", missing.display());
    assert!(outcome.stderr.contains(&text), "{}", outcome.stderr);
    assert!(outcome.stdout_text().starts_with("Hadoop "), "{}", outcome.stdout_text());
}

/// A cluster's files get what the properties of the directory say, unless the command says otherwise.
#[test]
fn properties_of_the_directory_count() {
    let cluster = Cluster::start(small());
    let directory = tempfile::tempdir().unwrap();
    let site = |name: &str, properties: &str| {
        let text = format!("<configuration>{properties}</configuration>");
        fs::write(directory.path().join(name), text).unwrap();
    };
    let address = format!("hanno://{}", authority(&cluster));
    site(
        "core-site.xml",
        &format!(
            "<property><name>fs.defaultFS</name><value>{address}</value></property>\
         <property><name>fs.permissions.umask-mode</name><value>u=rwx,g=rx,o=</value></property>"
        ),
    );
    site(
        "hdfs-site.xml",
        "<property name='dfs.replication' value='2'/>\
         <property><name>dfs.blocksize</name><value> 2m </value></property>",
    );
    let run = |words: &[&str]| {
        let words = [&["--config", directory.path().to_str().unwrap(), "dfs"], words].concat();
        let mut command = cluster.command(&hanno_binary(), &words);
        command.arg0("hdfs").env_remove("HANNO_NAMENODE");
        Outcome::of(command)
    };
    let stat = |path: &str| run(&["-stat", "%r %o %a", path]).ok().stdout_text();
    run(&["-touchz", "/a"]).ok();
    assert_eq!(stat("/a"), "2 2097152 640\n");
    run(&["-D", "dfs.replication=1", "-D", "fs.permissions.umask-mode=0", "-touchz", "/b"]).ok();
    assert_eq!(stat("/b"), "1 2097152 666\n");
    // Half a file says nothing, and neither does one of another form.
    for (text, part) in [("<configuration><property>", "is not closed"), ("{}", "stands outside")] {
        fs::write(directory.path().join("hdfs-site.xml"), text).unwrap();
        let outcome = run(&["-touchz", "/c"]);
        assert_ne!(outcome.code, 0, "{outcome:?}");
        assert!(
            outcome.stderr.contains("hdfs-site.xml") && outcome.stderr.contains(part),
            "{outcome:?}"
        );
    }
    assert_eq!(cluster.dfs(&["-test", "-e", "/c"]).code, 1);
}

/// Commands that change or tell something of `/d`, with where the generic options go.
fn commands<'a>(options: &[&'a str]) -> Vec<Vec<&'a str>> {
    let tail: [&[&str]; 7] = [
        &["dfs", "-mkdir", "-p", "/d/made"],
        &["dfs", "-rm", "-r", "-f", "-skipTrash", "/d/made"],
        &["dfsadmin", "-setQuota", "77", "/d"],
        &["dfsadmin", "-clrQuota", "/d"],
        &["fsck", "/d"],
        &["getconf", "-confKey", "fs.defaultFS"],
        &["balancer"],
    ];
    tail.iter().map(|words| [&words[..1], options, &words[1..]].concat()).collect()
}

#[test]
fn file_systems_are_reached_or_refused() {
    let (mine, other) = (Cluster::start(small()), Cluster::start(small()));
    let local = tempfile::tempdir().unwrap();
    for cluster in [&mine, &other] {
        cluster.dfs(&["-mkdir", "/d"]).ok();
        cluster.dfs(&["-touchz", "/d/x"]).ok();
    }
    let there = authority(&other);
    let addresses = [
        format!("http://{there}"),
        there.to_owned(),
        format!("webhdfs://{there}"),
        format!("hanno://{there}/"),
    ];
    for (number, address) in addresses.iter().enumerate() {
        for way in named(local.path(), number, address) {
            let way: Vec<&str> = way.iter().map(String::as_str).collect();
            let before = state(&mine);
            for (number, words) in commands(&way).iter().enumerate() {
                let outcome = mine.hanno(words).ok();
                match number {
                    0 => drop(other.dfs(&["-test", "-d", "/d/made"]).ok()),
                    1 => assert_eq!(other.dfs(&["-test", "-d", "/d/made"]).code, 1),
                    2 => assert!(state(&other).contains(" 77 "), "{words:?}"),
                    3 => assert!(!state(&other).contains(" 77 "), "{words:?}"),
                    4 => assert!(outcome.stderr.contains(there), "{words:?}: {outcome:?}"),
                    _ => assert!(outcome.stdout_text().contains(there), "{words:?}: {outcome:?}"),
                }
                assert_eq!(state(&mine), before, "{words:?}");
            }
        }
    }
    let refused = [
        "hdfs://elsewhere",
        "hdfs://elsewhere:8020",
        "s3a://bucket",
        "foo://",
        "https://127.0.0.1:1",
        "swebhdfs://127.0.0.1:1",
        "elsewhere",
        "webhdfs://127.0.0.1:1/d",
        "file://elsewhere/",
        "viewfs:///",
    ];
    let foreign = format!("hdfs://{there}");
    let before = (state(&mine), state(&other));
    for (number, address) in refused.iter().copied().chain([&*foreign]).enumerate() {
        for way in named(local.path(), 10 + number, address) {
            let way: Vec<&str> = way.iter().map(String::as_str).collect();
            for words in commands(&way) {
                let outcome = mine.hanno(&words);
                let scheme = address.split(':').next().unwrap();
                let told = format!("{}{}", outcome.stderr, outcome.stdout_text());
                assert!(outcome.code != 0 && told.contains(scheme), "{words:?}: {outcome:?}");
                assert!(!told.contains("panicked"), "{words:?}: {outcome:?}");
            }
        }
    }
    assert_eq!((state(&mine), state(&other)), before);
    paths_that_name_another(&mine, &other);
    names_of_variables(&mine, &other, local.path());
}

/// Operands: what has no address never follows one that has.
fn paths_that_name_another(mine: &Cluster, other: &Cluster) {
    let there = format!("webhdfs://{}", authority(other));
    let here = format!("hanno://{}", authority(mine));
    let before = state(mine);
    mine.dfs(&["-mkdir", &format!("{there}/d/by-path")]).ok();
    other.dfs(&["-test", "-d", "/d/by-path"]).ok();
    mine.dfs(&["-rm", "-r", "-skipTrash", &format!("{there}/d/by-path")]).ok();
    assert_eq!(state(mine), before);
    let before = (state(mine), state(other));
    let (far, near) = (format!("{there}/d/nothing"), format!("{here}/d/nothing"));
    for words in [
        &["-rm", "-r", "-skipTrash", "/d/x", &far][..],
        &["-rm", "-r", "-skipTrash", &far, "/d/x"],
        &["-mv", &near, &format!("{there}/d/nothing")],
        &["-mv", "/d/x", &format!("{there}/d/moved")],
        &["-rm", "hdfs://elsewhere/d/x"],
        &["-rm", &format!("hdfs://{}/d/x", authority(other))],
        &["-rm", "s3a://d/x"],
    ] {
        let outcome = mine.dfs(words);
        assert!(outcome.code != 0, "{words:?}: {outcome:?}");
        assert_eq!(state(other), before.1, "{words:?}");
    }
    assert_eq!(state(mine), before.0);
    for words in [
        &["dfsadmin", "-setQuota", "5", &format!("{there}/d")][..],
        &["fsck", &format!("{there}/d")],
    ] {
        let outcome = mine.hanno(words);
        assert!(
            outcome.code != 0 && outcome.stderr.contains("Wrong FS: "),
            "{words:?}: {outcome:?}"
        );
    }
    // The names that it has.
    mine.dfs(&["-test", "-e", &format!("hdfs://{}/d/x", authority(mine))]).ok();
    let mut command =
        mine.command(&hanno_binary(), &["dfs", "-test", "-e", "hdfs://service:8020/d/x"]);
    command.env("HANNO_ALIASES", "nn, hdfs://service:8020");
    Outcome::of(command).ok();
}

/// `HANNO_NAMENODE`, `HANNO_JOBTRACKER`, `hanno.toml`.
fn names_of_variables(mine: &Cluster, other: &Cluster, directory: &Path) {
    let run = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = mine.command(&hanno_binary(), words);
        command.envs(variables.iter().copied()).current_dir(directory);
        Outcome::of(command)
    };
    for address in [authority(other).to_owned(), format!("webhdfs://{}/", authority(other))] {
        let told =
            run(&[("HANNO_NAMENODE", &address)], &["getconf", "-confKey", "fs.defaultFS"]).ok();
        assert!(told.stdout_text().contains(authority(other)), "{told:?}");
    }
    for address in
        ["hdfs://x:1", "file:///", "s3a://b", "x", "http://x", "http://x:1/d", "https://x:1"]
    {
        for words in
            [&["dfs", "-ls", "/"][..], &["fsck", "/"], &["dfsadmin", "-report"], &["job", "-list"]]
        {
            let outcome = run(&[("HANNO_NAMENODE", address)], words);
            assert!(outcome.code != 0 && outcome.stderr.contains("HANNO_NAMENODE"), "{outcome:?}");
        }
    }
    let swapped = [("HANNO_NAMENODE", &*mine.jobtracker), ("HANNO_JOBTRACKER", &*mine.namenode)];
    for words in [&["dfs", "-ls", "/"][..], &["fsck", "/"], &["job", "-list"]] {
        let outcome = run(&swapped, words);
        assert!(
            outcome.code != 0 && outcome.stderr.contains("are swapped"),
            "{words:?}: {outcome:?}"
        );
    }
    let mut job = mine.command(&example_binary("wordcount"), &["/d/x", "/d/out"]);
    let outcome = Outcome::of({
        job.envs(swapped);
        job
    });
    assert!(outcome.code == 1 && outcome.stderr.contains("are swapped"), "{outcome:?}");
}

#[test]
fn jobs_read_and_write_where_their_paths_lead() {
    let (mine, other) = (Cluster::start(small()), Cluster::start(small()));
    let local = tempfile::tempdir().unwrap();
    let text = data::text(7, 200_000);
    let expected = data::word_count(&text);
    let file = local.path().join("in put.txt");
    fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    mine.dfs(&["-mkdir", "-p", "/user/root", "/in"]).ok();
    mine.dfs(&["-put", file, "/in/text"]).ok();
    let here = authority(&mine);
    let inputs = [
        "/in".to_owned(),
        "hdfs:///in".to_owned(),
        format!("hdfs://{here}/in/text"),
        format!("webhdfs://{here}/in"),
        "hanno:/in/text".to_owned(),
        format!("file://{file}"),
        format!("file:{file}"),
    ];
    for (number, input) in inputs.iter().enumerate() {
        let output = format!("hdfs:///out-{number}");
        mine.example("wordcount", &["--reducers", "2", input, &output]).ok();
        let found = mine.dfs(&["-cat", &format!("/out-{number}/part-*")]).ok().stdout;
        assert!(data::sorted_lines(&found) == expected, "{input}");
    }
    let words = ["job", "streaming", "-mapper", "cat", "-reducer", "NONE", "-input"];
    for (number, input) in inputs.iter().enumerate() {
        let output = local.path().join(format!("out-{number}"));
        let target = format!("file://{}", output.display());
        mine.hanno(&[&words[..], &[input, "-output", &target]].concat()).ok();
        assert!(output.join("_SUCCESS").is_file());
        let parts = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<u8> = Vec::new();
        parts.for_each(|part| all.extend(fs::read(part).unwrap()));
        assert!(data::word_count(&all) == expected, "{input}");
    }
    let staged = mine.dfs(&["-ls", "-C", "-R", "/user"]).ok().stdout_text();
    assert!(!staged.lines().any(|path| path.contains(".staging/")), "{staged}");
    files_of_this_machine_are_the_same_there(&mine, local.path());
    an_output_that_cannot_be_fetched_stays(&mine, local.path());
    interrupted_while_inputs_are_copied(&mine, local.path());
    jobs_refuse_what_leads_elsewhere(&mine, &other, local.path());
}

/// Names of inputs, what is hidden in outputs, and empty paths.
fn files_of_this_machine_are_the_same_there(mine: &Cluster, local: &Path) {
    let path = |name: &str| local.join(name).display().to_string();
    for (name, text) in [("names/x", "one\n"), ("names/y", "two\n"), ("more/x", "three\n")] {
        fs::create_dir_all(Path::new(&path(name)).parent().unwrap()).unwrap();
        fs::write(path(name), text).unwrap();
    }
    let named = |place: &[&str], scheme: &str, output: &str| {
        let input = format!("{scheme}{},{scheme}{}", path("more/x"), path("names"));
        let target = format!("{scheme}{}", path(output));
        let mapper = r#"sh -c 'while read word; do echo "$word ${map_input_file##*/}"; done'"#;
        let words = ["job", "streaming", "-reducer", "NONE", "-mapper", mapper];
        let words = [&words[..], place, &["-input", &input, "-output", &target]].concat();
        mine.hanno(&words).ok();
        let parts = fs::read_dir(path(output)).unwrap().map(|entry| entry.unwrap().path());
        let mut lines: Vec<String> = parts
            .filter(|part| part.to_string_lossy().contains("part-"))
            .flat_map(|part| {
                let text = fs::read_to_string(part).unwrap();
                text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
            })
            .collect();
        lines.sort();
        lines
    };
    let here = named(&["--local"], "", "named-here");
    assert_eq!(here, ["one x", "three x", "two y"]);
    assert_eq!(named(&[], "file://", "named-there"), here);

    fs::write(path("bad"), "good\npoison\n").unwrap();
    let words = ["--skip-bad", "1", &format!("file://{}", path("bad"))];
    let target = format!("file://{}", path("skipped"));
    mine.example("poison", &[&words[..], &[&target]].concat()).ok();
    let skipped = fs::read_dir(path("skipped/_logs/skip")).unwrap().next().unwrap().unwrap();
    assert!(fs::read_to_string(skipped.path()).unwrap().contains("/bad:5\t6\tpoison"));

    let empty = "Can not create a Path from an empty string";
    let outcome = mine.example("wordcount", &["", "/no"]);
    assert!(outcome.code == 1 && outcome.stderr.contains(empty), "{outcome:?}");
    for input in ["", ",", "/in,,/in"] {
        let words = ["job", "streaming", "-mapper", "cat", "-input", input, "-output", "/no"];
        let outcome = mine.hanno(&words);
        assert!(outcome.code == 1 && outcome.stderr.contains(empty), "{outcome:?}");
    }
}

/// The name of the directory in which it is fetched would be too long for this machine.
fn an_output_that_cannot_be_fetched_stays(mine: &Cluster, local: &Path) {
    let target = local.join("x".repeat(250));
    let words = ["job", "streaming", "--quiet", "-reducer", "NONE", "-mapper", "cat"];
    let output = format!("file://{}", target.display());
    let outcome = mine.hanno(&[&words[..], &["-input", "/in", "-output", &output]].concat());
    let said = &outcome.stderr;
    assert!(outcome.code == 1 && said.contains("cannot create directory"), "{outcome:?}");
    let kept = said.split("hanno dfs -get ").nth(1).and_then(|rest| rest.split(' ').next());
    let kept = kept.unwrap_or_else(|| panic!("{outcome:?}"));
    let fetched = local.join("fetched");
    mine.dfs(&["-get", kept, fetched.to_str().unwrap()]).ok();
    assert!(fetched.join("_SUCCESS").is_file() && fetched.join("part-00000").is_file());
    mine.dfs(&["-rm", "-r", "-skipTrash", kept.rsplit_once('/').unwrap().0]).ok();
}

fn interrupted_while_inputs_are_copied(mine: &Cluster, local: &Path) {
    let many = local.join("many");
    fs::create_dir(&many).unwrap();
    (0..3000).for_each(|number| fs::write(many.join(number.to_string()), "x\n").unwrap());
    let input = format!("file://{}", many.display());
    let binary = example_binary("wordcount");
    let mut child = mine.command(&binary, &[&input, "/no"]).spawn().unwrap();
    let staged = || mine.dfs(&["-ls", "-C", "-R", "/user"]).ok().stdout_text();
    mine.wait_until("inputs are being copied", 60, |_| staged().contains("/input/0/0/1"));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!staged().contains(".staging/"), "{}", staged());
}

fn jobs_refuse_what_leads_elsewhere(mine: &Cluster, other: &Cluster, local: &Path) {
    let words = ["job", "streaming", "-mapper", "cat", "-reducer", "NONE", "-input"];
    let before = (state_of_root(mine), state_of_root(other));
    let there = authority(other);
    let foreign = [
        "hdfs://elsewhere/in".to_owned(),
        format!("hdfs://{there}/in"),
        format!("webhdfs://{there}/in"),
        "s3a://b/in".to_owned(),
        "file://elsewhere/in".to_owned(),
        "foo:/in".to_owned(),
    ];
    for path in &foreign {
        for pair in [[path.as_str(), "/no"], ["/in", path]] {
            let outcome = mine.example("wordcount", &pair);
            let scheme = path.split(':').next().unwrap();
            assert!(outcome.code != 0 && outcome.stderr.contains(scheme), "{pair:?}: {outcome:?}");
            let outcome = mine.hanno(&[&words[..], &[pair[0], "-output", pair[1]]].concat());
            assert!(outcome.code != 0 && outcome.stderr.contains(scheme), "{pair:?}: {outcome:?}");
        }
        let outcome = mine.example("wordcount", &["--files", path, "/in", "/no"]);
        assert!(outcome.code != 0, "--files {path}: {outcome:?}");
        let outcome =
            mine.example("wordcount", &["--local", path, local.join("no").to_str().unwrap()]);
        assert!(outcome.code != 0, "--local {path}: {outcome:?}");
    }
    for options in [
        ["-fs", "hdfs://elsewhere"],
        ["-fs", "s3a://b"],
        ["-D", "fs.defaultFS=hdfs://elsewhere"],
        ["-fs", "file:///"],
    ] {
        let outcome = mine.hanno(
            &[&["job", "streaming"], &options[..], &words[2..], &["/in", "-output", "/no"]]
                .concat(),
        );
        assert!(outcome.code != 0, "{options:?}: {outcome:?}");
    }
    assert_eq!((state_of_root(mine), state_of_root(other)), before);
}

fn state_of_root(cluster: &Cluster) -> String {
    cluster.dfs(&["-ls", "-C", "/", "/user"]).stdout_text()
}

#[test]
fn a_file_of_the_working_directory_is_believed_if_nobody_else_can_write_it() {
    let cluster = Cluster::start(small());
    let local = tempfile::tempdir().unwrap();
    let file = local.path().join("hanno.toml");
    let run = |words: &[&str], secret: bool| {
        let mut command = cluster.command(&hanno_binary(), words);
        command.env_remove("HANNO_NAMENODE").env_remove("HANNO_JOBTRACKER");
        if secret {
            command.env("HANNO_SECRET_FILE", cluster.directory.join("secret"));
        }
        command.current_dir(local.path());
        Outcome::of(command)
    };
    let named =
        format!("namenode = \"{}\"\njobtracker = \"{}\"\n", cluster.namenode, cluster.jobtracker);
    let secret_file = format!("secret_file = {:?}\n", cluster.directory.join("secret"));
    fs::write(&file, format!("{named}{secret_file}")).unwrap();
    for (file_mode, directory_mode, is_read) in
        [(0o644, 0o755, true), (0o666, 0o755, false), (0o664, 0o755, false), (0o644, 0o777, false)]
    {
        fs::set_permissions(&file, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(local.path(), fs::Permissions::from_mode(directory_mode)).unwrap();
        for words in [&["dfs", "-ls", "/"][..], &["job", "-list"], &["fsck", "/"]] {
            let outcome = run(words, false);
            assert_eq!(outcome.code == 0, is_read, "{file_mode:o} {directory_mode:o}: {outcome:?}");
            let told = ["hanno.toml is not read", "chmod go-w", "HANNO_CONFIG"];
            assert!(
                is_read || told.iter().all(|part| outcome.stderr.contains(part)),
                "{outcome:?}"
            );
        }
    }
    fs::set_permissions(local.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if sys::host::user_id() == 0 {
        chown(&file, Some(12_345), None).unwrap();
        let outcome = run(&["dfs", "-ls", "/"], false);
        assert!(outcome.code != 0 && outcome.stderr.contains("12345"), "{outcome:?}");
        chown(&file, Some(0), None).unwrap();
    }
    // A stranger's address gets neither a secret of the user's nor one that it names itself.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    fs::write(&file, format!("namenode = \"http://{address}\"\n")).unwrap();
    let heard = thread::spawn(move || {
        let mut heard = Vec::new();
        let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        while let Ok((mut stream, _)) = stranger.accept() {
            let mut request = vec![0; 1 << 16];
            let count = stream.read(&mut request).unwrap_or_default();
            if request.starts_with(b"END") {
                break;
            }
            heard.extend_from_slice(&request[..count]);
            let _ = stream.write_all(answer.as_bytes());
        }
        String::from_utf8_lossy(&heard).to_lowercase()
    });
    for secret in [true, false] {
        for words in [&["dfs", "-ls", "/"][..], &["dfsadmin", "-report"]] {
            let outcome = run(words, secret);
            assert!(outcome.code != 0 && outcome.stderr.contains("secret_file"), "{outcome:?}");
        }
    }
    TcpStream::connect(address).unwrap().write_all(b"END").unwrap();
    let heard = heard.join().unwrap();
    assert!(!heard.contains("authorization"), "{heard}");
}

/// Less than the time for which calls are tried again.
const GIVEN_UP_MAX: Duration = Duration::from_secs(55);

#[test]
fn an_address_that_says_nothing_is_given_up_soon() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let local = tempfile::tempdir().unwrap();
    let secret = local.path().join("secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let give_up = |binary: &Path, words: &[&str], has_secret: bool| {
        let mut command = Command::new(binary);
        command.args(words).current_dir(local.path());
        command.env("HANNO_NAMENODE", &address).env("HANNO_JOBTRACKER", &address);
        if has_secret {
            command.env("HANNO_SECRET_FILE", &secret);
        }
        let outcome = Outcome::within(command, GIVEN_UP_MAX);
        let outcome = outcome.unwrap_or_else(|| panic!("{words:?} waits longer"));
        let told = [&*address, "takes connections", "HANNO_NAMENODE", "--jobtracker"];
        let is_told = told.iter().all(|part| outcome.stderr.contains(part));
        assert!(outcome.code != 0 && is_told, "{words:?}: {outcome:?}");
    };
    let (hanno, job) = (&hanno_binary(), &example_binary("wordcount"));
    thread::scope(|scope| {
        for has_secret in [true, false] {
            scope.spawn(move || give_up(hanno, &["dfs", "-ls", "/"], has_secret));
            scope.spawn(move || give_up(hanno, &["job", "-list"], has_secret));
            scope.spawn(move || give_up(job, &["/in", "/out"], has_secret));
        }
    });
}
