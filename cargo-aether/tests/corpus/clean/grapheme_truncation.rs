//! Text that is cut between what people see as characters
//! how: clean

use std::borrow::Cow;

use aether::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

fn truncated(text: &str, most: usize) -> Cow<'_, str> {
    match text.grapheme_indices(true).nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

fn reversed(text: &str) -> String {
    text.graphemes(true).rev().collect()
}

#[workflow]
pub async fn grapheme_truncation(cx: &mut Cx, _input: u64) -> Result<String> {
    let most = cx.random().await as usize % 10;
    let text = "noe\u{308}l 👩‍👩‍👧 e\u{301}te\u{301} 🇩🇪!";
    let words = text.unicode_words().map(|word| word.to_uppercase()).collect::<Vec<_>>();
    Ok(format!("{} {} {words:?}", truncated(text, most), reversed(text)))
}
