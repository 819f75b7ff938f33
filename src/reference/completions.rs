//! Scripts that teach shells, by clap's generators. These know options of one dash and one letter, and of two dashes: here the others become what the shells
//! themselves call options of one dash and many letters.

use clap::{Command, ValueEnum};
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};

use super::tree::ONE_DASH;

/// A shell that can be taught.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The script for a program.
pub(super) fn script(shell: Shell, mut program: Command) -> String {
    let (name, mut script) = (program.get_name().to_owned(), Vec::new());
    match shell {
        Shell::Bash => generate(Bash, &mut program, name, &mut script),
        Shell::Zsh => generate(Zsh, &mut program, name, &mut script),
        Shell::Fish => generate(Fish, &mut program, name, &mut script),
    }
    let script = String::from_utf8(script).expect("names and descriptions are UTF-8");
    script.split_inclusive('\n').map(|line| with_one_dash(shell, line)).collect()
}

fn with_one_dash(shell: Shell, line: &str) -> String {
    let marked = format!("--{ONE_DASH}");
    match shell {
        Shell::Bash => line.replace(&marked, "-"),
        // `-name=[…]` is an option whose value may stand behind `=`; these have it in the next word.
        Shell::Zsh if line.contains(&marked) => line.replace(&marked, "-").replacen("=[", "[", 1),
        Shell::Zsh => line.to_owned(),
        Shell::Fish => line.replace(&format!(" -l {ONE_DASH}"), " -o "),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command as Process, Stdio};

    use needs::{Need, lacks};

    use super::*;
    use crate::reference::{Program, tree};

    fn of(shell: Shell, program: &str) -> String {
        script(shell, tree::of(program, crate::cli::definition()))
    }

    fn programs() -> impl Iterator<Item = &'static str> {
        Program::value_variants().iter().map(|program| program.name())
    }

    /// What a shell prints that reads `input`; it has to succeed in silence. `None` if this machine lacks the shell.
    fn said(shell: &str, arguments: &[&str], input: &str) -> Option<String> {
        let mut process = Process::new(shell);
        process.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match process.spawn() {
            Ok(child) => child,
            Err(error) => {
                lacks(Need::Shells, format!("{shell}: {error}"));
                return None;
            }
        };
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && errors.is_empty(), "{shell}: {errors}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn every_script_is_one_of_its_shell() {
        for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            for program in programs() {
                let script = of(shell, program);
                assert!(!script.contains(ONE_DASH), "{name} {program}");
                if said(name, &["-n"], &script).is_none() {
                    break;
                }
            }
        }
    }

    /// Lines as somebody types them before pressing the key, with some of what has to be offered, and what must not be.
    const TYPED: &[(&str, &[&str], &[&str])] = &[
        ("hanno clu", &["cluster"], &["dfs"]),
        ("hanno cluster --d", &["--data", "--datanodes"], &["--parent"]),
        ("hanno admin metadata ", &["verify", "repair", "dump"], &[]),
        ("hanno dfs -p", &["-put"], &["-ls", "--put"]),
        ("hanno dfs -rm -s", &["-skipTrash"], &["-rm"]),
        ("hanno dfs put -", &["-f", "-d"], &["-skipTrash"]),
        ("hanno fsck -list", &["-list-corruptfileblocks"], &["-move"]),
        ("hanno completions f", &["fish"], &["bash"]),
        ("hdfs dfsa", &["dfsadmin"], &["dfs"]),
        ("hdfs dfsadmin -report -d", &["-dead"], &["-live"]),
        ("hdfs balancer -thr", &["-threshold"], &[]),
        ("hadoop fs -ge", &["-get", "-getmerge"], &["-put"]),
        ("hadoop jar -num", &["-numReduceTasks"], &[]),
        ("mapred job -lo", &["-logs"], &["-list"]),
        ("yarn queue -l", &["-list"], &[]),
    ];

    /// Some of them that fish's generator does not know: it stops at the second command, and leaves out the values of operands.
    const NOT_IN_FISH: &[&str] = &["hanno admin metadata ", "hanno completions f"];

    fn assert_offers(
        shell: &str,
        unknown: &[&str],
        complete: impl Fn(&str, &[&str]) -> Option<String>,
    ) {
        let lines = TYPED.iter().filter(|(line, ..)| !unknown.contains(line));
        for (line, expected, absent) in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(said) = complete(line, &words) else { return };
            // A description follows a tab.
            let offered: Vec<&str> =
                said.lines().filter_map(|line| line.split('\t').next()).collect();
            let missing = expected.iter().find(|word| !offered.contains(word));
            let wrong = absent.iter().find(|word| offered.contains(word));
            assert_eq!((missing, wrong), (None, None), "{shell}: `{line}`: {offered:?}");
        }
    }

    #[test]
    fn bash_completes_what_is_typed() {
        assert_offers("bash", &[], |_, words| {
            let quoted: String = words.iter().map(|word| format!(" '{word}'")).collect();
            let name = words[0];
            let script = of(Shell::Bash, name);
            let call = format!(
                "{script}\nCOMP_WORDS=({quoted})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
                 _{name} {name} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
                 printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
            );
            said("bash", &["--norc"], &call)
        });
    }

    #[test]
    fn fish_completes_what_is_typed() {
        assert_offers("fish", NOT_IN_FISH, |line, words| {
            let script = of(Shell::Fish, words[0]);
            said("fish", &["--no-config"], &format!("{script}\ncomplete -C '{line}'\n"))
        });
    }
}
