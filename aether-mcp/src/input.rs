//! What a tool asks for in the middle of a call, and what is answered.
//!
//! Promise: an answer that does not fit the requested schema is refused before it is sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a tool asks for in the middle of a call. It is recorded and shown to the person who answers, as the request of a
/// question; see [`Contract::answered_by`](crate::Contract::answered_by) for answers of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputQuestion {
    /// The server that asks, as the program calls it.
    pub server: String,
    /// The tool that was called.
    pub tool: String,
    /// The server's key of the question: one call may ask several.
    pub key: String,
    /// What the server says to the person.
    pub message: String,
    /// JSON Schema of the form to be filled in: an object of plain fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The page to be opened, where the question is not a form: the person does there what is to be done, and accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The answer to an [`InputQuestion`]; give it by `engine.answer(..)`.
///
/// ```
/// use aether_mcp::InputAnswer;
/// use serde_json::json;
/// let answer = InputAnswer::accept(&json!({ "amount": 12 }));
/// assert_eq!(serde_json::to_value(answer).unwrap(), json!({ "action": "accept", "content": { "amount": 12 } }));
/// assert_eq!(serde_json::to_value(InputAnswer::Decline).unwrap(), json!({ "action": "decline" }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum InputAnswer {
    /// The form, filled in; for a page that was to be opened, nothing.
    Accept {
        /// The fields of the form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Map<String, Value>>,
    },
    /// The person says no. The tool is told, and goes on or ends as it likes.
    Decline,
    /// Nobody answered: the person closed the form, or the time was over.
    Cancel,
}

impl InputAnswer {
    /// A form that is filled in with the fields of `content`, something that serializes to a JSON object. Anything else is an
    /// answer without fields.
    pub fn accept(content: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_value(content) {
            Ok(Value::Object(content)) => Self::Accept { content: Some(content) },
            _ => Self::Accept { content: None },
        }
    }
}

impl InputQuestion {
    /// Reads a request of the server. An error says what it is instead.
    pub(crate) fn read(server: &str, tool: &str, key: &str, request: &Value) -> Result<Self, String> {
        let method = request["method"].as_str().unwrap_or_default();
        if method != "elicitation/create" {
            return Err(format!("`{method}` (request `{key}`), which this client does not offer"));
        }
        let params = &request["params"];
        let text = |name: &str| params[name].as_str().map(str::to_owned);
        let url = text("url").filter(|_| params["mode"] == "url");
        let schema = params.get("requestedSchema").filter(|_| url.is_none()).cloned();
        if url.is_none() && schema.is_none() {
            return Err(format!("an elicitation without a schema and without a URL (request `{key}`)"));
        }
        let message = text("message").unwrap_or_default();
        Ok(Self { server: server.into(), tool: tool.into(), key: key.into(), message, schema, url })
    }

    /// What is wrong with an answer.
    pub(crate) fn check(&self, answer: &InputAnswer) -> Result<(), String> {
        match (answer, &self.schema) {
            (InputAnswer::Accept { content: Some(_) }, None) if self.url.is_some() => {
                Err("a page that was to be opened is accepted without content".into())
            }
            (InputAnswer::Accept { content }, Some(schema)) => {
                let empty = Map::new();
                fits(schema, content.as_ref().unwrap_or(&empty))
            }
            _ => Ok(()),
        }
    }
}

/// Checks a form against its schema: an object of plain fields, as the protocol restricts it. Words of the schema that are not
/// known here are left to the server.
fn fits(schema: &Value, content: &Map<String, Value>) -> Result<(), String> {
    let no_fields = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&no_fields);
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !content.contains_key(name) {
            return Err(format!("the field `{name}` is missing"));
        }
    }
    for (name, value) in content {
        let Some(field) = fields.get(name) else {
            let known: Vec<_> = fields.keys().map(String::as_str).collect();
            return Err(format!("there is no field `{name}`; the fields are: {}", known.join(", ")));
        };
        field_fits(field, value).map_err(|wrong| format!("the field `{name}` {wrong}"))?;
    }
    Ok(())
}

fn field_fits(field: &Value, value: &Value) -> Result<(), String> {
    let is =
        |right: bool, what: &str| if right { Ok(()) } else { Err(format!("is {value}, and not {what}")) };
    match field["type"].as_str() {
        Some("string") => is(value.is_string(), "a text")?,
        Some("boolean") => is(value.is_boolean(), "true or false")?,
        Some("integer") => {
            is(value.as_f64().is_some_and(|number| number.fract() == 0.0), "a whole number")?;
        }
        Some("number") => is(value.is_number(), "a number")?,
        Some("array") => return list_fits(field, value),
        _ => {}
    }
    if let Some(choices) = choices(field)
        && !choices.contains(value)
    {
        return Err(format!("is {value}, and must be one of {}", Value::Array(choices)));
    }
    in_range(value.as_f64(), &field["minimum"], &field["maximum"])?;
    let length = value.as_str().map(|text| text.chars().count() as f64);
    in_range(length, &field["minLength"], &field["maxLength"])
        .map_err(|wrong| format!("has a length that {wrong}"))
}

