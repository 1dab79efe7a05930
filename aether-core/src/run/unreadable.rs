//! Recorded values that the code of today cannot read: what they are, where, and what to do about it.
//!
//! Promise: such a value is never an error of the workflow. The run stops, and resumes with code that reads the value. What is
//! said of it shows names of members and kinds of values, and no values: they may be secrets.

use std::fmt;

use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::PayloadError;

/// A recorded value that does not decode into the type that the code has for it now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The run that stopped.
    pub run: RunId,
    /// The command whose value it is.
    pub command: CommandId,
    /// What the value is, for example `result`.
    pub what: &'static str,
    /// Where the command stood in the source that recorded the value, as `file:line`, where that is known.
    pub recorded_site: Option<String>,
    /// Where it is now.
    pub site: Option<String>,
    /// What the decoder said, without the values that it names.
    pub error: PayloadError,
}

impl Unreadable {
    /// Replaces the values in what the decoder said: a text that a user wrote in an error of their own remains.
    pub(crate) fn without_values(error: PayloadError) -> PayloadError {
        match error {
            PayloadError::Decode { ty, reason, start } => {
                PayloadError::Decode { ty, reason: reason_without_values(&reason), start: outline(&start) }
            }
            other => other,
        }
    }
}

/// The start of a JSON text with two dots for each value.
fn outline(start: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(start.len()), start);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => quoted(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => rest.find(['{', '}', '[', ']', ',', ':', '"']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        let is_name = first == '"' && behind.trim_start().starts_with(':');
        let is_kept = is_name || matches!(token.trim(), "" | "null" | "{" | "}" | "[" | "]" | "," | ":");
        text.push_str(if is_kept { token } else { ".." });
        rest = behind;
    }
    text
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

/// What serde says of a value, without the value: ``invalid type: string "x", expected u32`` names it, as do others.
fn reason_without_values(reason: &str) -> String {
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
        text.push_str("..");
        rest = value.get(length..).unwrap_or_default();
    }
    text + rest
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, command, what, recorded_site, site, error } = self;
        write!(f, "run `{run}`: the recorded {what} of `{command}`")?;
        if let Some(site) = site {
            write!(f, " at {site}")?;
        }
        if let Some(recorded) = recorded_site.as_ref().filter(|recorded| Some(*recorded) != site.as_ref()) {
            write!(f, ", recorded at {recorded},")?;
        }
        write!(
            f,
            " is not what the code reads there now: {error}; nothing of the run was lost: let the type read the recorded JSON too, with `#[serde(default)]` or `#[accepts(..)]`, or restore the code that recorded it"
        )
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::payload::Payload;

    fn said<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let error = Payload::from_text(text.to_owned()).unwrap().decode::<T>().unwrap_err();
        Unreadable::without_values(error).to_string()
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
