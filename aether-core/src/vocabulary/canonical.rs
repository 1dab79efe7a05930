//! The canonical form of JSON text, which digests are made of: that of RFC 8785, but for integers that a double cannot hold.
//!
//! Promise: two integers that differ have two forms, however wide they are; the order of members makes no difference.

/// The canonical form of JSON text.
///
/// Integers that a double cannot hold exactly are tagged, so that two of them never share a form.
pub(crate) fn form_of(text: &str) -> serde_json::Result<Vec<u8>> {
    let widest = tag_widest_integers(text);
    let mut value: serde_json::Value = serde_json::from_str(widest.as_deref().unwrap_or(text))?;
    tag_wide_integers(&mut value);
    serde_json_canonicalizer::to_vec(&value)
}

/// The form that former builds made of the text, where it is another one: they read integers of more than 64 bits as doubles.
pub(crate) fn former_form_of(text: &str) -> Option<Vec<u8>> {
    tag_widest_integers(text)?;
    let mut value: serde_json::Value = serde_json::from_str(text).ok()?;
    tag_wide_integers(&mut value);
    serde_json_canonicalizer::to_vec(&value).ok()
}

/// Whether JSON text is its own canonical form, as far as a look at its bytes tells: the arguments of most steps. Sure only
/// of plain strings, of whole numbers that are short, of members in the order of their names, and of at most `levels` arrays
/// and objects in each other.
pub(crate) fn is_plain(text: &str, levels: usize) -> bool {
    plain_value(text.as_bytes(), levels).is_some_and(<[u8]>::is_empty)
}

/// What follows a value; `None` where it is not plain, or nested deeper than `levels`.
fn plain_value(text: &[u8], levels: usize) -> Option<&[u8]> {
    match *text.first()? {
        b'"' => plain_string(text).map(|(_, rest)| rest),
        b'{' => plain_object(text, levels.checked_sub(1)?),
        b'[' => plain_array(text, levels.checked_sub(1)?),
        b'0' => text.get(1..).filter(|rest| !rest.first().is_some_and(u8::is_ascii_digit)),
        b'1'..=b'9' => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            text.get(digits..).filter(|_| digits <= SHORT)
        }
        _ => [&b"true"[..], b"false", b"null"].iter().find_map(|word| text.strip_prefix(*word)),
    }
}

/// A string without escapes, and what follows it.
fn plain_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'))?;
    let (string, rest) = text.split_at(end);
    Some((string, rest.strip_prefix(b"\"")?))
}

fn plain_array(text: &[u8], levels: usize) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"[")?;
    if let Some(rest) = rest.strip_prefix(b"]") {
        return Some(rest);
    }
    loop {
        rest = plain_value(rest, levels)?;
        match rest.split_first()? {
            (b',', next) => rest = next,
            (b']', behind) => return Some(behind),
            _ => return None,
        }
    }
}

fn plain_object(text: &[u8], levels: usize) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"{")?;
    if let Some(rest) = rest.strip_prefix(b"}") {
        return Some(rest);
    }
    let mut last: Option<&[u8]> = None;
    loop {
        let (name, value) = plain_string(rest)?;
        if last.is_some_and(|last| last >= name) {
            return None;
        }
        last = Some(name);
        rest = plain_value(value.strip_prefix(b":")?, levels)?;
        match rest.split_first()? {
            (b',', next) => rest = next,
            (b'}', behind) => return Some(behind),
            _ => return None,
        }
    }
}

/// Whole numbers of so many digits are written in full, and are exact as doubles.
const SHORT: usize = 15;

/// JSON text in which integers of more than 64 bits are tagged as [`tag_wide_integers`] tags others; `None` where it has
/// none. As a number, such a one would be read as a double.
fn tag_widest_integers(text: &str) -> Option<String> {
    let number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    let (mut tagged, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let rest = text.get(at..)?;
        let length = match byte {
            b'"' => quoted_length(rest),
            b'-' | b'0'..=b'9' => rest.bytes().take_while(|byte| number(*byte)).count(),
            _ => 1,
        };
        let token = text.get(at..at + length)?;
        if is_widest_integer(token) {
            tagged.push_str(text.get(copied..at)?);
            tagged.push_str(&format!("\"\\u0000integer {token}\""));
            copied = at + length;
        }
        at += length;
    }
    (copied > 0).then(|| tagged + text.get(copied..).unwrap_or_default())
}

