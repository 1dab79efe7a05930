//! Forms for values: from a JSON Schema where one is known, else from the shape of the value itself.
//!
//! Promise: a form that is sent back as it was shown gives the value that it was made of, byte for byte; a field that
//! was not changed keeps what it held, whatever browsers do to line ends.

use serde_json::{Map, Value};

use crate::access::form::Form;
use crate::text::json::line;

/// Prefix of the names of fields.
const PREFIX: &str = "arg.";
/// Name of the field that holds a whole value, where it is no object.
pub(crate) const WHOLE: &str = "value";

/// How a value is typed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Long,
    Number,
    Flag,
    Choice,
    Json,
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// Name in the value, and of the field with a prefix.
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) choices: Vec<String>,
    pub(crate) required: bool,
}

/// A text that was typed in is no value of its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub(crate) struct Unfit {
    field: String,
    why: String,
}

impl Field {
    pub(crate) fn input(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.text == "true"
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        let own = match self.kind {
            Kind::Text => "text",
            Kind::Long => "long",
            Kind::Number => "number",
            Kind::Flag => "flag",
            Kind::Choice => "choice",
            Kind::Json => "json",
        };
        own == kind
    }

    /// How many lines a field is high.
    pub(crate) fn lines(&self) -> usize {
        let wrapped = self.text.lines().map(|line| line.chars().count() / 70 + 1).sum::<usize>();
        (wrapped + 1).clamp(3, 14)
    }
}

/// The fields for an object; `None` where there are none to fill in.
pub(crate) fn fields(schema: Option<&Value>, value: Option<&Value>) -> Option<Vec<Field>> {
    let empty = Map::new();
    let object = value.and_then(Value::as_object);
    let declared = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    if declared.is_none() && object.is_none() {
        return None;
    }
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|known| known == name));
    let object = object.unwrap_or(&empty);
    let declared = declared.unwrap_or(&empty);
    let own = object.keys().filter(|name| !declared.contains_key(*name));
    let names: Vec<&String> = declared.keys().chain(own).collect();
    let fields = names.into_iter().map(|name| {
        let schema = declared.get(name).map(|part| resolved(schema, part));
        field(name, schema, object.get(name), is_required(name))
    });
    Some(fields.collect()).filter(|fields: &Vec<Field>| !fields.is_empty())
}

/// A part of a schema, with a reference into its definitions followed once.
fn resolved<'s>(whole: Option<&'s Value>, part: &'s Value) -> &'s Value {
    let pointer = part.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    pointer.and_then(|pointer| whole?.pointer(pointer)).unwrap_or(part)
}

fn field(name: &str, schema: Option<&Value>, value: Option<&Value>, required: bool) -> Field {
    let doc = schema.and_then(|schema| schema.get("description")).and_then(Value::as_str).unwrap_or_default();
    let choices = schema.and_then(|schema| schema.get("enum")).and_then(Value::as_array);
    let choices: Vec<String> =
        choices.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let value = value.or_else(|| schema?.get("default"));
    let kind = kind(schema, value, &choices);
    let text = match (kind, value) {
        (_, None) => String::new(),
        (Kind::Json, Some(value)) => serde_json::to_string_pretty(value).unwrap_or_default(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(value)) => value.to_string(),
    };
    Field { name: name.to_owned(), doc: line(doc, 300), kind, text, choices, required }
}

fn kind(schema: Option<&Value>, value: Option<&Value>, choices: &[String]) -> Kind {
    let declared = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str);
    match (declared, value) {
        (_, Some(Value::String(text))) if choices.contains(text) => Kind::Choice,
        (_, None) if !choices.is_empty() => Kind::Choice,
        // No field of a page holds these as they are.
        (_, Some(Value::String(text)))
            if text.contains(|c: char| c.is_control() && !"\n\r\t".contains(c)) =>
        {
            Kind::Json
        }
        (_, Some(Value::String(text))) if text.contains(['\n', '\r']) || text.len() > 80 => Kind::Long,
        (_, Some(Value::String(_))) => Kind::Text,
        (_, Some(Value::Number(_))) => Kind::Number,
        (_, Some(Value::Bool(_))) => Kind::Flag,
        (Some("string"), None) => Kind::Long,
        (Some("number" | "integer"), None) => Kind::Number,
        (Some("boolean"), None) => Kind::Flag,
        _ => Kind::Json,
    }
}

