//! The order of an object's members in JSON text.
//!
//! Promise: numbers and strings stay as they are written. What is nested deeper than a recorded value may be stays as it is.

use std::collections::{HashMap, HashSet};
use std::fmt;

use aether_core::payload::NESTING;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The JSON text `text` with the members of its objects in the order in which `model` has them. A member that has another name
/// in the model, as one has whose name is redacted there, takes the place of such a one; what is left comes behind them, as it
/// came. `None` where one of them is no JSON.
pub(super) fn in_order_of(model: &str, text: &str) -> Option<String> {
    let (model, text): (&RawValue, &RawValue) =
        (serde_json::from_str(model).ok()?, serde_json::from_str(text).ok()?);
    ordered(model, text, NESTING).ok().map(|ordered| ordered.get().to_owned())
}

fn ordered(model: &RawValue, value: &RawValue, levels: usize) -> serde_json::Result<Box<RawValue>> {
    let Some(levels) = levels.checked_sub(1) else { return Ok(value.to_owned()) };
    let (text, of_model) = (value.get(), model.get());
    if let (Ok(Members(of_model)), Ok(Members(members))) =
        (serde_json::from_str(of_model), serde_json::from_str(text))
    {
        return serde_json::value::to_raw_value(&Members(placed(&of_model, members, levels)?));
    }
    let lists: (serde_json::Result<Vec<&RawValue>>, serde_json::Result<Vec<&RawValue>>) =
        (serde_json::from_str(of_model), serde_json::from_str(text));
    if let (Ok(models), Ok(items)) = lists {
        let item = |(at, item): (usize, &&RawValue)| {
            models.get(at).map_or(Ok((*item).to_owned()), |model| ordered(model, item, levels))
        };
        let items: Vec<Box<RawValue>> = items.iter().enumerate().map(item).collect::<Result<_, _>>()?;
        return serde_json::value::to_raw_value(&items);
    }
    Ok(value.to_owned())
}

/// The members of an object in the order of `model`.
fn placed(model: &[Member], members: Vec<Member>, levels: usize) -> serde_json::Result<Vec<Member>> {
    let places: HashMap<&str, usize> =
        model.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
    let names: HashSet<String> = members.iter().map(|(name, _)| name.clone()).collect();
    let unnamed = model.iter().enumerate().filter(|(_, (name, _))| !names.contains(name));
    let mut unnamed = unnamed.map(|(at, _)| at);
    let mut placed = Vec::with_capacity(members.len());
    for (name, value) in members {
        let at = places.get(name.as_str()).copied().or_else(|| unnamed.next());
        let value = match at.and_then(|at| model.get(at)) {
            Some((_, model)) => ordered(model, &value, levels)?,
            None => value,
        };
        placed.push((at.unwrap_or(usize::MAX), (name, value)));
    }
    placed.sort_by_key(|(at, _)| *at);
    Ok(placed.into_iter().map(|(_, member)| member).collect())
}

/// Puts the members of the JSON body of a request, as it stands in a journal, in the order of their names, without spaces
/// between them; those of a hash map have another order in each process. Says whether it changed something.
#[doc(hidden)]
pub fn sort_body(request: &mut Value) -> bool {
    let Some(Value::String(text)) = request.pointer_mut("/body/text") else { return false };
    let Ok(body) = serde_json::from_str(text) else { return false };
    let Ok(sorted) = sorted(body, NESTING) else { return false };
    let is_changed = sorted.get() != text.as_str();
    sorted.get().clone_into(text);
    is_changed
}

fn sorted(value: &RawValue, levels: usize) -> serde_json::Result<Box<RawValue>> {
    let Some(levels) = levels.checked_sub(1) else { return Ok(value.to_owned()) };
    if let Ok(Members(mut members)) = serde_json::from_str(value.get()) {
        members.sort_by(|(name, _), (other, _)| name.cmp(other));
        for (_, value) in &mut members {
            *value = sorted(value, levels)?;
        }
        return serde_json::value::to_raw_value(&Members(members));
    }
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        let items =
            items.into_iter().map(|item| sorted(item, levels)).collect::<serde_json::Result<Vec<_>>>();
        return serde_json::value::to_raw_value(&items?);
    }
    Ok(value.to_owned())
}

