//! A row of the table, and the typed key of one that is honoured.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::value::Value;

/// Properties by name.
pub type Properties = BTreeMap<String, String>;

/// Gives access to the value of one property.
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

    /// The property's present name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Its value, if it is given.
    ///
    /// # Errors
    /// If the property does not take the value.
    pub fn get(self, properties: &Properties) -> Result<Option<T>, PropertyError> {
        let Some(text) = properties.get(self.name) else { return Ok(None) };
        T::parse(text).map(Some).ok_or_else(|| PropertyError {
            name: self.name.to_owned(),
            value: T::culprit(text).to_owned(),
            wanted: T::WANTED,
        })
    }

    /// Sets its value.
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

/// The effect of a property.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// It does what it does in Hadoop.
    Honoured {
        /// Jobs to which it applies.
        scope: Scope,
        /// What `*` of the row's name stands for, and a value: the part of them that is at fault, if there is one.
        culprit: for<'a> fn(&'a str, &'a str) -> Option<&'a str>,
        /// A description of valid values, for people.
        wanted: &'static str,
    },
    /// It has no effect, and the result is the same.
    Ignored,
    /// The result would differ: only these values, which ask for what happens anyway, pass.
    Refused {
        /// These values.
        unless: &'static [&'static str],
    },
}

/// One property, or all whose names begin alike.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name; one that ends with `*` stands for all names with that prefix.
    pub name: &'static str,
    /// Former names.
    pub former: &'static [&'static str],
    /// Its effect.
    pub class: Class,
    /// What it does, why it does nothing, or why it cannot be taken and what to do instead.
    pub text: &'static str,
}
