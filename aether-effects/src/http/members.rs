//! The order of an object's members in JSON text.
//!
//! Promise: numbers and strings stay as they are written.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The JSON text `text` with the members of its objects in the order in which `model` has them; others come behind them, as
/// they came. `None` where one of them is no JSON.
pub(super) fn in_order_of(model: &str, text: &str) -> Option<String> {
    let (model, text): (&RawValue, &RawValue) =
        (serde_json::from_str(model).ok()?, serde_json::from_str(text).ok()?);
    ordered(model, text, DEEPEST).ok().map(|ordered| ordered.get().to_owned())
}

/// How many objects and lists in each other are looked into, as most parsers of JSON do: a text is as deep as somebody likes.
const DEEPEST: usize = 127;

fn ordered(model: &RawValue, value: &RawValue, deepest: usize) -> serde_json::Result<Box<RawValue>> {
    let (text, of_model) = (value.get(), model.get());
    let (false, Some(deepest)) = (text == of_model, deepest.checked_sub(1)) else {
        return Ok(value.to_owned());
    };
    if let (Ok(Members(of_model)), Ok(Members(mut members))) =
        (serde_json::from_str(of_model), serde_json::from_str(text))
    {
        let models: HashMap<&str, (usize, &RawValue)> =
            of_model.iter().enumerate().map(|(at, (name, value))| (name.as_str(), (at, &**value))).collect();
        members.sort_by_key(|(name, _)| models.get(name.as_str()).map_or(usize::MAX, |(at, _)| *at));
        for (name, value) in &mut members {
            if let Some((_, model)) = models.get(name.as_str()) {
                *value = ordered(model, value, deepest)?;
            }
        }
        return serde_json::value::to_raw_value(&Members(members));
    }
    let lists: (serde_json::Result<Vec<&RawValue>>, serde_json::Result<Vec<&RawValue>>) =
        (serde_json::from_str(of_model), serde_json::from_str(text));
    if let (Ok(models), Ok(items)) = lists {
        let item = |(at, item): (usize, &&RawValue)| {
            models.get(at).map_or(Ok((*item).to_owned()), |model| ordered(model, item, deepest))
        };
        let items: Vec<Box<RawValue>> = items.iter().enumerate().map(item).collect::<Result<_, _>>()?;
        return serde_json::value::to_raw_value(&items);
    }
    Ok(value.to_owned())
}

/// The members of an object, in their order.
struct Members(Vec<(String, Box<RawValue>)>);

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
}
