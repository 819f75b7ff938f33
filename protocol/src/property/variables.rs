//! Variables for the environment of scripts, in lists and each under a name of its own.

use super::row::{Properties, PropertyError};
use super::value::Value;

/// `A=b,C=d`, with names as Hadoop takes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommaVariables(pub Vec<(String, String)>);

/// `A=b C=d`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlankVariables(pub Vec<(String, String)>);

impl Value for CommaVariables {
    const WANTED: &'static str =
        "NAME=VALUE with commas between several, and names of letters, digits and `_`";

    fn parse(text: &str) -> Option<Self> {
        items(text, ',').map(comma_item).collect::<Option<_>>().map(CommaVariables)
    }

    fn culprit(text: &str) -> &str {
        items(text, ',').find(|item| comma_item(item).is_none()).unwrap_or(text)
    }
}

impl Value for BlankVariables {
    const WANTED: &'static str = "NAME=VALUE with blanks between several";

    fn parse(text: &str) -> Option<Self> {
        items(text, ' ').map(blank_item).collect::<Option<_>>().map(BlankVariables)
    }

    fn culprit(text: &str) -> &str {
        items(text, ' ').find(|item| blank_item(item).is_none()).unwrap_or(text)
    }
}

/// The items of a list; nothing between two separators is none.
fn items(text: &str, between: char) -> impl Iterator<Item = &str> {
    text.split(between).map(str::trim).filter(|item| !item.is_empty())
}

fn comma_item(item: &str) -> Option<(String, String)> {
    blank_item(item).filter(|(name, _)| is_variable_name(name))
}

fn blank_item(item: &str) -> Option<(String, String)> {
    let (name, value) = item.split_once('=')?;
    let is_variable = !name.is_empty() && !item.contains('\0');
    is_variable.then(|| (name.to_owned(), value.to_owned()))
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Gives access to the properties that begin alike, each of which is one variable: `mapreduce.map.env.A=b`.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// Ends with `*`.
    name: &'static str,
}

impl Each {
    /// Valid names and values.
    pub(super) const WANTED: &'static str =
        "the value of a variable whose name has letters, digits and `_`";

    pub(super) const fn new(name: &'static str) -> Self {
        Each { name }
    }

    /// The name up to the variable's.
    pub fn start(self) -> &'static str {
        self.name.strip_suffix('*').unwrap_or(self.name)
    }

    /// The variables.
    ///
    /// # Errors
    /// If a name or a value is invalid.
    pub fn get(self, properties: &Properties) -> Result<Vec<(String, String)>, PropertyError> {
        let from = properties.range(self.start().to_owned()..);
        let mut variables = Vec::new();
        for (name, value) in from.take_while(|(name, _)| name.starts_with(self.start())) {
            let variable = &name[self.start().len()..];
            if let Some(culprit) = Self::culprit(variable, value) {
                let (name, value) = (name.clone(), culprit.to_owned());
                return Err(PropertyError { name, value, wanted: Self::WANTED });
            }
            variables.push((variable.to_owned(), value.clone()));
        }
        Ok(variables)
    }

    /// The part at fault, if there is one.
    pub(super) fn culprit<'a>(variable: &'a str, value: &'a str) -> Option<&'a str> {
        match (is_variable_name(variable), value.contains('\0')) {
            (true, false) => None,
            (true, true) => Some(value),
            (false, _) => Some(variable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_item_of_a_list_vanishes() {
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let read = CommaVariables::parse("A=b c, _D=e=f,,");
        assert_eq!(read, Some(CommaVariables(pairs(&[("A", "b c"), ("_D", "e=f")]))));
        let read = BlankVariables::parse("A=b,c  D-1=");
        assert_eq!(read, Some(BlankVariables(pairs(&[("A", "b,c"), ("D-1", "")]))));
        for (list, item) in [("A=b,C", "C"), ("A=b,=d,E", "=d"), ("A-B=c", "A-B=c"), ("1=2", "1=2")]
        {
            assert_eq!(CommaVariables::parse(list), None, "{list}");
            assert_eq!(CommaVariables::culprit(list), item);
        }
        assert_eq!(BlankVariables::parse("A=b C"), None);
        assert_eq!(BlankVariables::culprit("A=b C"), "C");
        assert_eq!(CommaVariables::parse("A=\0"), None);
    }

    #[test]
    fn a_variable_with_a_property_of_its_own_keeps_its_commas() {
        let of = |name: &str, value: &str| -> Properties { [(name.into(), value.into())].into() };
        let each = Each::new("mapreduce.map.env.*");
        let read = each.get(&of("mapreduce.map.env.FOO", "a,b=c"));
        assert_eq!(read, Ok(vec![("FOO".to_owned(), "a,b=c".to_owned())]));
        assert_eq!(each.get(&of("mapreduce.map.environment", "x")), Ok(Vec::new()));
        let error = each.get(&of("mapreduce.map.env.F-1", "x")).unwrap_err().to_string();
        assert!(error.contains("mapreduce.map.env.F-1: `F-1`"), "{error}");
    }
}
