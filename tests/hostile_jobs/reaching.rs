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
