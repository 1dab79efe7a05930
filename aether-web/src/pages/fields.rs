//! Forms for values: from a JSON Schema where one is known, else from the shape of the value itself.
//!
//! Promise: a form that is sent back as it was shown gives the value that it was made of, byte for byte; a field that
//! was not changed keeps what it held, whatever browsers do to line ends. What a value does not hold is not in it
//! afterwards either, unless somebody filled it in. What holds a number that 64 bits would round is no field and stays as it
//! is; such a number that is filled in is refused. So is a field that the form does not have.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::payload::Payload;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::access::form::Form;
use crate::access::visit::part;
use crate::text::exact::Exact;
use crate::text::json::line;
use crate::text::markup::turns;

/// Prefix of the names of fields.
pub(crate) const PREFIX: &str = "arg.";
/// Name of the field that holds a whole value, where it is no object.
pub(crate) const WHOLE: &str = "value";

/// How a value is typed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Long,
    Number,
    /// True or false, where it is one of them already.
    Flag,
    /// True, false, or not set.
    Either,
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
    pub(crate) choices: Vec<Choice>,
    pub(crate) required: bool,
    /// Whether the value holds it.
    pub(crate) is_set: bool,
}

/// One of the texts that a field may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) title: String,
}

/// A text that was typed in is no value of its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub(crate) struct Unfit {
    field: String,
    why: String,
}

impl Unfit {
    pub(crate) fn new(field: &str, why: impl Into<String>) -> Self {
        Self { field: field.to_owned(), why: why.into() }
    }
}

impl Field {
    pub(crate) fn input(&self) -> String {
        format!("{PREFIX}{}", part(&self.name))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.text == "true"
    }

    /// Whether something must be filled in.
    pub(crate) fn must(&self) -> bool {
        self.required && !self.is_set
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        let own = match self.kind {
            Kind::Text => "text",
            Kind::Long => "long",
            Kind::Number => "number",
            Kind::Flag => "flag",
            Kind::Either => "either",
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

    /// What was filled in; `None` where it is left out.
    fn value(&self, text: String, held: Option<&Value>) -> Result<Option<Value>, Unfit> {
        let unfit = |why: String| Unfit { field: self.name.clone(), why };
        let is_text = matches!(held, Some(Value::String(_)));
        if text.is_empty() && held.is_none() && self.required {
            return Err(unfit("is needed, and was left empty".to_owned()));
        }
        // A field that is left empty is left out, unless it held a text, which may be empty.
        if text.is_empty() && !is_text && (held.is_none() || !self.required) {
            return Ok(None);
        }
        Ok(Some(match self.kind {
            Kind::Text | Kind::Long | Kind::Choice => Value::String(text),
            Kind::Flag => Value::Bool(text == "true"),
            Kind::Either => match &*text {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(unfit(format!("is neither true nor false: {:?}", line(&text, 40)))),
            },
            Kind::Number | Kind::Json if Exact::read(&text).is_some_and(|typed| !typed.is_kept()) => {
                let why = "holds a number of more digits than a form keeps: give it with the command line or the program";
                return Err(unfit(why.to_owned()));
            }
            Kind::Number => match serde_json::from_str(&text) {
                Ok(Value::Number(number)) => Value::Number(number),
                _ => return Err(unfit(format!("is no number: {:?}", line(&text, 40)))),
            },
            Kind::Json => {
                serde_json::from_str(&text).map_err(|error| unfit(format!("is no JSON: {error}")))?
            }
        }))
    }
}

/// The fields for an object, or for one that is not there yet; `None` where there are none to fill in. What the schema
/// has as a default is filled in beforehand only where there is no value: of one that was proposed, nothing is changed that
/// nobody changed.
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
        let own = declared.get(name);
        let doc = own.and_then(|own| own.get("description")).and_then(Value::as_str).unwrap_or_default();
        let schema = own.map(|part| resolved(schema, part));
        let default = schema.and_then(|schema| schema.get("default")).filter(|_| value.is_none());
        // Whether a call that leaves it out can be made, its step says.
        let is_asked = value.is_none() || object.contains_key(name);
        let required = is_asked && is_required(name) && !own.is_some_and(may_be_null);
        let field = field(name, schema, object.get(name).or(default), required);
        let doc = if doc.is_empty() { field.doc } else { line(doc, 300) };
        Field { doc, is_set: object.contains_key(name), ..field }
    });
    Some(fields.collect()).filter(|fields: &Vec<Field>| !fields.is_empty())
}

/// The arguments of a call, and the fields with which they are changed.
pub(crate) struct Edited {
    /// As a `Value` reads them.
    original: Value,
    fields: Vec<Field>,
    args: Payload,
}

