//! Text that goes through tables of characters
//! how: clean

use aether::prelude::*;

const MORSE: [&str; 26] = [
    ".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--", "-.", "---",
    ".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--", "--..",
];

fn morse(text: &str) -> String {
    let signs =
        text.bytes().filter_map(|byte| MORSE.get(usize::from(byte.to_ascii_lowercase().wrapping_sub(b'a'))));
    signs.copied().collect::<Vec<_>>().join(" ")
}

fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            'ä' => slug += "ae",
            'ö' => slug += "oe",
            'ü' => slug += "ue",
            'ß' => slug += "ss",
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(at, digit)| if at % 2 == 1 { digit * 2 % 10 + digit / 5 } else { digit })
        .sum();
    sum % 10 == 0
}

#[workflow]
pub async fn char_tables(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await.to_string();
    Ok(format!(
        "{} {} {} {}",
        morse("Sos"),
        slug("Größe & Maß (2. Teil)"),
        luhn("79927398713"),
        luhn(&number)
    ))
}
