//! Rewriting JSON text value by value, without building a tree.
//!
//! Promise: what is not rewritten stays byte for byte: order of members, spelling of numbers, repeated keys. All that is
//! JSON is looked into, also where no text can hold what a string stands for (`"\ud800"`).

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting that is entered, with JSON inside strings ([`rewrite_inner`]); what is deeper is passed to the caller
/// as one opaque value.
const DEPTH: usize = 100;

/// A value that is neither an object nor an array.
#[derive(Debug)]
pub(crate) enum Leaf<'a> {
    /// A string, decoded; half of a surrogate pair is `U+FFFD`.
    Text(&'a str),
    /// A number as it is written.
    Number(&'a str),
    /// Something nested too deep to look into.
    Opaque,
}

/// The place of a leaf.
#[derive(Debug, Default)]
pub(crate) struct Place<'a> {
    /// Names of the members on the way, joined by dots; items of an array are `[]`.
    pub(crate) path: &'a str,
    /// Names of the members on the way.
    pub(crate) keys: &'a [String],
    /// How many arrays and objects are around it.
    depth: usize,
}

/// Rewrites the parts of a JSON text; `None` leaves a part unchanged.
pub(crate) trait Rewrite {
    /// A string, a number, or what is nested too deep: its new JSON text.
    fn leaf(&mut self, place: &Place<'_>, leaf: Leaf<'_>) -> Option<String>;

    /// The name of a member: its new name.
    fn key(&mut self, _key: &str) -> Option<String> {
        None
    }

    /// Whether to look into the member `key` of an object that has `depth` arrays and objects around it.
    fn enters(&self, _depth: usize, _key: &str) -> bool {
        true
    }
}

/// The members of an object in the order in which they are written.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Rewrites `text`, which is JSON. `None` where nothing changes, and for text that is not JSON.
pub(crate) fn rewrite(text: &str, rewriter: &mut dyn Rewrite) -> Option<String> {
    from(0, text, rewriter)
}

/// Rewrites the JSON that a string at `place` holds, as [`rewrite`] does. What is around the string counts as nesting: each
/// level of strings in strings could otherwise be as deep as the whole, and the stack would overflow.
pub(crate) fn rewrite_inner(place: &Place<'_>, text: &str, rewriter: &mut dyn Rewrite) -> Option<String> {
    from(place.depth, text, rewriter)
}

fn from(depth: usize, text: &str, rewriter: &mut dyn Rewrite) -> Option<String> {
    Walk { path: String::new(), keys: Vec::new(), depth, rewriter }.value(text)
}

struct Walk<'a> {
    path: String,
    keys: Vec<String>,
    depth: usize,
    rewriter: &'a mut dyn Rewrite,
}

impl Walk<'_> {
    fn value(&mut self, text: &str) -> Option<String> {
        let text = text.trim();
        match text.as_bytes().first()? {
            b'{' | b'[' if self.depth >= DEPTH => self.leaf(Leaf::Opaque),
            b'{' => self.object(&serde_json::from_str(text).ok()?),
            b'[' => self.array(&serde_json::from_str::<Vec<&RawValue>>(text).ok()?),
            b'"' => self.leaf(Leaf::Text(&decoded(text)?.0)),
            b'-' | b'0'..=b'9' => self.leaf(Leaf::Number(text)),
            _ => None,
        }
    }

    fn leaf(&mut self, leaf: Leaf<'_>) -> Option<String> {
        self.rewriter.leaf(&Place { path: &self.path, keys: &self.keys, depth: self.depth }, leaf)
    }

    fn object(&mut self, Members(members): &Members<'_>) -> Option<String> {
        let (mut changed, mut parts) = (false, Vec::with_capacity(members.len()));
        for (written, value) in members {
            let (key, is_whole) = decoded(written.get())?;
            let new = if self.rewriter.enters(self.depth, &key) { self.below(&key, value) } else { None };
            let name = self.rewriter.key(&key);
            changed |= new.is_some() || name.is_some();
            let value = new.as_deref().unwrap_or(value.get());
            match name {
                None if !is_whole => parts.push(format!("{}:{value}", written.get())),
                name => parts.push(format!("{}:{value}", quoted(name.as_ref().unwrap_or(&key)))),
            }
        }
        changed.then(|| format!("{{{}}}", parts.join(",")))
    }

    fn array(&mut self, items: &[&RawValue]) -> Option<String> {
        let new: Vec<_> = items.iter().map(|item| self.below("[]", item)).collect();
        let changed = new.iter().any(Option::is_some);
        let parts = items.iter().zip(&new).map(|(item, new)| new.as_deref().unwrap_or(item.get()));
        changed.then(|| format!("[{}]", parts.collect::<Vec<_>>().join(",")))
    }

    fn below(&mut self, key: &str, value: &RawValue) -> Option<String> {
        let end = self.path.len();
        if end > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.keys.push(key.to_owned());
        self.depth += 1;
        let new = self.value(value.get());
        self.depth -= 1;
        self.keys.pop();
        self.path.truncate(end);
        new
    }
}

/// What a JSON string stands for, and whether a text can hold all of it: JSON allows half of a surrogate pair.
fn decoded(string: &str) -> Option<(String, bool)> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    if let Ok(text) = serde_json::from_str(string) {
        return Some((text, true));
    }
    let bytes = serde_json::Deserializer::from_str(string).deserialize_bytes(Bytes).ok()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), false))
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Upper;
    impl Rewrite for Upper {
        fn leaf(&mut self, place: &Place<'_>, leaf: Leaf<'_>) -> Option<String> {
            match leaf {
                Leaf::Text(text) if place.path == "a.b" => Some(quoted(&text.to_uppercase())),
                Leaf::Opaque => Some("null".into()),
                _ => None,
            }
        }
    }

    #[test]
    fn only_what_is_rewritten_changes() {
        let text = r#"{"z":1.50,"a":{"b":"x\ny","c":123456789012345678901234567890},"z":[true,null]}"#;
        let expected = r#"{"z":1.50,"a":{"b":"X\nY","c":123456789012345678901234567890},"z":[true,null]}"#;
        assert_eq!(rewrite(text, &mut Upper).as_deref(), Some(expected));
        assert_eq!(rewrite(r#"{"b":"x"}"#, &mut Upper), None);
        assert_eq!(rewrite("not json", &mut Upper), None);
    }

    #[test]
    fn what_no_text_can_hold_is_looked_into_and_stays_as_it_is() {
        let text = r#"{"\ud800":1,"a":{"b":"xy","\udc00\n":{"b":"y"}},"c":"\ud800"}"#;
        let new = r#"{"\ud800":1,"a":{"b":"XY","\udc00\n":{"b":"y"}},"c":"\ud800"}"#;
        assert_eq!(rewrite(text, &mut Upper).as_deref(), Some(new));
        let new = rewrite(r#"{"a":{"b":"x\ud800"}}"#, &mut Upper).unwrap_or_default();
        assert!(new.starts_with("{\"a\":{\"b\":\"X\u{fffd}"), "{new}");
    }

    #[test]
    fn a_deep_nest_is_not_entered() {
        let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
        let rewritten = rewrite(&deep, &mut Upper);
        assert_eq!(rewritten, Some(format!("{}null{}", "[".repeat(DEPTH), "]".repeat(DEPTH))));
    }
}
