//! The derives of `mr_api::datum`: `Datum` and `Key` for structs and enums of an author's own.
//!
//! A struct is encoded as the tuple of its fields. An enum is a byte with the number of the variant, from 0 in the order of the
//! declaration, and then the tuple of the variant's fields. So encodings sort as `#[derive(PartialOrd)]` sorts values.

mod expand;
mod shape;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Datum`, and `Put` for the type itself. Each field must be a `Datum` that can be put: all types of `mr_api::datum`, and other
/// derived ones.
///
/// Readers get owned values: a struct of numbers costs nothing, a `String` in it is allocated.
#[proc_macro_derive(Datum)]
pub fn datum(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::datum(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `Key`, beside `Datum`: encodings sort by the fields in the order of their declaration, variants of an enum in the order of
/// theirs. Each field must be a `Key`.
#[proc_macro_derive(Key)]
pub fn key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::key(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
