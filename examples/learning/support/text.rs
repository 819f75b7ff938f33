//! Words of a text.

use mr_api::Result;

/// Hands out the words of a text, in lower case: what is between characters that are no letters or digits.
///
/// # Errors
/// Those of `each`.
pub fn each_word(text: &[u8], each: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).try_for_each(each)
}
