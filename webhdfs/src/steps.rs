//! What both sides of a two-step operation read from its parameters.

use crate::error::WebError;
use crate::op::Op;
use crate::query::Query;

/// What `createflag` may hold.
const CREATE_FLAGS: [&str; 6] =
    ["CREATE", "OVERWRITE", "APPEND", "LAZY_PERSIST", "NEW_BLOCK", "SYNC_BLOCK"];

/// The flags that have an effect on an operation. Every new file begins a block, and every block that is closed is synced, as
/// `SYNC_BLOCK` wants it.
fn honoured(op: Op) -> &'static [&'static str] {
    match op {
        Op::Append => &["APPEND", "NEW_BLOCK", "SYNC_BLOCK"],
        _ => &["CREATE", "OVERWRITE", "NEW_BLOCK", "SYNC_BLOCK"],
    }
}

/// The flags of `op` that are valid and have no effect on it.
///
/// # Errors
/// As [`create_flags`].
pub fn unhonoured_flags(op: Op, query: &Query) -> Result<Vec<&'static str>, WebError> {
    if !op.parameters().contains(&"createflag") {
        return Ok(Vec::new());
    }
    let flags = create_flags(query)?.unwrap_or_default();
    Ok(flags.into_iter().filter(|flag| !honoured(op).contains(flag)).collect())
}

/// The flags of CREATE; `None` if there are none.
///
/// # Errors
/// If there is another one.
pub fn create_flags(query: &Query) -> Result<Option<Vec<&'static str>>, WebError> {
    let Some(text) = query.text("createflag") else { return Ok(None) };
    let flags = text.split(',').map(str::trim).filter(|flag| !flag.is_empty());
    let known = |flag: &str| {
        CREATE_FLAGS.iter().copied().find(|known| known.eq_ignore_ascii_case(flag)).ok_or_else(
            || {
                let flag = flag.to_uppercase();
                let problem = format!("No enum constant org.apache.hadoop.fs.CreateFlag.{flag}");
                WebError::parameter("createflag", problem)
            },
        )
    };
    flags.map(known).collect::<Result<Vec<_>, _>>().map(Some)
}
