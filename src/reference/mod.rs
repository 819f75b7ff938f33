//! `hanno completions` and `hanno man`: completions for shells and manual pages, made from what defines the commands.
//!
//! clap's definitions describe most commands. Those of Hadoop's have parsers of their own; each of them tells its options by an [`Outline`], made from the
//! table or the help that it has anyway. [`tree`] joins both.

mod completions;
pub(crate) mod examples;
mod outline;
mod pages;
mod tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::output::{EXIT_FAILED, EXIT_OK, report, unless_reader_left};

use self::completions::Shell;

pub(crate) use self::outline::{Outline, Word, described, options_in};

/// Arguments of `hanno completions`.
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    /// The name under which this program is started
    #[arg(default_value = "hanno")]
    program: Program,
}

/// Text after its options.
pub(crate) const COMPLETIONS_EXAMPLES: &str = "Examples:
  hanno completions bash > ~/.local/share/bash-completion/completions/hanno
  hanno completions bash hdfs > ~/.local/share/bash-completion/completions/hdfs
  hanno completions zsh > ~/.zfunc/_hanno    # a directory of $fpath
  hanno completions fish > ~/.config/fish/completions/hanno.fish";

/// Text after the options of `hanno man`.
pub(crate) const MAN_EXAMPLES: &str = "Example:
  hanno man ~/.local/share/man && man -M ~/.local/share/man hanno-admin";

/// A name of this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Program {
    Hanno,
    Hdfs,
    Hadoop,
    Mapred,
    Yarn,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Hanno => "hanno",
            Program::Hdfs => "hdfs",
            Program::Hadoop => "hadoop",
            Program::Mapred => "mapred",
            Program::Yarn => "yarn",
        }
    }
}

/// Anybody may read a page.
const PAGE_MODE: u32 = 0o644;

/// Arguments of `hanno man`.
#[derive(Args)]
pub(crate) struct ManArgs {
    /// A directory of manuals, as MANPATH names them; the pages go to man1 in it
    dir: PathBuf,
}

/// Prints what teaches a shell; `hanno` is the definition of that program.
pub(crate) fn complete(args: &CompletionsArgs, hanno: clap::Command) -> u8 {
    let script = completions::script(args.shell, tree::of(args.program.name(), hanno));
    match unless_reader_left(crate::output::out().write_all(script.as_bytes())) {
        Ok(_) => EXIT_OK,
        Err(error) => {
            report!("completions: {error}");
            EXIT_FAILED
        }
    }
}

/// Writes all manual pages.
pub(crate) fn write_pages(args: &ManArgs, hanno: clap::Command) -> u8 {
    let folder = args.dir.join("man1");
    match write_below(&folder, &pages::all(hanno)) {
        Ok(()) => EXIT_OK,
        Err((path, error)) => {
            report!("man: cannot write {}: {error}", path.display());
            EXIT_FAILED
        }
    }
}

fn write_below(folder: &Path, pages: &[pages::Page]) -> Result<(), (PathBuf, io::Error)> {
    std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
    for page in pages {
        let path = folder.join(&page.file);
        let written = sys::fs::write_output(&path, PAGE_MODE, page.text.as_bytes());
        written.map_err(|error| (path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hadoop;

    #[test]
    fn every_name_of_this_program_can_be_completed() {
        let names = Program::value_variants().iter().map(|program| program.name());
        assert!(names.eq(std::iter::once("hanno").chain(hadoop::PROGRAMS)));
    }
}
