//! JSON with every digit of its numbers.
//!
//! Promise: a number is the text that stands in the value. A `serde_json::Value` rounds an integer of more than 64 bits and a
//! fraction of more digits than a double has; what is shown to somebody who decides is read here instead.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Deepest nesting that is read: as deep as a recorded value is.
const NESTING: usize = aether_core::payload::NESTING;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    Object(BTreeMap<String, Exact>),
    Array(Vec<Exact>),
    Text(String),
    /// As it stands in the text.
    Number(String),
    /// `true`, `false` or `null`.
    Word(String),
}

impl Exact {
    /// Reads a text; `None` where it is no JSON, or nested too deep.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().and_then(|raw| Self::of(raw, NESTING))
    }

    fn of(raw: &RawValue, depth: usize) -> Option<Self> {
        let text = raw.get();
        Some(match text.as_bytes().first()? {
            b'{' => {
                let depth = depth.checked_sub(1)?;
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
                let read = members.into_iter().map(|(name, own)| Some((name, Self::of(own, depth)?)));
                Self::Object(read.collect::<Option<_>>()?)
            }
            b'[' => {
                let depth = depth.checked_sub(1)?;
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::Array(items.into_iter().map(|own| Self::of(own, depth)).collect::<Option<_>>()?)
            }
            b'"' => Self::Text(serde_json::from_str(text).ok()?),
            b't' | b'f' | b'n' => Self::Word(text.to_owned()),
            _ => Self::Number(text.to_owned()),
        })
    }

    /// Whether a `serde_json::Value` holds the same, digit for digit.
    pub(crate) fn is_kept(&self) -> bool {
        match self {
            Self::Object(members) => members.values().all(Self::is_kept),
            Self::Array(items) => items.iter().all(Self::is_kept),
            Self::Number(text) => is_kept(text),
            Self::Text(_) | Self::Word(_) => true,
        }
    }

    /// The members of an object that a `serde_json::Value` would change.
    pub(crate) fn rounded(&self) -> Vec<&str> {
        match self {
            Self::Object(members) => {
                members.iter().filter(|(_, own)| !own.is_kept()).map(|(name, _)| name.as_str()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The text, indented.
    pub(crate) fn pretty(&self) -> String {
        let mut text = String::new();
        self.lay_out(&mut text, 0);
        text
    }

    fn lay_out(&self, text: &mut String, depth: usize) {
        let line = |text: &mut String, depth: usize| {
            text.push('\n');
            text.push_str(&"  ".repeat(depth));
        };
        match self {
            Self::Object(members) if !members.is_empty() => {
                text.push('{');
                for (at, (name, own)) in members.iter().enumerate() {
                    text.push_str(if at > 0 { "," } else { "" });
                    line(text, depth + 1);
                    text.push_str(&quoted(name));
                    text.push_str(": ");
                    own.lay_out(text, depth + 1);
                }
                line(text, depth);
                text.push('}');
            }
            Self::Array(items) if !items.is_empty() => {
                text.push('[');
                for (at, own) in items.iter().enumerate() {
                    text.push_str(if at > 0 { "," } else { "" });
                    line(text, depth + 1);
                    own.lay_out(text, depth + 1);
                }
                line(text, depth);
                text.push(']');
            }
            Self::Object(_) => text.push_str("{}"),
            Self::Array(_) => text.push_str("[]"),
            Self::Text(own) => text.push_str(&quoted(own)),
            Self::Number(own) | Self::Word(own) => text.push_str(own),
        }
    }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Whether a number is the same once a program has read it into 64 bits.
fn is_kept(text: &str) -> bool {
    if !text.contains(['.', 'e', 'E']) {
        return text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    }
    match text.parse::<f64>() {
        Ok(read) if read.is_finite() => digits(text) == digits(&format!("{read:e}")),
        _ => false,
    }
}

/// The digits of a number without its point, exponent and zeros at either end, and the place of the first of them.
fn digits(text: &str) -> (String, i64) {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let number = number.strip_prefix('-').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = format!("{whole}{fraction}");
    let kept = all.trim_start_matches('0');
    let leading = (all.len() - kept.len()) as i64;
    let kept = kept.trim_end_matches('0');
    if kept.is_empty() {
        return (String::new(), 0);
    }
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
    (kept.to_owned(), exponent.saturating_add(whole.len() as i64).saturating_sub(leading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_is_kept_and_what_64_bits_would_round_is_told() {
        let kept = [
            "0",
            "-1",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            "1.50",
            "0.1",
            "1e3",
            "12.5E-2",
            "0.0",
            "-0.0",
            "100.0",
            "1.7976931348623157e308",
        ];
        for text in kept {
            assert!(Exact::read(text).unwrap().is_kept(), "{text}");
        }
        let rounded = [
            "18446744073709551616",
            "340282366920938463463374607431768211455",
            "-9223372036854775809",
            "0.12345678901234567890",
            "1e400",
            "1e-400",
            "90071992547409930000001.0",
        ];
        for text in rounded {
            let read = Exact::read(&format!("{{\"a\":[{text}],\"b\":1}}")).unwrap();
            assert!(!read.is_kept(), "{text}");
            assert_eq!(read.rounded(), ["a"]);
            assert!(read.pretty().contains(text), "{}", read.pretty());
        }
    }

    #[test]
    fn what_is_laid_out_is_the_value() {
        // Members by name: other features of `serde_json` in the build keep their order.
        let text = r#"{"a\"":"x\ny","b":[1,{"c":null},[],{}]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Exact::read(text).unwrap().pretty(), serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(Exact::read("{"), None);
        assert_eq!(Exact::read(&"[".repeat(100_000)), None);
        assert_eq!(Exact::read(&format!("{}{}", "[".repeat(NESTING + 1), "]".repeat(NESTING + 1))), None);
    }
}
