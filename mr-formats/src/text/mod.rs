//! Text: lines in ([`Lines`], [`Line`]), `key<TAB>value` lines out ([`TextOutput`], through [`ToText`]).
//!
//! Everything is bytes first: a line need not be UTF-8 and arrives exactly as it is in the file.

mod delimited;
mod line;
mod output;
mod reader;
mod render;
mod rules;
mod variants;

pub use line::{Line, Words};
pub use output::{TextOutput, TextWriter};
pub use reader::Lines;
pub use render::ToText;
pub use rules::{LINE_BYTES_MAX, PassedOver, TextRules};
pub use variants::{CombinedLines, KeyValueLines, NLines};