/// Length of the string that JSON text begins with, with its quotation marks.
fn quoted_length(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        // The first byte is the quotation mark at the beginning.
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// Whether JSON text is an integer that neither `u64` nor `i64` can hold.
fn is_widest_integer(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer && token.parse::<u64>().is_err() && token.parse::<i64>().is_err()
}

const EXACT: u64 = 1 << 53;

fn tag_wide_integers(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Number(n) => {
            let wide =
                n.as_u64().is_some_and(|u| u > EXACT) || n.as_i64().is_some_and(|i| i.unsigned_abs() > EXACT);
            if wide {
                *value = Value::String(format!("\u{0}integer {n}"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tag_wide_integers),
        Value::Object(fields) => fields.values_mut().for_each(tag_wide_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTING: usize = 127;

    proptest::proptest! {
        #[test]
        fn what_is_plainly_canonical_is_its_own_canonical_form(
            text in r#"[\[{]?("[a-c"\\é ~]{0,3}"|-?[0-9]{1,17}|true|null|[\[\]{}:, .eE-]){0,9}[\]}]?"#,
            members in proptest::collection::vec(("[a-cA-C_é]{0,2}", 0..4_u32, "[a-c\"\u{7f}é/]{0,2}"), 0..4),
        ) {
            let object = members.iter().fold(serde_json::Map::new(), |mut object, (name, kind, text)| {
                let value = match kind {
                    0 => serde_json::json!({ name.clone(): text.len(), "a": [text, -1] }),
                    1 => serde_json::json!([text, { "b": 9_007_199_254_740_993_u64 }]),
                    2 => serde_json::json!(1e300),
                    _ => serde_json::json!(text),
                };
                object.insert(name.clone(), value);
                object
            });
            let object = serde_json::Value::Object(object).to_string();
            let joined: Vec<_> = members.iter().map(|(name, number, _)| format!("\"{name}\":{number}")).collect();
            let unsorted = format!("{{{}}}", joined.join(","));
            for text in [&text, &object, &unsorted] {
                if is_plain(text, NESTING) {
                    proptest::prop_assert_eq!(form_of(text).ok(), Some(text.as_bytes().to_vec()), "{}", text);
                }
            }
        }
    }

    #[test]
    fn the_arguments_of_most_steps_are_plainly_canonical() {
        for text in
            [r#"{"number":7}"#, r#"{"a":[{},[],"x y",0,123456789012345],"b":{"c":true,"d":null}}"#, "[]"]
        {
            assert!(is_plain(text, NESTING), "{text}");
            assert_eq!(form_of(text).ok(), Some(text.as_bytes().to_vec()));
        }
        for text in [
            "-1",
            "01",
            "1.0",
            "1e3",
            "1234567890123456",
            r#""\n""#,
            r#""é""#,
            r#"{"b":1,"a":1}"#,
            r#"{"a":1,"a":1}"#,
        ] {
            assert!(!is_plain(text, NESTING), "{text}");
        }
        for text in ["[1,]", "{\"a\":1", "[1]]", " 1", "{,}", "tru", ""] {
            assert!(!is_plain(text, NESTING), "{text}");
        }
    }

    /// As it was before integers of more than 64 bits were tagged.
    fn form_of_narrow(text: &str) -> Option<Vec<u8>> {
        let mut value = serde_json::from_str(text).ok()?;
        tag_wide_integers(&mut value);
        serde_json_canonicalizer::to_vec(&value).ok()
    }

    proptest::proptest! {
        #[test]
        fn any_two_integers_have_two_forms(one: i128, two: u128, text in "[a\"\\\\0-9 ]{0,30}") {
            let forms = |number: String| {
                let object = serde_json::json!({ text.clone(): [text.clone()] }).to_string();
                form_of(&format!("[{object},{number},1.5e3]")).unwrap()
            };
            proptest::prop_assert_eq!(forms(one.to_string()) == forms(two.to_string()), one.to_string() == two.to_string());
            proptest::prop_assert_ne!(forms(two.to_string()), forms((two ^ 1).to_string()));
        }

        #[test]
        fn what_64_bits_hold_keeps_its_form(numbers: Vec<i64>, more: Vec<u64>, real: f64, text in "[a\"\\\\0-9 ]{0,30}") {
            let text = serde_json::json!([numbers, more, real, { text.clone(): text }]).to_string();
            proptest::prop_assert_eq!(form_of(&text).ok(), form_of_narrow(&text));
        }
    }
}
