//! What keeps a store in order beside those who read and write it.
//!
//! | module | |
//! |---|---|
//! | `bad` | replicas that are bad, or may be |
//! | `checks` | data directories that fail, and that work again |
//! | `deletions` | replicas that are not wanted any more |

mod bad;
mod checks;
mod deletions;