impl Edited {
    /// Of arguments that are an object; `None` where there is nothing that a form can change.
    pub(crate) fn of(schema: Option<&Value>, args: &Payload) -> Option<Self> {
        let exact = Exact::read(args.as_str())?;
        let rounded = exact.rounded();
        if rounded.is_empty() && !exact.is_kept() {
            return None;
        }
        let members = serde_json::from_str::<Map<String, Value>>(&kept(&exact)?).ok()?;
        let original = Value::Object(members);
        let mut fields = fields(schema, Some(&original))?;
        fields.retain(|field| !rounded.contains(&field.name.as_str()));
        let args = args.clone();
        (!fields.is_empty()).then_some(Self { original, fields, args })
    }

    pub(crate) fn into_fields(self) -> Vec<Field> {
        self.fields
    }

    /// The arguments as the form changes them; `None` where it changes nothing.
    ///
    /// # Errors
    /// [`Unfit`] as for [`filled`].
    pub(crate) fn filled(&self, form: &Form) -> Result<Option<Box<RawValue>>, Unfit> {
        let value = filled(&self.fields, Some(&self.original), form)?;
        if value == self.original {
            return Ok(None);
        }
        let unfit = |error: serde_json::Error| Unfit::new(WHOLE, format!("cannot be changed here: {error}"));
        let Value::Object(mut changed) = value else { return Ok(None) };
        let held: BTreeMap<String, &RawValue> = serde_json::from_str(self.args.as_str()).map_err(unfit)?;
        let mut members = BTreeMap::new();
        for (name, own) in held {
            // What was not changed is the text that it was.
            let member = match (changed.remove(&name), self.original.get(&name)) {
                (Some(now), Some(before)) if now != *before => to_raw_value(&now).map_err(unfit)?,
                (None, Some(_)) => continue,
                _ => own.to_owned(),
            };
            members.insert(name, member);
        }
        for (name, own) in changed {
            members.insert(name, to_raw_value(&own).map_err(unfit)?);
        }
        to_raw_value(&members).map(Some).map_err(unfit)
    }
}

/// The text of an object without the members that a `Value` would change; `None` where it is no object.
fn kept(exact: &Exact) -> Option<String> {
    let Exact::Object(members) = exact else { return None };
    let kept = members.iter().filter(|(_, own)| own.is_kept());
    Some(Exact::Object(kept.map(|(name, own)| (name.clone(), own.clone())).collect()).pretty())
}

/// Whether a schema allows `null`, so that it is no matter whether the field is there.
fn may_be_null(schema: &Value) -> bool {
    let has_null = |kinds: &Value, is: &dyn Fn(&Value) -> bool| {
        kinds.as_array().is_some_and(|kinds| kinds.iter().any(is))
    };
    has_null(&schema["type"], &|kind| kind == "null")
        || has_null(&schema["anyOf"], &|kind| kind["type"] == "null")
}

/// A part of a schema: what it refers to in the definitions, and what it is where it may also be null.
fn resolved<'s>(whole: Option<&'s Value>, part: &'s Value) -> &'s Value {
    let kinds = part.get("anyOf").and_then(Value::as_array);
    let one = kinds.and_then(|kinds| {
        let mut some = kinds.iter().filter(|kind| kind.get("type").is_none_or(|kind| kind != "null"));
        some.next().filter(|_| some.next().is_none())
    });
    let part = one.unwrap_or(part);
    let pointer = part.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    pointer.and_then(|pointer| whole?.pointer(pointer)).unwrap_or(part)
}

fn field(name: &str, schema: Option<&Value>, value: Option<&Value>, required: bool) -> Field {
    let doc = schema.and_then(|schema| schema.get("description")).and_then(Value::as_str).unwrap_or_default();
    let choices = choices(schema);
    let kind = kind(schema, value, &choices);
    let text = match (kind, value) {
        (_, None) => String::new(),
        (Kind::Json, Some(value)) => json(value),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(value)) => value.to_string(),
    };
    Field {
        name: name.to_owned(),
        doc: line(doc, 300),
        kind,
        text,
        choices,
        required,
        is_set: value.is_some(),
    }
}

/// The texts that a field may hold, with what people call them; none where one of them cannot stand in a list of a page.
fn choices(schema: Option<&Value>) -> Vec<Choice> {
    let list = |name: &str| schema.and_then(|schema| schema.get(name)).and_then(Value::as_array);
    let choice = |known: &Value| match known {
        Value::String(value) => Some(Choice { value: value.clone(), title: value.clone() }),
        known => {
            let value = known.get("const")?.as_str()?;
            let title = known.get("title").and_then(Value::as_str).unwrap_or(value);
            Some(Choice { value: value.to_owned(), title: title.to_owned() })
        }
    };
    let found = list("enum").or_else(|| list("oneOf")).or_else(|| list("anyOf"));
    let all: Option<Vec<_>> = found.into_iter().flatten().map(choice).collect();
    let is_plain = |choice: &Choice| !choice.value.is_empty() && !is_odd(&choice.value);
    all.filter(|all| all.iter().all(is_plain)).unwrap_or_default()
}

