//! What the derives need to know of a type, and what they refuse.

use quote::format_ident;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Ident, Result, Type};

/// A byte numbers the variants.
const VARIANTS_MAX: usize = 256;

/// A struct, which is its only variant, or an enum.
pub(crate) struct Shape {
    pub(crate) is_enum: bool,
    pub(crate) variants: Vec<Variant>,
}

/// A variant and its fields.
pub(crate) struct Variant {
    /// None for a struct.
    pub(crate) name: Option<Ident>,
    pub(crate) fields: Vec<Field>,
}

/// A field.
pub(crate) struct Field {
    /// Its name, or its number.
    pub(crate) member: syn::Member,
    /// The variable that holds it.
    pub(crate) binding: Ident,
    pub(crate) ty: Type,
}

impl Shape {
    /// # Errors
    /// For what has no encoding.
    pub(crate) fn of(input: &DeriveInput) -> Result<Shape> {
        for parameter in &input.generics.params {
            if let GenericParam::Lifetime(lifetime) = parameter {
                let text = "a datum owns its values, because it outlives the task's buffers: use `String` for `&str`, `Vec<u8>` for `&[u8]`";
                return Err(Error::new_spanned(lifetime, text));
            }
        }
        match &input.data {
            Data::Struct(data) => {
                Ok(Shape { is_enum: false, variants: vec![variant(None, &data.fields)] })
            }
            Data::Enum(data) => {
                if data.variants.is_empty() {
                    let text = "an enum without variants has no values to encode";
                    return Err(Error::new_spanned(&input.ident, text));
                }
                if let Some(excess) = data.variants.iter().nth(VARIANTS_MAX) {
                    let text =
                        format!("a datum has at most {VARIANTS_MAX} variants: a byte numbers them");
                    return Err(Error::new_spanned(excess, text));
                }
                if let Some((_, number)) =
                    data.variants.iter().find_map(|v| v.discriminant.as_ref())
                {
                    let text = "variants are numbered in the order of their declaration: an encoding does not know this number. Leave it out";
                    return Err(Error::new_spanned(number, text));
                }
                let variants =
                    data.variants.iter().map(|v| variant(Some(v.ident.clone()), &v.fields));
                Ok(Shape { is_enum: true, variants: variants.collect() })
            }
            Data::Union(data) => {
                let text = "a union does not say which of its fields is valid: use an enum";
                Err(Error::new_spanned(data.union_token, text))
            }
        }
    }

    /// The types of all fields.
    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        self.variants.iter().flat_map(|variant| &variant.fields).map(|field| &field.ty)
    }
}

fn variant(name: Option<Ident>, fields: &Fields) -> Variant {
    let field = |(index, field): (usize, &syn::Field)| Field {
        member: field.ident.clone().map_or_else(|| index.into(), Into::into),
        binding: format_ident!("field_{index}"),
        ty: field.ty.clone(),
    };
    Variant { name, fields: fields.iter().enumerate().map(field).collect() }
}
