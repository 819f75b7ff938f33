//! Tables of calls: the macros that make code of their rows, and what all tables say of a call.
//!
//! A row says all that a face or a daemon must know of a call before it is made. It has the tag on the wire, the fields, the type that answers the call and
//! the way that it takes. Then come columns, which each conversation defines for itself. What the call does is in the core.
//!
//! ```text
//! /// Gives a job another priority.
//! 6: SetPriority { job: JobId, priority: Priority } -> () = Change, by Modifier(*job), logged of("setJobPriority", priority.name());
//! |  |             |                                   |    |       |                 |
//! |  name          fields                              |    Kind    columns: a name, and a value that may use the fields
//! tag on the wire                                      type of the answer
//! ```
//!
//! A column that a row leaves out has the value that the head of the table names. A row without an answer makes no type: its types are written below the
//! table.

#[cfg(test)]
pub(crate) mod golden;

/// Which way a call takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It changes nothing, and is answered from what is durable.
    Read,
    /// The core judges it: it may change the state or what is planned.
    Change,
    /// An operator's order to the daemon, without the core.
    Order,
}

/// Makes of the rows the type of all calls, its columns as methods, and for each row with an answer a type of its own in `calls`. `types` are those of the
/// fields; `also` names macros that get the rows, too.
macro_rules! calls {
    (types $($type:ident),* $(,)?; columns $columns:tt also [$($also:ident)*] $($rows:tt)*) => {
        $crate::table::calls! { @with [$($type)*] $columns [$($also)*] { $($rows)* } }
    };
    (@with $types:tt {
        $( $(#[doc = $doc:literal])* $column:ident: $column_type:ty = $default:expr; )*
    } [$($also:ident)*] $rows:tt) => {
        $crate::table::enumerate! { $types $rows }

        impl Call {$(
            $crate::table::column! {
                [$(#[doc = $doc])*] $column [$column_type] [$default] $rows
            }
        )*}

        $( $also! { $rows } )*
    };
}

/// The rows as types.
macro_rules! enumerate {
    ([$($type:ident)*] {$(
        $(#[doc = $doc:literal])*
        $tag:literal: $name:ident
            $(( $(#[serde $bound:tt])? $only:ident: $only_type:ty $(,)? ))?
            $({ $(
                $(#[doc = $field_doc:literal])*
                $(#[serde $field_bound:tt])?
                $field:ident: $field_type:ty
            ),* $(,)? })?
            $(-> $answer:ty)?
            = $kind:expr
            $(, $column:ident $value:expr)*
    ;)*}) => {
        /// The calls, by the rows of the table in the order of their tags.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub enum Call {$(
            $(#[doc = $doc])*
            $name
                $(( $(#[serde $bound])? $only_type ))?
                $({ $( $(#[doc = $field_doc])* $(#[serde $field_bound])? $field: $field_type ),* })?
        ),*}

        const _: () = {
            let tags: &[usize] = &[$($tag),*];
            let mut row = 0;
            while row < tags.len() {
                assert!(tags[row] == row, "the rows stand in the order of their tags");
                row += 1;
            }
            // Rows have no other columns than their table.
            $($( let _ = Call::$column; )*)*
        };

        impl Call {
            /// How many there are.
            #[cfg(test)]
            pub(super) const COUNT: usize = [$($tag),*].len();

            /// Which way it takes.
            pub fn kind(&self) -> $crate::table::Kind {
                match self {$(
                    Call::$name $(($only))? $({ $($field),* })? => {
                        // A column uses the fields that it needs.
                        $( let _ = $only; )? $($( let _ = $field; )*)?
                        $kind
                    }
                )*}
            }
        }

        /// Each call as a type that names its answer; see [`TypedCall`].
        pub mod calls {
            use super::{$($type),*};

            $( $crate::table::typed! { [$(-> $answer)?] $(#[doc = $doc])* $name {
                $( /// What the call is about.
                    $only: $only_type, )?
                $($( $(#[doc = $field_doc])* $field: $field_type, )*)?
            }} )*
        }

        $( $crate::table::from_typed! { [$(-> $answer)?] $name { $($only)? $($($field),*)? }
            [Call::$name $(($only))? $({ $($field),* })?]
        } )*

        /// A call whose type names its answer. The wire knows [`Call`] and [`Reply`] alone.
        pub trait TypedCall: Into<Call> {
            /// What answers it.
            type Answer: Into<Reply> + TryFrom<Reply, Error = $crate::error::UnexpectedReply>;

            /// What answers this call, as one of all answers.
            fn answer(outcome: Result<Self::Answer, $crate::RemoteError>) -> Answer {
                outcome.map(Into::into)
            }
        }
    };
}

/// A column as a method.
macro_rules! column {
    ([$($doc:tt)*] $column:ident $type:tt $default:tt {$(
        $(#[doc = $row_doc:literal])*
        $tag:literal: $name:ident
            $(( $(#[serde $bound:tt])? $only:ident: $only_type:ty $(,)? ))?
            $({ $(
                $(#[doc = $field_doc:literal])*
                $(#[serde $field_bound:tt])?
                $field:ident: $field_type:ty
            ),* $(,)? })?
            $(-> $answer:ty)?
            = $kind:expr
            $(, $other:ident $value:expr)*
    ;)*}) => {
        $crate::table::method! { [$($doc)*] $column $type [$(
            Call::$name $(($only))? $({ $($field),* })? => {
                $( let _ = $only; )? $($( let _ = $field; )*)?
                $crate::table::pick!($column $type $default $($other $value;)*)
            }
        )*] }
    };
}

/// A method that asks for the call.
macro_rules! method {
    ([$($doc:tt)*] $column:ident [$type:ty] [$($arms:tt)*]) => {
        $($doc)*
        pub fn $column(&self) -> $type {
            match self { $($arms)* }
        }
    };
}

/// The value of a column in a row; a table may have the columns that are named here.
macro_rules! pick {
    (by [$type:ty] $default:tt by $value:expr; $($rest:tt)*) => { $value };
    (brief [$type:ty] $default:tt brief $value:expr; $($rest:tt)*) => { $value };
    (refused [$type:ty] $default:tt refused $value:expr; $($rest:tt)*) => {
        Into::<$type>::into($value)
    };
    (logged [$type:ty] $default:tt logged $value:expr; $($rest:tt)*) => {
        Into::<$type>::into($value)
    };
    ($column:ident $type:tt $default:tt $other:ident $value:expr; $($rest:tt)*) => {
        $crate::table::pick!($column $type $default $($rest)*)
    };
    // One for each known column: a table with another one does not compile.
    (by $type:tt [$default:expr]) => { $default };
    (brief $type:tt [$default:expr]) => { $default };
    (refused $type:tt [$default:expr]) => { $default };
    (logged $type:tt [$default:expr]) => { $default };
}

/// The type of a call with an answer.
macro_rules! typed {
    ([] $($row:tt)*) => {};
    ([-> $answer:ty] $(#[$doc:meta])* $name:ident {}) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name;
    };
    ([-> $answer:ty] $(#[$doc:meta])* $name:ident {
        $( $(#[$field_doc:meta])* $field:ident: $type:ty, )*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {$(
            $(#[$field_doc])*
            pub $field: $type,
        )*}
    };
}

/// What a call of such a type is among all calls, and its answer.
macro_rules! from_typed {
    ([] $($row:tt)*) => {};
    ([-> $answer:ty] $name:ident { $($field:ident),* } [$($call:tt)*]) => {
        impl From<calls::$name> for Call {
            fn from(calls::$name { $($field),* }: calls::$name) -> Call {
                $($call)*
            }
        }

        impl TypedCall for calls::$name {
            type Answer = $answer;
        }
    };
}

/// Ties types to kinds of `Reply`, both ways: a value, the reply that it becomes, and what comes back out of such a reply. `UNEXPECTED` says who gave another.
macro_rules! replies {
    ($( $type:ty: $value:pat => $reply:expr, $pattern:pat => $back:expr; )*) => {$(
        impl From<$type> for Reply {
            fn from($value: $type) -> Reply {
                $reply
            }
        }

        impl TryFrom<Reply> for $type {
            type Error = $crate::error::UnexpectedReply;

            fn try_from(reply: Reply) -> Result<Self, $crate::error::UnexpectedReply> {
                match reply {
                    $pattern => Ok($back),
                    _ => Err(UNEXPECTED),
                }
            }
        }
    )*};
    ($( $kind:ident($type:ty) ),* $(,)?) => {
        $crate::table::replies! {
            $( $type: value => Reply::$kind(value), Reply::$kind(value) => value; )*
        }
    };
}

pub(crate) use {calls, column, enumerate, from_typed, method, pick, replies, typed};
