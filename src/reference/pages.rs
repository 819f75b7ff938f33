//! Manual pages: one for each command that is listed, and for each name of this program. Options and commands are laid out by clap's generator; helps and
//! examples stand as they are printed.

use std::io;

use clap::Command;
use clap_mangen::Man;

use super::tree;
use crate::hadoop;

/// The manual that the pages belong to.
const MANUAL: &str = "Hanno";
/// What `hanno --help` prints.
const HELP: &str = include_str!("../help.txt");

/// A page of section 1.
pub(super) struct Page {
    pub(super) file: String,
    /// For troff.
    pub(super) text: String,
}

/// All pages.
pub(super) fn all(hanno: Command) -> Vec<Page> {
    let mut root = tree::of("hanno", hanno);
    root.build();
    let mut pages = Vec::new();
    below(&root, 0, &mut pages);
    pages.extend(hadoop::PROGRAMS.map(program));
    pages
}

/// The page of a command, and those of the commands in it.
fn below(command: &Command, depth: usize, pages: &mut Vec<Page>) {
    let of_hadoop = hadoop::COMMANDS.iter().find(|known| known.name == command.get_name());
    match of_hadoop.filter(|known| depth == 1 && known.name != "version") {
        Some(known) => pages.push(help_page(known)),
        None => {
            pages.push(Page { file: file(&title(command)), text: defined(command) });
            let listed = command.get_subcommands().filter(|command| !command.is_hide_set());
            listed.for_each(|command| below(command, depth + 1, pages));
        }
    }
}

/// A page from clap's definition.
fn defined(command: &Command) -> String {
    let man = Man::new(command.clone());
    let mut roff = header(&title(command)).into_bytes();
    let written = (|| -> io::Result<()> {
        man.render_name_section(&mut roff)?;
        man.render_synopsis_section(&mut roff)?;
        match command.get_name() {
            "hanno" => roff.extend(literal("DESCRIPTION", HELP).into_bytes()),
            _ => man.render_description_section(&mut roff)?,
        }
        if command.get_arguments().any(|arg| !arg.is_hide_set()) {
            man.render_options_section(&mut roff)?;
        }
        if command.has_subcommands() {
            man.render_subcommands_section(&mut roff)?;
        }
        Ok(())
    })();
    written.expect("writing into memory cannot fail");
    let mut text = String::from_utf8(roff).expect("definitions are UTF-8");
    if let Some(after) = command.get_after_help() {
        text.push_str(&literal("EXAMPLES", &after.to_string()));
    }
    text + &see_also(command)
}

/// The page of a command whose help is its definition.
fn help_page(command: &hadoop::Command) -> Page {
    let title = format!("hanno-{}", command.name);
    let programs = command.programs.iter();
    let also = programs.map(|program| format!(".br\n{program} {}\n", escaped(command.name)));
    let text = format!(
        "{}.SH SYNOPSIS\nhanno {name} [\\fIARGUMENTS\\fR]\n{}{}.SH SEE ALSO\nhanno(1)\n",
        heading(&title, command.about),
        also.collect::<String>(),
        literal("DESCRIPTION", &command.help()),
        name = escaped(command.name),
    );
    Page { file: file(&title), text }
}

/// The page of another name of this program.
fn program(program: &str) -> Page {
    let about = format!("the commands of Hadoop's {program}, done by hanno");
    let mut text = heading(program, &about);
    text.push_str(&format!(
        ".SH SYNOPSIS\n{program} [\\-\\-config \\fIDIR\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n\
         hanno answers to this name where it is a link to it, as hanno\\-install\\-links(1) makes them.\n.SH COMMANDS\n",
    ));
    for command in hadoop::of_program(program) {
        let name = escaped(command.name);
        text.push_str(&format!(".TP\n{name}\n{}; see hanno\\-{name}(1)\n", escaped(command.about)));
    }
    text.push_str(".SH SEE ALSO\nhanno(1)\n");
    Page { file: file(program), text }
}

