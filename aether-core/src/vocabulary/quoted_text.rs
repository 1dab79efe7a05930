//! Where a text stands in another one, in the forms in which texts quote each other.
//!
//! Promise: it is found as it is, percent-encoded as in a URL or a form, and with the escapes of JSON, whichever of its
//! characters are written so.

use std::ops::Range;

/// Where `wanted` stands in `text`. Some places may be found twice.
pub(crate) fn places(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let mut found: Vec<_> = text.match_indices(wanted).map(|(at, _)| at..at + wanted.len()).collect();
    if text.contains('%') {
        found.extend(decoded_places(text, wanted, percent));
    }
    if wanted.contains(' ') && text.contains('+') {
        found.extend(decoded_places(text, wanted, form));
    }
    if text.contains('\\') {
        found.extend(decoded_places(text, wanted, json));
    }
    found
}

/// What the beginning of a text stands for where it is an escape, and how many bytes of the text that is.
type Escape = fn(&str) -> Option<(char, usize)>;

/// A byte that is written as `%XX`; those of one character follow each other.
fn percent(text: &str) -> Option<(char, usize)> {
    let byte = u8::try_from(hex(text.strip_prefix('%')?.get(..2)?)?).ok()?;
    Some((char::from(byte), 3))
}

/// A number in hexadecimal digits, and nothing else.
fn hex(digits: &str) -> Option<u16> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

fn form(text: &str) -> Option<(char, usize)> {
    if text.starts_with('+') { Some((' ', 1)) } else { percent(text) }
}

fn json(text: &str) -> Option<(char, usize)> {
    let escape = text.strip_prefix('\\')?;
    let short = |letter: char| Some((letter, 2));
    match escape.chars().next()? {
        letter @ ('"' | '\\' | '/') => short(letter),
        'b' => short('\u{8}'),
        'f' => short('\u{c}'),
        'n' => short('\n'),
        'r' => short('\r'),
        't' => short('\t'),
        'u' => {
            let unit = |text: &str| hex(text.strip_prefix("\\u")?.get(..4)?);
            let first = unit(text)?;
            let pair = [first, text.get(6..).and_then(unit).unwrap_or_default()];
            let letter = char::decode_utf16(pair).next()?.ok()?;
            Some((letter, 6 * letter.len_utf16()))
        }
        _ => None,
    }
}

fn decoded_places(text: &str, wanted: &str, escape: Escape) -> Vec<Range<usize>> {
    // Where each byte of what the text stands for is written; and behind all of them, its end.
    let (mut decoded, mut from) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
    let mut rest = text;
    while let Some(plain) = rest.chars().next() {
        let at = text.len() - rest.len();
        let (letter, length) = escape(rest).unwrap_or((plain, plain.len_utf8()));
        let before = decoded.len();
        match u8::try_from(letter) {
            // What is percent-encoded are bytes.
            Ok(byte) if length == 3 && rest.starts_with('%') => decoded.push(byte),
            _ => decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        from.extend(std::iter::repeat_n(at, decoded.len() - before));
        rest = rest.get(length..).unwrap_or_default();
    }
    from.push(text.len());
    let places = decoded.windows(wanted.len().max(1)).enumerate();
    let places = places.filter(|(_, window)| *window == wanted.as_bytes());
    places.filter_map(|(at, window)| Some(*from.get(at)?..*from.get(at + window.len())?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_however_it_is_quoted() {
        let wanted = "k \"ï/+\\😀";
        let quoted = [
            ("k \"ï/+\\😀", 1),
            ("a k%20%22%C3%AF%2F%2b%5C%F0%9F%98%80 b", 1),
            ("k+%22%c3%af/%2B%5c%F0%9F%98%80", 1),
            ("{\"a\":\"k \\\"ï\\/+\\\\😀\"", 1),
            ("k \\\"\\u00ef/\\u002b\\\\\\ud83d\\ude00", 1),
            ("k%20%22%C3", 0),
            ("k \\\"\\u00e", 0),
            ("%", 0),
            ("k +%22%c3%af%2f%+b%5c%F0%9F%98%80", 0),
            ("\\", 0),
            ("k+%22%c3%af/+%5c%F0%9F%98%80", 0),
        ];
        for (text, times) in quoted {
            let mut found = places(text, wanted);
            found.sort_by_key(|place| place.start);
            found.dedup();
            assert_eq!(found.len(), times, "{text}: {found:?}");
            let rest =
                found.iter().fold(text.to_owned(), |text, place| text.replacen(&text[place.clone()], "", 1));
            assert!(times == 0 || !rest.contains('k') && !rest.contains("80"), "{rest}");
        }
        assert_eq!(places("ab ab", "ab"), [0..2, 3..5]);
    }
}