fn list_fits(field: &Value, value: &Value) -> Result<(), String> {
    let Some(items) = value.as_array() else { return Err(format!("is {value}, and not a list")) };
    in_range(Some(items.len() as f64), &field["minItems"], &field["maxItems"])
        .map_err(|wrong| format!("has a number of entries that {wrong}"))?;
    items.iter().try_for_each(|item| field_fits(&field["items"], item))
}

fn in_range(number: Option<f64>, least: &Value, most: &Value) -> Result<(), String> {
    let Some(number) = number else { return Ok(()) };
    match (least.as_f64(), most.as_f64()) {
        (Some(least), _) if number < least => Err(format!("is {number}, and less than {least}")),
        (_, Some(most)) if number > most => Err(format!("is {number}, and more than {most}")),
        _ => Ok(()),
    }
}

/// The values that a field may have, where they are listed: `enum`, or titled ones (`oneOf`, `anyOf`).
fn choices(field: &Value) -> Option<Vec<Value>> {
    if let Some(values) = field["enum"].as_array() {
        return Some(values.clone());
    }
    let titled = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array())?;
    let values: Vec<_> = titled.iter().filter_map(|choice| choice.get("const").cloned()).collect();
    (values.len() == titled.len()).then_some(values)
}

/// Questions of one round, by the server's keys, as the wire has them.
pub(crate) type Requests = BTreeMap<String, Value>;

/// Answers of one round, by the server's keys.
pub(crate) type Responses = BTreeMap<String, InputAnswer>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(schema: Value) -> InputQuestion {
        let request = json!({ "method": "elicitation/create", "params": { "message": "?", "requestedSchema": schema } });
        InputQuestion::read("bank", "pay", "k", &request).unwrap()
    }

    #[test]
    fn a_form_is_checked_field_by_field() {
        let asked = question(json!({
            "type": "object",
            "properties": {
                "amount": { "type": "integer", "minimum": 1, "maximum": 100 },
                "rate": { "type": "number" },
                "sure": { "type": "boolean" },
                "to": { "type": "string", "minLength": 2, "maxLength": 4 },
                "way": { "type": "string", "enum": ["post", "bank"] },
                "titled": { "type": "string", "oneOf": [{ "const": "a", "title": "A" }] },
                "many": { "type": "array", "minItems": 1, "items": { "type": "string", "enum": ["x", "y"] } },
            },
            "required": ["amount"],
        }));
        let wrong = |content: Value| asked.check(&InputAnswer::accept(&content)).unwrap_err();
        for content in [
            json!({ "amount": 7 }),
            json!({ "amount": 7.0, "rate": 1.5, "sure": true, "to": "äöü", "way": "post", "titled": "a", "many": ["x"] }),
        ] {
            assert_eq!(asked.check(&InputAnswer::accept(&content)), Ok(()), "{content}");
        }
        for (content, words) in [
            (json!({}), "`amount` is missing"),
            (json!({ "amount": 7.5 }), "a whole number"),
            (json!({ "amount": "7" }), "a whole number"),
            (json!({ "amount": 0 }), "less than 1"),
            (json!({ "amount": 101 }), "more than 100"),
            (json!({ "amount": 7, "rate": null }), "a number"),
            (json!({ "amount": 7, "sure": 1 }), "true or false"),
            (json!({ "amount": 7, "to": "a" }), "less than 2"),
            (json!({ "amount": 7, "to": "abcde" }), "more than 4"),
            (json!({ "amount": 7, "way": "fax" }), "must be one of"),
            (json!({ "amount": 7, "titled": "b" }), "must be one of"),
            (json!({ "amount": 7, "many": [] }), "less than 1"),
            (json!({ "amount": 7, "many": ["z"] }), "must be one of"),
            (json!({ "amount": 7, "many": "x" }), "not a list"),
            (json!({ "amount": 7, "tip": 1 }), "there is no field `tip`"),
        ] {
            assert!(wrong(content.clone()).contains(words), "{content}: {}", wrong(content.clone()));
        }
        assert_eq!(asked.check(&InputAnswer::Decline), Ok(()));
        assert_eq!(asked.check(&InputAnswer::Cancel), Ok(()));
    }

    #[test]
    fn a_page_is_accepted_without_content_and_other_requests_are_refused() {
        let page = json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "?", "url": "https://a.b" } });
        let page = InputQuestion::read("bank", "pay", "k", &page).unwrap();
        assert_eq!((page.url.as_deref(), &page.schema), (Some("https://a.b"), &None));
        assert_eq!(page.check(&InputAnswer::Accept { content: None }), Ok(()));
        assert!(page.check(&InputAnswer::accept(&json!({ "a": 1 }))).is_err());
        for request in [
            json!({ "method": "sampling/createMessage", "params": {} }),
            json!({ "method": "elicitation/create", "params": { "message": "?" } }),
            json!(7),
        ] {
            assert!(InputQuestion::read("bank", "pay", "k", &request).is_err(), "{request}");
        }
    }
}
