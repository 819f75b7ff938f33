//! The two file systems of the shell, the cluster's and this machine's, behind one set of operations ([`Store`]); paths in them as users
//! type them ([`Named`], made by [`Resolver`]); and how operations fail ([`Failure`]).

mod error;
pub(super) mod local;
mod machine;
mod named;
mod path;
mod store;
pub(super) mod sums;
pub(super) mod temporary;

pub(crate) use self::error::{Failure, Problem};
pub(super) use self::machine::MODE_MASK;
pub(crate) use self::named::Resolver;
pub(super) use self::named::{Item, Named, alternatives, text_of};
pub(super) use self::path::FsPath;
pub(super) use self::store::{Store, WriteOptions, Writer};
