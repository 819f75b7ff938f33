//! A command of the shell: a row of a table.

use super::args::Opt;
use super::context::Context;
use super::fs::Failure;

/// A command of the shell.
pub(crate) struct Command {
    /// Without its dash.
    pub(crate) name: &'static str,
    /// Options and operands, for the usage line.
    pub(crate) arguments: &'static str,
    /// The text of `-help`, several lines.
    pub(crate) about: &'static str,
    pub(crate) options: &'static [Opt],
    /// Fewest operands.
    pub(crate) min: usize,
    /// Most operands, or [`MANY`].
    pub(crate) max: usize,
    /// Works, but is left out of the general help.
    pub(crate) deprecated: bool,
    pub(crate) run: fn(&Context) -> Result<(), Failure>,
}

/// No limit on operands.
pub(crate) const MANY: usize = usize::MAX;

/// Builds a row of the table, so that each takes only a few lines.
pub(crate) const fn command(
    name: &'static str,
    arguments: &'static str,
    (min, max): (usize, usize),
    options: &'static [Opt],
    run: fn(&Context) -> Result<(), Failure>,
    about: &'static str,
) -> Command {
    Command { name, arguments, about, options, min, max, deprecated: false, run }
}

/// The same for one that is left out of the general help.
pub(crate) const fn deprecated(command: Command) -> Command {
    Command { deprecated: true, ..command }
}
