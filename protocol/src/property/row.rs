//! A row of the table, and the typed key of one that is honoured.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::value::Value;

/// Properties by name.
pub type Properties = BTreeMap<String, String>;

/// The way to the value of one property.
#[derive(Debug)]
pub struct Key<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T: Value> Key<T> {
    pub(super) const fn new(name: &'static str) -> Self {
        Key { name, value: PhantomData }
    }

    /// The property's name of today.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Its value, if it is given.
    ///
    /// # Errors
    /// If the value is none that the property takes.
    pub fn get(self, properties: &Properties) -> Result<Option<T>, PropertyError> {
        let Some(text) = properties.get(self.name) else { return Ok(None) };
        T::parse(text).map(Some).ok_or_else(|| PropertyError {
            name: self.name.to_owned(),
            value: text.clone(),
            wanted: T::WANTED,
        })
    }

    /// Gives it a value.
    pub fn set(self, properties: &mut Properties, value: impl Into<String>) {
        properties.insert(self.name.to_owned(), value.into());
    }
}

/// A value that a property does not take.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("property {name}: `{value}` is not {wanted}")]
pub struct PropertyError {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) wanted: &'static str,
}

/// Which jobs a property is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All.
    Jobs,
    /// Those whose mapper and reducer are commands.
    Streaming,
}

/// What becomes of a property.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// It does what it does in Hadoop.
    Honoured {
        /// Jobs that it means something to.
        scope: Scope,
        /// True if a text is a value of it.
        takes: fn(&str) -> bool,
        /// What such a text is, for people.
        wanted: &'static str,
    },
    /// It has no effect, and the outcome is the same.
    Ignored,
    /// The outcome would be another: only these values, which mean what is done in any case, pass.
    Refused {
        /// Them.
        unless: &'static [&'static str],
    },
}

/// One property, or all whose names begin alike.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name; one that ends with `*` stands for all that begin so.
    pub name: &'static str,
    /// Former names.
    pub former: &'static [&'static str],
    /// See there.
    pub class: Class,
    /// What it does, why it does nothing, or why it cannot be taken and what to do instead.
    pub text: &'static str,
}
