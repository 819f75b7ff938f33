//! Runs user code and stops its panics.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use protocol::error::chain;

use crate::error::Result;

thread_local! {
    /// Where the panic that is unwinding this thread began.
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; returns an error or panic as one line that names the cause (and the place, for a panic).
///
/// # Errors
/// That line.
pub fn guard<T>(work: impl FnOnce() -> Result<T>) -> Result<T, String> {
    remember_places();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(chain(&*error)),
        Err(payload) => {
            let message = panic_message(&*payload);
            Err(match PANIC_PLACE.take() {
                Some(place) => format!("panic at {place}: {message}"),
                None => format!("panic: {message}"),
            })
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "no message".to_owned(),
    }
}

/// Has every panic record its place before the program's own panic hook runs.
fn remember_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANIC_PLACE
                .set(info.location().map(|place| format!("{}:{}", place.file(), place.line())));
            previous(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_become_lines() {
        assert_eq!(guard(|| Ok(7)), Ok(7));
        assert_eq!(guard::<()>(|| Err("bad".into())), Err("bad".to_owned()));
        let line = guard::<()>(|| panic!("record {}", 9)).unwrap_err();
        assert!(line.starts_with("panic at ") && line.ends_with(": record 9"), "{line}");
        assert!(line.contains("guard.rs:"), "{line}");
    }
}
