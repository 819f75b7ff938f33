//! The stop of a repeated attempt before a record, so that a developer can attach a debugger.

use mr_model::runner::say;

/// Stops this process, before the record at this offset, until somebody continues it.
#[cold]
pub(crate) fn stop_before(offset: u64) {
    let pid = std::process::id();
    say(format_args!(
        "stopped before the record at byte {offset}: attach a debugger to process {pid}, or go on with `kill -CONT {pid}`\n"
    ));
    if let Err(error) = sys::process::pause(pid) {
        say(format_args!("cannot stop: {error}\n"));
    }
}
