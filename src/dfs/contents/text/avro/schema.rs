//! The schema of an Avro data file: types in a table, which refer to each other by their index, so a recursive type costs no more than others. Only the names
//! that a record's text needs are kept; logical types count as the types that store them.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// An index into the table.
pub(super) type Id = usize;

/// The form of a type's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record { name: String, fields: Vec<(String, Id)> },
    Enum { name: String, symbols: Vec<String> },
    Fixed { name: String, bytes: usize },
}

impl Type {
    /// How a value in a union names it.
    pub(super) fn name(&self) -> &str {
        match self {
            Type::Array(_) => "array",
            Type::Map(_) => "map",
            Type::Union(_) => "union",
            Type::Record { name, .. } | Type::Enum { name, .. } | Type::Fixed { name, .. } => name,
            plain => PRIMITIVES.iter().find(|(_, of)| of == plain).map_or("", |(name, _)| name),
        }
    }
}

const PRIMITIVES: [(&str, Type); 8] = [
    ("null", Type::Null),
    ("boolean", Type::Boolean),
    ("int", Type::Int),
    ("long", Type::Long),
    ("float", Type::Float),
    ("double", Type::Double),
    ("bytes", Type::Bytes),
    ("string", Type::Text),
];

/// Longest schema: 4 MiB, a hundred times that of a wide table.
pub(super) const SCHEMA_BYTES_MAX: usize = 4 << 20;

/// All types of a file.
#[derive(Debug)]
pub(super) struct Schema {
    types: Vec<Type>,
    /// The type of a record.
    pub(super) root: Id,
}

impl Schema {
    /// Reads the JSON of a schema. The JSON parser limits its nesting (128).
    pub(super) fn parse(json: &[u8]) -> Result<Schema, String> {
        if json.len() > SCHEMA_BYTES_MAX {
            return Err(format!("its schema is longer than {SCHEMA_BYTES_MAX} bytes"));
        }
        let json: Value =
            serde_json::from_slice(json).map_err(|error| format!("its schema: {error}"))?;
        let mut parser = Parser::default();
        let root = parser.parse(&json, "").map_err(|what| format!("its schema has {what}"))?;
        Ok(Schema { types: parser.types, root })
    }

    pub(super) fn get(&self, id: Id) -> &Type {
        &self.types[id]
    }
}

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    /// Named types, by their full names.
    named: HashMap<String, Id>,
}

impl Parser {
    /// Adds a type; `space` is the namespace of names without one.
    fn parse(&mut self, json: &Value, space: &str) -> Result<Id, String> {
        match json {
            Value::String(name) => self.find(name, space),
            Value::Array(branches) => {
                let branches: Result<Vec<Id>, String> =
                    branches.iter().map(|branch| self.parse(branch, space)).collect();
                let branches = branches?;
                if branches.iter().any(|id| matches!(self.types[*id], Type::Union(_))) {
                    return Err("a union in a union".to_owned());
                }
                Ok(self.push(Type::Union(branches)))
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(kind)) => self.parse_object(kind, object, space),
                Some(inner) => self.parse(inner, space),
                None => Err("a type without `type`".to_owned()),
            },
            _ => Err("something that is no type".to_owned()),
        }
    }

    fn parse_object(
        &mut self,
        kind: &str,
        object: &Map<String, Value>,
        space: &str,
    ) -> Result<Id, String> {
        let part = |key: &str| object.get(key).ok_or_else(|| format!("{kind} without `{key}`"));
        match kind {
            "array" => {
                let items = self.parse(part("items")?, space)?;
                Ok(self.push(Type::Array(items)))
            }
            "map" => {
                let values = self.parse(part("values")?, space)?;
                Ok(self.push(Type::Map(values)))
            }
            "enum" => {
                let symbols = part("symbols")?.as_array().ok_or("symbols that are no list")?;
                let symbols = symbols.iter().map(|symbol| symbol.as_str().map(str::to_owned));
                let symbols = symbols.collect::<Option<_>>().ok_or("a symbol that is no text")?;
                self.define(object, space, |name| Type::Enum { name, symbols })
            }
            "fixed" => {
                let bytes = part("size")?.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                let bytes = bytes.ok_or("a size that is no number")?;
                self.define(object, space, |name| Type::Fixed { name, bytes })
            }
            "record" | "error" => {
                let fields = part("fields")?.as_array().ok_or("fields that are no list")?;
                // It is added before its fields, as they may refer to it.
                let id =
                    self.define(object, space, |name| Type::Record { name, fields: Vec::new() })?;
                let full = self.types[id].name().to_owned();
                let space = full.rsplit_once('.').map_or("", |(space, _)| space);
                let mut known = Vec::with_capacity(fields.len());
                for field in fields {
                    let name = field.get("name").and_then(Value::as_str);
                    let (name, of) = name.zip(field.get("type")).ok_or("an unusable field")?;
                    known.push((name.to_owned(), self.parse(of, space)?));
                }
                if let Type::Record { fields, .. } = &mut self.types[id] {
                    *fields = known;
                }
                Ok(id)
            }
            other => self.find(other, space),
        }
    }

    fn push(&mut self, new: Type) -> Id {
        self.types.push(new);
        self.types.len() - 1
    }

    /// Adds a named type.
    fn define(
        &mut self,
        object: &Map<String, Value>,
        space: &str,
        new: impl FnOnce(String) -> Type,
    ) -> Result<Id, String> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let name = text("name").ok_or("a type without a name")?;
        let full = full_name(name, text("namespace").unwrap_or(space));
        if self.named.contains_key(&full) {
            return Err(format!("two types with the name {full}"));
        }
        let id = self.push(new(full.clone()));
        self.named.insert(full, id);
        Ok(id)
    }

    fn find(&mut self, name: &str, space: &str) -> Result<Id, String> {
        if let Some((_, plain)) = PRIMITIVES.iter().find(|(known, _)| *known == name) {
            return Ok(self.push(plain.clone()));
        }
        let known = self.named.get(&full_name(name, space)).or_else(|| self.named.get(name));
        known.copied().ok_or_else(|| format!("no type with the name {name}"))
    }
}

fn full_name(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() { name.to_owned() } else { format!("{space}.{name}") }
}
