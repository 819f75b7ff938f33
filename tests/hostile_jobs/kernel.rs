//! A program (`sys/tests/attacks.c`) that asks the kernel for what leads past the walls: sockets of the machine, memory that stays, other processes by other means.

use std::fs;

use super::Attack;

pub(super) const ATTACKS: &[Attack] = &[
    Attack::script("socket-path", "connect to a Unix socket of the machine by its path", |scene| {
        scene.program("unix_stream", &scene.listener())
    }),
    Attack::script("socket-name", "connect to an abstract Unix socket of the machine", |scene| {
        scene.program("unix_stream", &format!("@{}", scene.abstract_listener()))
    }),
    Attack::script("socket-bits", "make a Unix socket with other bits set", |scene| {
        scene.program("unix_high_bits", "")
    }),
    Attack::script("socket-pair", "make a pair of datagram sockets", |scene| {
        scene.program("unix_raw_pair", "")
    }),
    Attack::script("netlink", "talk to other parts of the kernel", |scene| {
        scene.program("netlink_other", "")
    }),
    Attack::script("shm-v", "leave System V memory behind", |scene| {
        scene.program("shared_memory", "")
    }),
    Attack::script("sem-v", "leave semaphores behind", |scene| scene.program("semaphores", "")),
    Attack::script("msg-v", "leave messages behind", |scene| scene.program("messages", "")),
    // A task may have shared memory of its own, under the same name.
    Attack {
        has_succeeded: |scene, _| fs::remove_file(scene.shared_memory()).is_ok(),
        ..Attack::script("shm", "leave shared memory behind", |scene| {
            scene.program("memory_left_behind", &scene.shared_memory())
        })
    },
    Attack::script("watches", "use up a user's watches", |scene| scene.program("watches", "")),
    Attack::script("hides", "hide a process from looks", |scene| scene.program("hides", "")),
    Attack::script("slows", "slow all processes of the user", |scene| {
        scene.program("slows_user", "")
    }),
    Attack::script("limits", "limit the worker", |scene| {
        scene.program("limits_others", &scene.worker().to_string())
    }),
    Attack::script("signals-fd", "send a signal by descriptor", |scene| {
        scene.program("signals_by_descriptor", &scene.worker().to_string())
    }),
    Attack::script("root-of", "enter the worker's root", |scene| {
        scene.program("opens_root", &scene.worker().to_string())
    }),
    Attack::script("cwd-of", "enter the worker's directory", |scene| {
        scene.program("opens_directory", &scene.worker().to_string())
    }),
];
