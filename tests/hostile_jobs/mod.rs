//! Jobs that try to leave their box, on a real cluster. Each attack is a row of a table ([`attacks`]) and is carried out twice: with the walls it must be
//! refused, and without them it must succeed, else a test of it would say nothing.
//!
//! A new attack is a new row in one of the tables below: a script, or a mode of `tests/programs/hostile.rs`.

mod kernel;
mod ordinary;
mod outputs;
mod reaching;
mod scene;

use std::path::Path;

use scene::Scene;

/// What an attack prints when it succeeds.
const SUCCESS: &str = "SUCCEEDED";

/// Fewer would show that rows were lost.
const ATTACKS_MIN: usize = 35;

/// One way out of the box.
struct Attack {
    /// Names its job.
    name: &'static str,
    /// For people.
    tries: &'static str,
    act: Act,
    /// True if it succeeded: by what its tasks printed, and by what can be seen of the machine afterwards.
    has_succeeded: fn(&Scene, &str) -> bool,
    control: Control,
}

/// How it is carried out.
enum Act {
    /// By a shell script in a map.
    Script(fn(&Scene) -> String),
    /// By the program, in the mode of the row's name, against a target.
    Program(fn(&Scene) -> String),
}

/// How it is shown to work where nothing is in its way.
enum Control {
    /// The same job on a cluster with `task_sandbox = "off"`.
    SandboxOff,
    /// What the program lays out for its worker, opened as whoever knows of no danger does: the path that was told, and the target.
    Outside(fn(&Path, &Path) -> bool),
    /// The same message, but about the task's own attempt.
    AboutItself,
}

impl Attack {
    /// A script that ends well only if it reached what it must not.
    const fn script(
        name: &'static str,
        tries: &'static str,
        script: fn(&Scene) -> String,
    ) -> Attack {
        let has_succeeded = |_: &Scene, printed: &str| printed.contains(SUCCESS);
        Attack {
            name,
            tries,
            act: Act::Script(script),
            has_succeeded,
            control: Control::SandboxOff,
        }
    }
}

/// All rows of all tables.
fn attacks() -> impl Iterator<Item = &'static Attack> {
    [reaching::ATTACKS, kernel::ATTACKS, outputs::ATTACKS].into_iter().flatten()
}

/// Carries all out on one cluster; those that did other than they must are named together.
fn carry_out_all(walls: bool) {
    let scene = Scene::start(walls);
    let mut unexpected = Vec::new();
    for attack in attacks() {
        let name = attack.name;
        let (succeeded, told) = match (&attack.act, &attack.control) {
            (Act::Program(target), Control::Outside(opens)) if !walls => {
                let (told, target) = scene.lay_out(name, &target(&scene));
                (opens(&told, &target), told.display().to_string())
            }
            (act, control) => {
                let told = match act {
                    Act::Script(script) => {
                        scene.prints(name, &format!("{} && echo {SUCCESS}", script(&scene)))
                    }
                    Act::Program(target) => {
                        let about_itself = !walls && matches!(control, Control::AboutItself);
                        let target =
                            if about_itself { "itself".to_owned() } else { target(&scene) };
                        scene.lies(name, &target)
                    }
                };
                ((attack.has_succeeded)(&scene, &told), told)
            }
        };
        if succeeded == walls {
            unexpected.push(format!("{name} ({}): {told}", attack.tries));
        }
    }
    let what = if walls { "reached what it must not" } else { "did not work without walls" };
    assert!(unexpected.is_empty(), "{what}:\n{}", unexpected.join("\n"));
    scene.assert_unharmed(walls);
}

#[test]
fn attacks_are_many_and_their_names_their_own() {
    let names: std::collections::BTreeSet<&str> = attacks().map(|attack| attack.name).collect();
    assert_eq!(names.len(), attacks().count());
    assert!(names.len() >= ATTACKS_MIN, "only {}", names.len());
}

#[test]
fn every_attack_is_refused() {
    carry_out_all(true);
}

#[test]
fn without_walls_every_attack_succeeds() {
    carry_out_all(false);
}

/// The same as a user without any power, where the tests run as root: walls that lean on root's rights would not be seen otherwise.
#[test]
fn every_attack_is_refused_by_a_worker_of_an_ordinary_user() {
    ordinary::run_again("hostile_jobs::every_attack_is_refused");
}

#[test]
fn without_walls_every_attack_succeeds_at_a_worker_of_an_ordinary_user() {
    ordinary::run_again("hostile_jobs::without_walls_every_attack_succeeds");
}
