//! The code of the derives. In what they generate, `rest` is what was not read yet.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Generics, Result, parse_quote};

use crate::shape::{Field, Shape, Variant};

/// Where a value stands in an encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It ends with the bytes: so does its last field.
    Last,
    /// Others may follow.
    Part,
}

/// `impl Datum` and `impl Put`.
///
/// # Errors
/// For types that have no encoding.
pub(crate) fn datum(input: &DeriveInput) -> Result<TokenStream> {
    let shape = Shape::of(input)?;
    let name = &input.ident;
    let generics = bounded(&input.generics, &quote!(::mr_api::datum::Datum));
    let (of, types, with) = generics.split_for_impl();
    let (reading, telling) = (reading(&shape, name), telling(&shape, name));
    let mut puts = generics.clone();
    for parameter in puts.type_params_mut() {
        let ident = parameter.ident.clone();
        parameter.bounds.push(parse_quote!(::mr_api::datum::Put<#ident>));
    }
    let (put_of, _, put_with) = puts.split_for_impl();
    let (put, put_part) = (put(&shape, Place::Last), put(&shape, Place::Part));
    Ok(quote! {
        #[automatically_derived]
        impl #of ::mr_api::datum::Datum for #name #types #with {
            type View<'a> = Self;
            type Part<'a> = Self;

            #reading
            #telling
        }

        #[automatically_derived]
        impl #put_of ::mr_api::datum::Put<#name #types> for #name #types #put_with {
            fn put(&self, out: &mut ::std::vec::Vec<u8>) {
                #put
            }

            fn put_part(&self, out: &mut ::std::vec::Vec<u8>) {
                #put_part
            }
        }
    })
}

/// The functions of `Datum` for programs.
fn reading(shape: &Shape, name: &syn::Ident) -> TokenStream {
    let (read, read_part) = (read(shape, name, Place::Last), read(shape, name, Place::Part));
    quote! {
        fn read(bytes: &[u8]) -> ::core::result::Result<Self, ::mr_api::datum::DecodeError> {
            let rest = &mut &*bytes;
            #read
        }

        fn read_part(
            rest: &mut &[u8],
        ) -> ::core::result::Result<Self, ::mr_api::datum::DecodeError> {
            #read_part
        }

        fn own(view: Self) -> Self {
            view
        }

        fn own_part(part: Self) -> Self {
            part
        }
    }
}

/// The functions of `Datum` for people.
fn telling(shape: &Shape, name: &syn::Ident) -> TokenStream {
    let (describe, describe_part) =
        (describe(shape, name, Place::Last), describe(shape, name, Place::Part));
    let (text, text_part) = (text(shape, name, Place::Last), text(shape, name, Place::Part));
    let fields = quote! {
        ::core::result::Result<
            ::std::vec::Vec<::std::string::String>,
            ::mr_api::datum::DecodeError,
        >
    };
    quote! {
        fn describe(bytes: &[u8]) -> ::std::string::String {
            let described = |rest: &mut &[u8]| -> #fields { #describe };
            match described(&mut &*bytes) {
                ::core::result::Result::Ok(fields) => fields.join(", "),
                ::core::result::Result::Err(_) => {
                    <::std::vec::Vec<u8> as ::mr_api::datum::Datum>::describe(bytes)
                }
            }
        }

        fn describe_part(
            rest: &mut &[u8],
        ) -> ::core::result::Result<::std::string::String, ::mr_api::datum::DecodeError> {
            let described = |rest: &mut &[u8]| -> #fields { #describe_part };
            ::core::result::Result::Ok(described(rest)?.join(", "))
        }

        fn text(
            bytes: &[u8],
            out: &mut ::std::vec::Vec<u8>,
        ) -> ::core::result::Result<bool, ::mr_api::datum::DecodeError> {
            let rest = &mut &*bytes;
            #text
        }

        fn text_part(
            rest: &mut &[u8],
            out: &mut ::std::vec::Vec<u8>,
        ) -> ::core::result::Result<bool, ::mr_api::datum::DecodeError> {
            #text_part
        }
    }
}

