//! How many bytes lie before the first aligned one
//! how: address

use aether::prelude::*;

#[repr(align(64))]
struct Line([u8; 64]);

fn prefix(text: &str) -> usize {
    // SAFETY: any bytes are valid in an array of bytes.
    let (before, _, _) = unsafe { text.as_bytes().align_to::<Line>() };
    before.len()
}

fn look() -> String {
    (1..20).map(|words| prefix(&"word ".repeat(words * 30)).to_string() + " ").collect()
}

#[workflow]
pub async fn aligned_prefix(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