/// Whether no field of a page holds a text as it is, or shows it as it is.
fn is_odd(text: &str) -> bool {
    text.contains(|c: char| turns(c) || (c.is_control() && !"\n\r\t".contains(c)))
}

/// JSON for a field: what turns the direction is escaped as JSON does it, so that it comes back the same.
fn json(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        if turns(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
        escaped
    })
}

fn kind(schema: Option<&Value>, value: Option<&Value>, choices: &[Choice]) -> Kind {
    let declared = schema.and_then(|schema| schema.get("type"));
    // With `null` beside it, where it may be left out.
    let declared = declared.and_then(|kind| match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    });
    match (declared, value) {
        (_, Some(Value::String(text))) if choices.iter().any(|choice| choice.value == *text) => Kind::Choice,
        (_, None) if !choices.is_empty() => Kind::Choice,
        (_, Some(Value::String(text))) if is_odd(text) => Kind::Json,
        (_, Some(Value::String(text))) if text.contains(['\n', '\r']) || text.len() > 80 => Kind::Long,
        (_, Some(Value::String(_))) => Kind::Text,
        (_, Some(Value::Number(_))) => Kind::Number,
        (_, Some(Value::Bool(_))) => Kind::Flag,
        (Some("string"), None) => Kind::Long,
        (Some("number" | "integer"), None) => Kind::Number,
        (Some("boolean"), None) => Kind::Either,
        _ => Kind::Json,
    }
}

/// The value that was filled in, made of the one that the form was made of.
///
/// # Errors
/// [`Unfit`] where a text is no number or no JSON, what is needed was left empty, or the form has a field that is not one of
/// these, or has one twice.
pub(crate) fn filled(fields: &[Field], original: Option<&Value>, form: &Form) -> Result<Value, Unfit> {
    let mut known: BTreeSet<String> = fields.iter().map(Field::input).collect();
    for name in form.names(PREFIX) {
        if !known.remove(name) {
            let why = "is no field of this form, or is there twice: load the page again. Nothing was done";
            return Err(Unfit::new(&line(name, 60), why));
        }
    }
    let mut object = original.and_then(Value::as_object).cloned().unwrap_or_default();
    for field in fields {
        let text = match (field.kind, form.find(&field.input())) {
            (Kind::Flag, text) => if text.is_some() { "true" } else { "false" }.to_owned(),
            (_, Some(text)) => lines(text),
            (_, None) => continue,
        };
        let held = object.get(&field.name);
        if held.is_some() && text == lines(&field.text) {
            continue;
        }
        match field.value(text, held)? {
            Some(value) => drop(object.insert(field.name.clone(), value)),
            None => drop(object.remove(&field.name)),
        }
    }
    Ok(Value::Object(object))
}

