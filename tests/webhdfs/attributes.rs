//! What HDFS keeps beside a file and shows to few: storage policies. Over WebHDFS and by the commands, before and after a restart.

use std::fs;

use super::{Web, exception};

#[test]
fn storage_policies_are_kept_and_what_is_not_done_is_told() {
    let mut web = Web::start();
    web.put("/d/sub/f", b"x");
    web.put("/other/g", b"y");
    let set = |path: &str, name: &str| {
        web.ask("PUT", &format!("{path}?op=SETSTORAGEPOLICY&storagepolicy={name}"))
    };
    assert_eq!(set("/d", "hot").is(200).header("warning"), None);
    let ssd = set("/d", "ALL_SSD").is(200);
    let told = "299 hanno \"the storage policy ALL_SSD is kept, but there is no SSD here: all replicas are on DISK\"";
    assert_eq!(ssd.header("warning"), Some(told));
    let (status, class, message) = exception(&set("/d", "COLD"));
    assert_eq!((status, class.rsplit('.').next()), (400, Some("HadoopIllegalArgumentException")));
    assert!(message.contains("COLD needs ARCHIVE"), "{message}");

    set("/d/sub", "WARM").is(200);

    let check = |web: &Web, expected: &[(&str, u64, &str)]| {
        for (path, id, name) in expected {
            let asked = web.ask("GET", &format!("{path}?op=GETSTORAGEPOLICY")).is(200).json();
            assert_eq!(asked["BlockStoragePolicy"]["name"], *name, "{path}");
            let status = web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json();
            assert_eq!(status["FileStatus"]["storagePolicy"], *id, "{path}");
            let got = web.cluster.hanno(&["storagepolicies", "-getStoragePolicy", "-path", path]);
            let text = match id {
                0 => format!("The storage policy of {path} is unspecified\n"),
                id => format!("The storage policy of {path}:\nBlockStoragePolicy{{{name}:{id}, "),
            };
            assert!(got.ok().stdout_text().starts_with(&text), "{path}");
        }
        let listed = web.ask("GET", "/d?op=LISTSTATUS").is(200).json();
        let mut entries = listed["FileStatuses"]["FileStatus"].as_array().unwrap().iter();
        let sub = entries.find(|entry| entry["pathSuffix"] == "sub").unwrap();
        assert_eq!(sub["storagePolicy"], 5);
    };
    let all = [
        ("/d", 12, "ALL_SSD"),
        ("/d/sub", 5, "WARM"),
        ("/d/sub/f", 5, "WARM"),
        ("/other/g", 0, "HOT"),
        ("/", 0, "HOT"),
    ];
    check(&web, &all);
    web.cluster.restart();
    check(&web, &all);
    web.ask("PUT", "/other/g?op=RENAME&destination=/d/g").is(200);
    check(&web, &[("/d/g", 12, "ALL_SSD")]);
    let checked = web.cluster.hanno(&["fsck", "/", "-storagepolicies"]).ok().stdout_text();
    assert!(checked.contains("Blocks NOT satisfying the specified storage policy:"), "{checked}");
    assert!(checked.contains("WARM") && checked.contains("ALL_SSD"), "{checked}");
    let unset = web.cluster.hanno(&["storagepolicies", "-unsetStoragePolicy", "-path", "/d"]).ok();
    assert_eq!(unset.stdout_text(), "Unset storage policy from /d\n");
    check(&web, &[("/d/g", 0, "HOT"), ("/d/sub/f", 5, "WARM")]);
    web.ask("POST", "/d/sub?op=UNSETSTORAGEPOLICY").is(200);
    let status = web.ask("GET", "/d/sub/f?op=GETFILESTATUS").is(200).json();
    assert_eq!(status["FileStatus"]["storagePolicy"], 0);
    let log = web.cluster.directory.join("namenode-1/audit.log");
    let told = |command| fs::read_to_string(&log).unwrap_or_default().contains(command);
    web.cluster.wait_until("the calls are told", 10, |_| {
        told("cmd=setStoragePolicy\tsrc=/d/sub\t") && told("cmd=unsetStoragePolicy\tsrc=/d/sub\t")
    });
}

#[test]
fn the_command_for_storage_policies_answers_as_hadoops() {
    let web = Web::start();
    web.put("/d/sub/f", b"x");
    let policies = |args: &[&str]| web.cluster.hanno(&[&["storagepolicies"], args].concat());
    let kept = policies(&["-setStoragePolicy", "-path", "/d/sub", "-policy", "WARM"]).ok();
    assert_eq!(kept.stdout_text(), "Set storage policy WARM on /d/sub\n");
    assert!(kept.stderr.contains("there is no ARCHIVE here"), "{}", kept.stderr);
    for (args, text) in [
        (["-setStoragePolicy", "-path", "/d", "-policy", "COLD"], "COLD needs ARCHIVE"),
        (
            ["-setStoragePolicy", "-path", "/d", "-policy", "X"],
            "Cannot find a block policy with the name X",
        ),
        (
            ["-setStoragePolicy", "-path", "/x", "-policy", "HOT"],
            "File/Directory does not exist: /x",
        ),
    ] {
        let refused = policies(&args);
        assert!(refused.code == 2 && refused.stderr.contains(text), "{}", refused.stderr);
    }
    let refused = policies(&["-satisfyStoragePolicy", "-path", "/d"]);
    assert!(refused.code == 2 && refused.stderr.contains("not supported"), "{}", refused.stderr);
    let list = policies(&["-listPolicies"]).ok().stdout_text();
    assert!(
        list.starts_with("Block Storage Policies:\n\tBlockStoragePolicy{PROVIDED:1,"),
        "{list}"
    );
    assert_eq!(list.lines().count(), 9);
}
