//! Where two recorded values differ, as people read it: paths with both values.
//!
//! Promise: at most [`SHOWN`] differences are kept, each value cut to [`LONGEST`] characters; what looks like a secret is
//! masked.

use std::fmt;

use serde_json::Value;

use crate::vocabulary::masking::Masking;
use crate::vocabulary::payload::Payload;

/// How many differences are kept.
const SHOWN: usize = 8;
/// How many characters of a value are kept.
const LONGEST: usize = 120;

/// One place at which two values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueChange {
    /// Where: names of members joined by dots, items of an array as `[0]`; empty for the whole value.
    pub path: String,
    /// The start of the recorded value as JSON; `None` where nothing is recorded there.
    pub recorded: Option<String>,
    /// The start of the value that the code passes now as JSON; `None` where it passes none.
    pub requested: Option<String>,
}

impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        match (&self.recorded, &self.requested) {
            (Some(recorded), Some(requested)) => write!(f, "recorded {recorded}, now {requested}"),
            (Some(recorded), None) => write!(f, "recorded {recorded}, now absent"),
            (None, Some(requested)) => write!(f, "not recorded, now {requested}"),
            (None, None) => f.write_str("equal"),
        }
    }
}

/// Where two values differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueChanges {
    /// The first differences, in the order of their paths.
    pub shown: Vec<ValueChange>,
    /// How many there are beside those.
    pub more: usize,
}

impl fmt::Display for ValueChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, change) in self.shown.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{change}")?;
        }
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

impl ValueChanges {
    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The differences between a recorded value and one that is passed now.
    pub(crate) fn between(recorded: &Payload, requested: &Payload) -> Self {
        let masking = Masking::standard();
        let masked = |payload: &Payload| serde_json::from_str(&masking.redact(payload.as_str())).ok();
        let (Ok(old), Ok(new)) = (recorded.decode::<Value>(), requested.decode::<Value>()) else {
            return Self::default();
        };
        // Compared as they are, shown as they are masked: two secrets that differ are a difference.
        let (shown_old, shown_new) = (masked(recorded), masked(requested));
        let mut changes = Self::default();
        changes.compare(
            &mut String::new(),
            (Some(&old), shown_old.as_ref()),
            (Some(&new), shown_new.as_ref()),
        );
        changes
    }

    fn compare(&mut self, path: &mut String, old: Sides<'_>, new: Sides<'_>) {
        match (old.0, new.0) {
            (Some(one), Some(other)) if one == other => {}
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                let added = other.keys().filter(|name| !one.contains_key(*name));
                for name in one.keys().chain(added) {
                    let member = if path.is_empty() { name.clone() } else { format!(".{name}") };
                    self.below(path, &member, name.as_str(), (old, new));
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                for at in 0..one.len().max(other.len()) {
                    self.below(path, &format!("[{at}]"), at, (old, new));
                }
            }
            _ => self.add(path, old.1.filter(|_| old.0.is_some()), new.1.filter(|_| new.0.is_some())),
        }
    }

    fn below<I>(&mut self, path: &mut String, step: &str, index: I, (old, new): (Sides<'_>, Sides<'_>))
    where
        I: serde_json::value::Index + Copy,
    {
        let start = path.len();
        path.push_str(step);
        self.compare(path, at(old, index), at(new, index));
        path.truncate(start);
    }

    fn add(&mut self, path: &str, recorded: Option<&Value>, requested: Option<&Value>) {
        if self.shown.len() == SHOWN {
            self.more += 1;
            return;
        }
        let (recorded, requested) = (recorded.map(start_of), requested.map(start_of));
        self.shown.push(ValueChange { path: path.to_owned(), recorded, requested });
    }
}

/// A value, and how it is shown.
type Sides<'a> = (Option<&'a Value>, Option<&'a Value>);

fn at<I: serde_json::value::Index + Copy>((value, shown): Sides<'_>, index: I) -> Sides<'_> {
    (value.and_then(|value| value.get(index)), shown.and_then(|shown| shown.get(index)))
}

fn start_of(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(recorded: &str, requested: &str) -> String {
        let payload = |text: &str| Payload::from_text(text.to_owned()).unwrap();
        ValueChanges::between(&payload(recorded), &payload(requested)).to_string()
    }

    #[test]
    fn differences_are_named_by_their_paths() {
        assert_eq!(
            between(
                r#"{"order":{"id":7,"lines":[1,2]},"to":"ann"}"#,
                r#"{"order":{"id":8,"lines":[1,2,3]},"vip":true}"#
            ),
            "`order.id`: recorded 7, now 8; `order.lines[2]`: not recorded, now 3; `to`: recorded \"ann\", now absent; `vip`: not recorded, now true"
        );
        assert_eq!(between("7", "[7]"), "recorded 7, now [7]");
    }

    #[test]
    fn secrets_are_masked_and_long_values_cut() {
        assert_eq!(
            between(r#"{"password":"first"}"#, r#"{"password":"second"}"#),
            r#"`password`: recorded "***", now "***""#
        );
        let long = between(&format!("\"{}\"", "x".repeat(500)), "1");
        assert!(long.len() < 200, "{long}");
        let many = |value: u8| format!("[{}]", vec![value.to_string(); 20].join(","));
        assert!(between(&many(1), &many(2)).ends_with("; and 12 more"));
    }
}