/// The value that was filled in, made of the one that the form was made of.
///
/// # Errors
/// [`Unfit`] where a text is no number or no JSON.
pub(crate) fn filled(fields: &[Field], original: Option<&Value>, form: &Form) -> Result<Value, Unfit> {
    let mut object = original.and_then(Value::as_object).cloned().unwrap_or_default();
    for field in fields {
        let text = match (field.kind, form.find(&field.input())) {
            (Kind::Flag, text) => if text.is_some() { "true" } else { "false" }.to_owned(),
            (_, Some(text)) => lines(text),
            (_, None) => continue,
        };
        if text == lines(&field.text) && (object.contains_key(&field.name) || text.is_empty()) {
            continue;
        }
        let unfit = |why: String| Unfit { field: field.name.clone(), why };
        let value = match field.kind {
            // An optional field that is left empty is left out.
            _ if text.is_empty() && !field.required && field.kind != Kind::Flag => {
                match object.get(&field.name) {
                    Some(Value::String(_)) => Value::String(text),
                    _ => {
                        object.remove(&field.name);
                        continue;
                    }
                }
            }
            Kind::Text | Kind::Long | Kind::Choice => Value::String(text),
            Kind::Flag => Value::Bool(text == "true"),
            Kind::Number => match serde_json::from_str(&text) {
                Ok(Value::Number(number)) => Value::Number(number),
                _ => return Err(unfit(format!("is no number: {:?}", line(&text, 40)))),
            },
            Kind::Json => {
                serde_json::from_str(&text).map_err(|error| unfit(format!("is no JSON: {error}")))?
            }
        };
        object.insert(field.name.clone(), value);
    }
    Ok(Value::Object(object))
}

/// A text with line ends as programs write them.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// A text, or JSON where the form says so.
///
/// # Errors
/// [`Unfit`] where it should be JSON and is none.
pub(crate) fn typed(form: &Form) -> Result<Value, Unfit> {
    let text = lines(form.get(WHOLE));
    match form.get("as") {
        "json" => serde_json::from_str(&text)
            .map_err(|error| Unfit { field: WHOLE.into(), why: format!("is no JSON: {error}") }),
        _ => Ok(Value::String(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use serde_json::json;

    async fn form(pairs: &[(String, String)]) -> Form {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(pairs);
        Form::read(Body::from(text.finish())).await.unwrap()
    }

    fn shown(fields: &[Field]) -> Vec<(String, String)> {
        let sent = fields.iter().filter(|field| field.kind != Kind::Flag || field.is_on());
        // As a browser sends it.
        sent.map(|field| (field.input(), lines(&field.text).replace('\n', "\r\n"))).collect()
    }

    #[tokio::test]
    async fn a_form_that_is_sent_back_as_it_was_shown_changes_nothing() {
        let schema = json!({ "properties": {
            "to": { "type": "string" }, "level": { "enum": ["low", "high"] }, "note": { "type": "string" },
            "count": { "type": "integer" }, "meta": { "$ref": "#/$defs/Meta" },
        }, "required": ["to"], "$defs": { "Meta": { "type": "object" } } });
        let value = json!({
            "to": "a\r\nb\nc", "level": "high", "count": 12345678901234567890_u64, "meta": { "z": 1, "a": [null] },
            "on": true, "off": false, "nothing": null, "empty": "", "price": 1.50,
            "bell": "a\u{7}\u{0}b", "old": "a\rb", "first": "\nx",
        });
        for schema in [Some(&schema), None] {
            let fields = fields(schema, Some(&value)).unwrap();
            let sent = form(&shown(&fields)).await;
            assert_eq!(filled(&fields, Some(&value), &sent).unwrap(), value);
        }
    }

    #[tokio::test]
    async fn what_is_filled_in_has_the_type_of_its_field() {
        let value = json!({ "count": 3, "on": true, "to": "ann", "meta": {} });
        let fields = fields(None, Some(&value)).unwrap();
        let sent = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, text)| (format!("arg.{name}"), (*text).to_owned())).collect::<Vec<_>>()
        };
        let edited = form(&sent(&[("count", "4"), ("to", "bob"), ("meta", "[1]")])).await;
        let edited = filled(&fields, Some(&value), &edited).unwrap();
        assert_eq!(edited, json!({ "count": 4, "on": false, "to": "bob", "meta": [1] }));
        for (name, text) in [("count", "four"), ("count", "\"4\""), ("meta", "{")] {
            let refused = filled(&fields, Some(&value), &form(&sent(&[(name, text)])).await).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }
}