/// A member of an object.
type Member = (String, Box<RawValue>);

/// The members of an object, in their order.
struct Members(Vec<Member>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_the_order_of_the_model_wherever_they_are() {
        for (model, text, ordered) in [
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#, Some(r#"{"b":1,"a":2}"#)),
            (
                r#"[{"b":{"y":1,"x":1}}]"#,
                r#"[{"c":7,"b":{"x":1.10,"y":2}},3]"#,
                Some(r#"[{"b":{"y":2,"x":1.10},"c":7},3]"#),
            ),
            // Wide integers, and texts with escapes, are the same ones behind it.
            (
                r#"{"b":0,"a":0}"#,
                r#"{"a":123456789012345678901234567890,"b":"\u00e9"}"#,
                Some(r#"{"b":"\u00e9","a":123456789012345678901234567890}"#),
            ),
            (r#"{"a":1}"#, r#"[2,1]"#, Some("[2,1]")),
            ("[1,2]", "[2,1]", Some("[2,1]")),
            ("7", r#"{"b":1,"a":1}"#, Some(r#"{"b":1,"a":1}"#)),
            // One that has another name in the model is where such a one is.
            (
                r#"{"***":{"y":1,"x":1},"a":1}"#,
                r#"{"a":2,"secret":{"x":3,"y":4}}"#,
                Some(r#"{"secret":{"y":4,"x":3},"a":2}"#),
            ),
            ("a=1&b=2", "{}", None),
            ("{}", "a=1&b=2", None),
        ] {
            assert_eq!(in_order_of(model, text).as_deref(), ordered, "{model} {text}");
        }
    }

    #[test]
    fn a_text_may_be_as_deep_as_it_likes() {
        let of = |version: u32, depth: usize| {
            let (lists, objects) = ("[".repeat(depth), r#"{"b":"#.repeat(depth));
            let ends = (format!("{version}{}", "]".repeat(depth)), format!("{version}{}", "}".repeat(depth)));
            format!(r#"{{"v":{version},"lists":{lists}{},"objects":{objects}{}}}"#, ends.0, ends.1)
        };
        for depth in [1, 126, 127, 128, 20_000] {
            let (model, text) = (of(1, depth), of(2, depth));
            let check = move || assert_eq!(in_order_of(&model, &text), Some(text));
            let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(check);
            thread.unwrap().join().unwrap();
        }
    }

    #[test]
    fn the_body_of_a_request_has_its_members_in_the_order_of_their_names_wherever_they_are() {
        let sorted = |text: &str| {
            let mut request = serde_json::json!({ "url": "https://h/?b=1&a=2", "body": { "text": text } });
            let is_changed = sort_body(&mut request);
            assert_eq!(request["url"], "https://h/?b=1&a=2");
            (request["body"]["text"].as_str().unwrap().to_owned(), is_changed)
        };
        let nested = r#"{"a":[{"x":"\u00e9","y":1.10}],"b":123456789012345678901234567890}"#;
        for text in [
            r#"{"a":[{"x":"\u00e9","y":1.10}],"b":123456789012345678901234567890}"#,
            r#"{"b":123456789012345678901234567890,"a":[{"y":1.10,"x":"\u00e9"}]}"#,
            r#"{ "b": 123456789012345678901234567890, "a": [ {"y": 1.10, "x": "\u00e9"} ] }"#,
        ] {
            assert_eq!(sorted(text), (nested.to_owned(), text != nested), "{text}");
        }
        // One of two members of a name is not the other one, and a text that is no JSON is none.
        assert_eq!(sorted(r#"{"b":2,"a":1,"b":1}"#).0, r#"{"a":1,"b":2,"b":1}"#);
        assert_eq!(sorted("b=1&a=2"), ("b=1&a=2".to_owned(), false));
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(sorted(&deep), (deep.clone(), false));
        assert_eq!(in_order_of(&deep, &deep), Some(deep));
        assert!(!sort_body(&mut serde_json::json!({ "body": { "base64": "{}" } })));
    }
}