/// A text with line ends as programs write them.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// A text, JSON, or what it looks like, as the form says: as it was typed in, with every digit.
///
/// # Errors
/// [`Unfit`] where it should be JSON and is none.
pub(crate) fn typed(form: &Form) -> Result<Box<RawValue>, Unfit> {
    let text = lines(form.get(WHOLE));
    let json = || serde_json::from_str::<Box<RawValue>>(&text);
    let unfit = |error: serde_json::Error| Unfit::new(WHOLE, format!("is no JSON: {error}"));
    match (form.get("as"), json()) {
        ("json", json) => json.map_err(unfit),
        ("auto", Ok(json)) => Ok(json),
        _ => to_raw_value(&text).map_err(unfit),
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
            "bell": "a\u{7}\u{0}b", "old": "a\rb", "first": "\nx", "turned": "a\u{202e}b", "näme": 1,
        });
        for schema in [Some(&schema), None] {
            let fields = fields(schema, Some(&value)).unwrap();
            let sent = form(&shown(&fields)).await;
            assert_eq!(filled(&fields, Some(&value), &sent).unwrap(), value);
        }
    }

    fn tool() -> Value {
        json!({ "properties": {
            "to": { "type": "string" },
            "priority": { "type": "string", "enum": ["urgent", "normal"] },
            "tone": { "anyOf": [{ "$ref": "#/$defs/Tone" }, { "type": "null" }] },
            "save_draft": { "type": ["boolean", "null"] },
            "reply_to": { "type": "string", "default": "boss@example.com" },
            "copies": { "type": "integer", "default": 3 },
            "meta": { "type": "object", "default": {} },
        }, "required": ["to", "tone"], "$defs": { "Tone": { "oneOf": [{ "const": "warm" }, { "const": "dry", "title": "Dry" }] } } })
    }

    #[tokio::test]
    async fn what_a_call_leaves_out_is_not_put_into_it_by_a_form() {
        let value = json!({ "to": "ann" });
        let fields = fields(Some(&tool()), Some(&value)).unwrap();
        let of = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!(
            [of("priority").kind, of("tone").kind, of("save_draft").kind],
            [Kind::Choice, Kind::Choice, Kind::Either]
        );
        assert_eq!(
            of("tone").choices.iter().map(|choice| &*choice.title).collect::<Vec<_>>(),
            ["warm", "Dry"]
        );
        assert!(
            fields.iter().all(|field| field.name == "to" || field.text.is_empty()),
            "no default is filled in"
        );
        let sent = form(&shown(&fields)).await;
        assert_eq!(filled(&fields, Some(&value), &sent).unwrap(), value);
        // Also where the call leaves out what the schema needs: its step says what is wrong with that.
        let nothing =
            filled(&super::fields(Some(&tool()), Some(&json!({}))).unwrap(), Some(&json!({})), &sent);
        assert_eq!(nothing.unwrap(), json!({ "to": "ann" }));
        let set =
            [("arg.priority", "urgent"), ("arg.save_draft", "false"), ("arg.copies", "2"), ("arg.tone", "")];
        let set = form(&set.map(|(name, text)| (name.to_owned(), text.to_owned()))).await;
        let set = filled(&fields, Some(&value), &set).unwrap();
        assert_eq!(set, json!({ "to": "ann", "priority": "urgent", "save_draft": false, "copies": 2 }));
    }

    #[tokio::test]
    async fn a_question_shows_its_defaults_and_says_what_it_needs() {
        let fields = fields(Some(&tool()), None).unwrap();
        let sent = form(&shown(&fields)).await;
        let refused = filled(&fields, None, &sent).unwrap_err();
        assert!(refused.to_string().contains("`to` is needed"), "{refused}");
        let mut pairs = shown(&fields);
        pairs.iter_mut().find(|(name, _)| name == "arg.to").unwrap().1 = "ann".to_owned();
        let answer = filled(&fields, None, &form(&pairs).await).unwrap();
        assert_eq!(answer, json!({ "to": "ann", "reply_to": "boss@example.com", "copies": 3, "meta": {} }));
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
        let long = "340282366920938463463374607431768211455";
        for (name, text) in [
            ("count", "four"),
            ("count", "\"4\""),
            ("count", long),
            ("meta", "{"),
            ("meta", &*format!("[{long}]")),
            ("more", "1"),
        ] {
            let refused = filled(&fields, Some(&value), &form(&sent(&[(name, text)])).await).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_number_that_a_form_would_round_is_no_field_and_stays_as_it_is() {
        let long = "340282366920938463463374607431768211455";
        let args = format!(r#"{{"amount":{long},"to":"ann","share":0.50,"list":[{long}]}}"#);
        let args = Payload::from_text(args).unwrap();
        let schema = json!({ "properties": { "amount": { "type": "integer" }, "to": { "type": "string" } } });
        for schema in [Some(&schema), None] {
            let edited = Edited::of(schema, &args).unwrap();
            let names: Vec<_> = edited.fields.iter().map(|field| &*field.name).collect();
            assert!(
                names.contains(&"to") && !names.contains(&"amount") && !names.contains(&"list"),
                "{names:?}"
            );
            let unchanged = form(&shown(&edited.fields)).await;
            assert!(edited.filled(&unchanged).unwrap().is_none());
            let sent = form(&[("arg.to".to_owned(), "bob".to_owned())]).await;
            let filled = edited.filled(&sent).unwrap().unwrap();
            assert_eq!(
                filled.get(),
                format!(r#"{{"amount":{long},"list":[{long}],"share":0.50,"to":"bob"}}"#)
            );
            for name in ["arg.amount", "arg.list", "arg.other"] {
                let sent = form(&[(name.to_owned(), "1".to_owned())]).await;
                let refused = edited.filled(&sent).unwrap_err().to_string();
                assert!(refused.contains(name), "{refused}");
            }
        }
        assert!(Edited::of(None, &Payload::from_text(format!("[{long}]")).unwrap()).is_none());
        assert!(Edited::of(None, &Payload::from_text(format!(r#"{{"a":{long}}}"#)).unwrap()).is_none());
    }
}