/// `impl Key`.
///
/// # Errors
/// For types that have no encoding.
pub(crate) fn key(input: &DeriveInput) -> Result<TokenStream> {
    let shape = Shape::of(input)?;
    let name = &input.ident;
    let generics = bounded(&input.generics, &quote!(::mr_api::datum::Key));
    let (of, types, with) = generics.split_for_impl();
    // Checked where the compiler can point at the field, and not at the derive.
    let checks = shape
        .types()
        .map(|ty| quote::quote_spanned!(syn::spanned::Spanned::span(ty)=> is_key::<#ty>();));
    Ok(quote! {
        #[automatically_derived]
        impl #of ::mr_api::datum::Key for #name #types #with {}

        const _: () = {
            fn is_key<K: ::mr_api::datum::Key>() {}
            #[allow(dead_code, reason = "for the compiler alone")]
            fn fields_are_keys #of () #with {
                #(#checks)*
            }
        };
    })
}

fn bounded(generics: &Generics, bound: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#bound));
        parameter.default = None;
    }
    generics
}

/// Runs `body` for the variant at the front of `rest`.
fn by_variant(
    shape: &Shape,
    name: &syn::Ident,
    body: impl Fn(&Variant) -> TokenStream,
) -> TokenStream {
    if !shape.is_enum {
        return shape.variants.iter().map(body).collect();
    }
    let arms = shape.variants.iter().enumerate().map(|(number, variant)| {
        let (number, body) = (number as u8, body(variant));
        quote!(#number => { #body })
    });
    let wrong = format!("not a variant of {name}");
    quote! {
        let ::core::option::Option::Some((number, behind)) = rest.split_first() else {
            return ::core::result::Result::Err(::mr_api::datum::DecodeError::new(#wrong));
        };
        *rest = behind;
        match *number {
            #(#arms)*
            _ => ::core::result::Result::Err(::mr_api::datum::DecodeError::new(#wrong)),
        }
    }
}

/// A piece of code for each field, which learns whether the field ends the encoding; and one for a variant that must end it without a field.
fn by_field(
    variant: &Variant,
    place: Place,
    piece: impl Fn(&Field, Place) -> TokenStream,
) -> TokenStream {
    let end = variant.fields.len().checked_sub(1);
    let pieces =
        variant.fields.iter().enumerate().map(|(index, field)| {
            piece(field, if Some(index) == end { place } else { Place::Part })
        });
    let nothing = (end.is_none() && place == Place::Last)
        .then(|| quote!(<() as ::mr_api::datum::Datum>::read(*rest)?;));
    quote!(#(#pieces)* #nothing)
}

fn read(shape: &Shape, name: &syn::Ident, place: Place) -> TokenStream {
    by_variant(shape, name, |variant| {
        let fields = by_field(variant, place, |Field { binding, ty, .. }, place| match place {
            Place::Last => quote! {
                let #binding = <#ty as ::mr_api::datum::Datum>::own(
                    <#ty as ::mr_api::datum::Datum>::read(*rest)?,
                );
            },
            Place::Part => quote! {
                let #binding = <#ty as ::mr_api::datum::Datum>::own_part(
                    <#ty as ::mr_api::datum::Datum>::read_part(rest)?,
                );
            },
        });
        let pattern = pattern(variant);
        quote!(#fields ::core::result::Result::Ok(#pattern))
    })
}

fn describe(shape: &Shape, name: &syn::Ident, place: Place) -> TokenStream {
    by_variant(shape, name, |variant| {
        let begin = variant.name.as_ref().map(|name| {
            let name = name.to_string();
            quote!(fields.push(::std::string::String::from(#name));)
        });
        let fields = by_field(variant, place, |Field { ty, .. }, place| match place {
            Place::Last => {
                quote!(fields.push(<#ty as ::mr_api::datum::Datum>::describe(*rest));)
            }
            Place::Part => {
                quote!(fields.push(<#ty as ::mr_api::datum::Datum>::describe_part(rest)?);)
            }
        });
        quote! {
            let mut fields: ::std::vec::Vec<::std::string::String> = ::std::vec::Vec::new();
            #begin #fields
            ::core::result::Result::Ok(fields)
        }
    })
}

fn text(shape: &Shape, name: &syn::Ident, place: Place) -> TokenStream {
    by_variant(shape, name, |variant| {
        let begin = variant.name.as_ref().map(|name| {
            let name = name.to_string();
            quote!(out.extend_from_slice(#name.as_bytes());)
        });
        let first = variant.fields.first().map(|field| &field.binding);
        let fields = by_field(variant, place, |Field { ty, binding, .. }, place| {
            let is_between = variant.name.is_some() || Some(binding) != first;
            let between = is_between.then(|| quote!(out.push(b'\t');));
            let text = match place {
                Place::Last => quote!(<#ty as ::mr_api::datum::Datum>::text(*rest, out)?;),
                Place::Part => quote!(<#ty as ::mr_api::datum::Datum>::text_part(rest, out)?;),
            };
            quote!(#between #text)
        });
        let is_text = variant.name.is_some() || !variant.fields.is_empty();
        quote!(#begin #fields ::core::result::Result::Ok(#is_text))
    })
}

fn put(shape: &Shape, place: Place) -> TokenStream {
    let arms = shape.variants.iter().enumerate().map(|(number, variant)| {
        let begin = shape.is_enum.then(|| {
            let number = number as u8;
            quote!(out.push(#number);)
        });
        let end = variant.fields.len().saturating_sub(1);
        let fields =
            variant.fields.iter().enumerate().map(
                |(index, Field { binding, ty, .. })| match place {
                    Place::Last if index == end => {
                        quote!(::mr_api::datum::Put::<#ty>::put(#binding, out);)
                    }
                    _ => quote!(::mr_api::datum::Put::<#ty>::put_part(#binding, out);),
                },
            );
        let pattern = pattern(variant);
        quote!(#pattern => { #begin #(#fields)* })
    });
    quote!(match self { #(#arms)* })
}

/// A variant with a variable for each field: both the pattern and the value.
fn pattern(variant: &Variant) -> TokenStream {
    let path = variant.name.as_ref().map_or(quote!(Self), |name| quote!(Self::#name));
    let fields =
        variant.fields.iter().map(|Field { member, binding, .. }| quote!(#member: #binding));
    quote!(#path { #(#fields),* })
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::*;

    fn refusal(code: &str) -> String {
        let input: DeriveInput = parse_str(code).unwrap();
        let (of_datum, of_key) = (datum(&input).unwrap_err(), key(&input).unwrap_err());
        assert_eq!(of_datum.to_string(), of_key.to_string());
        of_datum.to_string()
    }

    #[test]
    fn what_has_no_encoding_is_refused_with_what_to_do() {
        for (code, reason) in [
            ("struct A<'a> { text: &'a str }", "use `String` for `&str`"),
            ("enum Never {}", "no values to encode"),
            ("enum Level { Low = 1, High = 5 }", "does not know this number"),
            ("union Bits { a: u32, b: f32 }", "use an enum"),
        ] {
            assert!(refusal(code).contains(reason), "{code}: {}", refusal(code));
        }
        let variants: String = (0..257).map(|number| format!("V{number},")).collect();
        assert!(refusal(&format!("enum Many {{ {variants} }}")).contains("at most 256 variants"));
    }

    #[test]
    fn what_has_one_becomes_code() {
        let variants: String = (0..256).map(|number| format!("V{number},")).collect();
        for code in [
            "struct Unit;",
            "struct Pair(u8, String);",
            "struct Point { x: f64, y: f64 }",
            "struct Of<T, const N: usize> where T: Clone { t: T }",
            "enum Shape<T = u8> { None, Circle(f64), Named { of: T } }",
            &format!("enum Many {{ {variants} }}"),
        ] {
            let input: DeriveInput = parse_str(code).unwrap();
            for code in [datum(&input).unwrap(), key(&input).unwrap()] {
                syn::parse2::<syn::File>(code).unwrap();
            }
        }
    }
}