fn heading(title: &str, about: &str) -> String {
    format!("{}.SH NAME\n{} \\- {}\n", header(title), escaped(title), escaped(about))
}

/// The first line. Without a date: what counts is the version.
fn header(title: &str) -> String {
    let title = escaped(&title.to_uppercase());
    format!(".TH {title} 1 \"\" \"Hanno {}\" {MANUAL}\n", env!("CARGO_PKG_VERSION"))
}

/// A section whose lines stay as they are.
fn literal(name: &str, text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("{}\n", line_of(line))).collect();
    format!(".SH {name}\n.nf\n{lines}.fi\n")
}

/// Without its last part, a command is another: that page knows the neighbours.
fn see_also(command: &Command) -> String {
    let title = title(command);
    match title.rsplit_once(command.get_name()) {
        Some((before, "")) if !before.is_empty() => {
            format!(".SH SEE ALSO\n{}(1)\n", escaped(before.trim_end_matches('-')))
        }
        _ => String::new(),
    }
}

fn title(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn file(title: &str) -> String {
    format!("{title}.1")
}

/// A line that is no request, whatever it begins with.
fn line_of(text: &str) -> String {
    let escaped = escaped(text);
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}

/// Text as text: a dash that can be copied, and no escapes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('`', "\\(ga").replace('\'', "\\(aq")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command as Process;

    use needs::{Need, lacks};

    use super::*;

    fn names_below(command: &Command, names: &mut Vec<String>) {
        for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
            names.push(title(child));
            names_below(child, names);
        }
    }

    #[test]
    fn every_command_that_is_listed_has_its_page() {
        let pages = all(crate::cli::definition());
        let files: BTreeSet<&str> = pages.iter().map(|page| &*page.file).collect();
        assert_eq!(files.len(), pages.len(), "no page is written twice");
        let mut root = crate::cli::definition().disable_help_subcommand(true);
        root.build();
        let mut names = vec!["hanno".to_owned()];
        names_below(&root, &mut names);
        names.extend(hadoop::COMMANDS.iter().map(|command| format!("hanno-{}", command.name)));
        names.extend(hadoop::PROGRAMS.map(str::to_owned));
        assert!(names.len() > 45, "{names:?}");
        for name in names {
            assert!(files.contains(&*file(&name)), "{name} has no page");
        }
    }

    #[test]
    fn pages_tell_what_the_commands_tell() {
        let pages = all(crate::cli::definition());
        let text = |name: &str| &pages.iter().find(|page| page.file == name).unwrap().text;
        for (name, parts) in [
            ("hanno.1", &["hanno\\-cluster(1)", "Exit codes"][..]),
            ("hanno-cluster.1", &["\\-\\-datanodes", ".SH EXAMPLES", "hanno(1)"]),
            ("hanno-admin-metadata-repair.1", &["\\-\\-yes", "hanno\\-admin\\-metadata(1)"]),
            ("hanno-dfs.1", &["hadoop dfs", "\\-skipTrash", ".nf"]),
            ("hanno-dfsadmin.1", &["\\-safemode"]),
            ("hdfs.1", &["hanno\\-dfsadmin(1)"]),
        ] {
            for part in parts {
                assert!(text(name).contains(part), "{name} has no {part}:\n{}", text(name));
            }
        }
        assert!(!text("hanno-cluster.1").contains("parent"), "what is hidden stays hidden");
    }

    #[test]
    fn pages_are_laid_out_without_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let pages = all(crate::cli::definition());
        let paths = pages.iter().map(|page| {
            let path = folder.path().join(&page.file);
            std::fs::write(&path, &page.text).unwrap();
            path
        });
        let mut process = Process::new("groff");
        process.args(["-man", "-Kutf8", "-Tutf8", "-ww", "-z"]).args(paths);
        match process.output() {
            Err(error) => lacks(Need::Manuals, format!("groff: {error}")),
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() && errors.is_empty(), "{errors}");
            }
        }
    }
}
