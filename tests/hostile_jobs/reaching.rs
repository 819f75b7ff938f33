//! Scripts that reach for what is there by its name: files of the cluster and of other users, other processes, the kernel.

use super::Attack;

pub(super) const ATTACKS: &[Attack] = &[
    Attack::script("writes", "leave a file in the cluster's directory", |scene| {
        format!("echo taken >{}/stolen", scene.directory())
    }),
    Attack::script("secret", "read the cluster's secret", |scene| {
        format!("cat {}/secret >/dev/null", scene.directory())
    }),
    Attack::script("blocks", "list the blocks of a DataNode", |scene| {
        format!("ls {}/datanode-1", scene.directory())
    }),
    Attack::script("looks", "list the files of another user's job", |scene| {
        format!("ls {}", scene.victim())
    }),
    Attack::script("reads", "read a file of another user's job", |scene| {
        format!("cat {}/map.sh", scene.victim())
    }),
    Attack::script("spoils", "write into another user's job", |scene| {
        format!("echo x >{}/more", scene.victim())
    }),
    Attack::script("job-signals", "send a signal to a task of another user's job", |scene| {
        format!("kill -0 {}", scene.victim_process())
    }),
    Attack::script("job-spies", "read the environment of a task of another job", |scene| {
        format!("cat /proc/{}/environ >/dev/null", scene.victim_process())
    }),
    Attack::script("job-enters", "enter the directory of a task of another job", |scene| {
        format!("ls /proc/{}/cwd/", scene.victim_process())
    }),
    Attack::script("job-limits", "limit a task of another job", |scene| {
        scene.program("limits_others", scene.victim_process())
    }),
    Attack::script("signals", "send a signal to the worker", |scene| {
        format!("kill -0 {}", scene.worker())
    }),
    Attack::script("spies", "read the environment of the worker", |scene| {
        format!("cat /proc/{}/environ >/dev/null", scene.worker())
    }),
    Attack::script("replaces", "put another program into the place of an executable", |_| {
        "exe=$(readlink /proc/$PPID/exe) && cp \"$exe\" \"$exe.new\" && mv \"$exe.new\" \"$exe\""
            .to_owned()
    }),
    Attack::script("unshares", "make namespaces", |_| "unshare -rm true".to_owned()),
];
