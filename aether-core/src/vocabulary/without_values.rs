//! What is said of a value that does not fit its type, without the value: it may be a secret, and errors and log lines are not
//! encoded as values are.
//!
//! Promise: names of members and kinds of values remain, and so does what stands for a value that was redacted. Values do not.

/// What stands for a value that was redacted, as masking writes it.
const REDACTED: &str = "***";

/// The start of a JSON text with two dots for each value, and for whatever is no JSON.
///
/// ```
/// use aether_core::payload::outline;
/// assert_eq!(outline(r#"{"card":"4111","n":[1,null]}"#), r#"{"card":..,"n":[..,null]}"#);
/// ```
pub fn outline(start: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(start.len()), start);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => quoted(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => rest.find(['{', '}', '[', ']', ',', ':', '"']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        let is_name = first == '"' && behind.trim_start().starts_with(':');
        let is_kept = is_name
            || is_redacted(token)
            || matches!(token.trim(), "" | "null" | "{" | "}" | "[" | "]" | "," | ":");
        text.push_str(if is_kept { token } else { ".." });
        rest = behind;
    }
    text
}

/// Whether a quoted text is what stands for a value that was redacted.
fn is_redacted(quoted: &str) -> bool {
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')) == Some(REDACTED)
}

/// Length of the quoted text that `text` begins with, with its quotes.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    let ends = |(_, letter): &(usize, char)| {
        let ends = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    };
    text.char_indices().skip(1).find(ends).map_or(text.len(), |(at, _)| at + 1)
}

/// What serde says of a value, without the value: ``invalid type: string "x", expected u32`` names it, as do others. A text
/// that a program wrote in an error of its own remains.
///
/// ```
/// use aether_core::payload::without_values;
/// let error = serde_json::from_str::<u32>("\"4111\"").unwrap_err();
/// assert_eq!(without_values(&error.to_string()), "invalid type: string .., expected u32 at line 1 column 6");
/// ```
pub fn without_values(reason: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(reason.len()), reason);
    let starts = ["invalid type: ", "invalid value: ", "unknown variant "];
    while let Some((at, start)) = starts.iter().filter_map(|start| Some((rest.find(start)?, *start))).min() {
        let (before, found) = rest.split_at(at + start.len());
        text.push_str(before);
        // The value ends where serde says what it expected. A text may hold quotes of the other kind.
        let opening =
            found.find(['"', '`']).filter(|at| found.find(", expected").is_none_or(|end| *at < end));
        let Some(opening) = opening else {
            rest = found;
            continue;
        };
        let (kind, value) = found.split_at(opening);
        let length = match value.starts_with('"') {
            true => quoted(value),
            false => ["`, expected ", "`, there are"]
                .iter()
                .filter_map(|end| value.find(end))
                .min()
                .map_or(value.len(), |at| at + 1),
        };
        text.push_str(kind);
        text.push_str(value.get(..length).filter(|value| is_redacted(value)).unwrap_or(".."));
        rest = value.get(length..).unwrap_or_default();
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use crate::vocabulary::payload::Payload;

    fn said<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let error = Payload::from_text(text.to_owned()).unwrap().decode::<T>().unwrap_err();
        error.to_string()
    }

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only its reading is looked at")]
    enum Kind {
        Known { pin: u32 },
    }

    #[test]
    fn no_value_is_shown() {
        let long = format!(
            r#"{{"password": "hunter2 \"and\": more","n":[8731,true,null],"rest":"{}"}}"#,
            "hunter2".repeat(40)
        );
        for (said, expected) in [
            (said::<u32>(r#""hunter2\", expected 8731""#), "invalid type: string .., expected u32"),
            (said::<u32>(r#""***""#), r#"invalid type: string "***", expected u32"#),
            (said::<Vec<u8>>(r#"["***"]"#), r#"starts "[\"***\"]""#),
            (said::<u8>("8731"), "invalid value: integer .., expected u8"),
            (said::<String>("8731.5"), "invalid type: floating point .., expected a string"),
            (said::<String>("{}"), "invalid type: map, expected a string"),
            (said::<Kind>(r#""hunter2`, x""#), "unknown variant .., expected `Known`"),
            (said::<Kind>(r#"{"Known":{"pin":"hunter2"}}"#), "invalid type: string .., expected u32"),
            (said::<Vec<u8>>(&long), r#"starts "{\"password\": ..,\"n\":[..,..,null],\"rest\":..""#),
            (said::<Kind>(r#"{"Known":{"password":"hunter2"}}"#), "missing field `pin`"),
        ] {
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains("hunter2") && !said.contains("8731"), "{said}");
        }
    }
}
