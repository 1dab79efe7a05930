//! Questions of tools over the Model Context Protocol: a form or a page to be opened, which somebody fills in, declines or
//! closes.
//!
//! Promise: what is sent is an answer as `aether-mcp` reads it, never the fields of the form alone.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::form::Form;
use crate::pages::fields::{Field, Unfit, fields, filled};

/// A question as `aether-mcp` records it. Another shape is another question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolQuestion {
    pub(crate) server: String,
    pub(crate) tool: String,
    #[serde(rename = "key")]
    _key: String,
    pub(crate) message: String,
    #[serde(default)]
    schema: Option<Value>,
    #[serde(default)]
    url: Option<String>,
}

impl ToolQuestion {
    /// The question; `None` where it is not that of a tool.
    pub(crate) fn read(question: &Value) -> Option<Self> {
        let read = Self::deserialize(question).ok()?;
        (read.schema.is_some() || read.url.is_some()).then_some(read)
    }

    /// What is to be filled in.
    pub(crate) fn fields(&self) -> Option<Vec<Field>> {
        fields(self.schema.as_ref(), None)
    }

    /// Whether a page is to be opened, and nothing filled in.
    pub(crate) fn is_page(&self) -> bool {
        self.schema.is_none()
    }

    /// The answer that a form gives.
    ///
    /// # Errors
    /// [`Unfit`] where it says no action, or a field does not fit.
    pub(crate) fn answer(&self, form: &Form) -> Result<Value, Unfit> {
        match form.get("action") {
            action @ ("decline" | "cancel") => Ok(json!({ "action": action })),
            "accept" if self.is_page() => Ok(json!({ "action": "accept" })),
            "accept" => {
                let content = filled(&self.fields().unwrap_or_default(), None, form)?;
                Ok(json!({ "action": "accept", "content": content }))
            }
            _ => Err(Unfit::new("action", "says neither accept, decline nor cancel")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_another_shape_is_no_question_of_a_tool() {
        let asked = json!({ "server": "bank", "tool": "pay", "key": "k", "message": "?", "schema": {} });
        assert!(ToolQuestion::read(&asked).is_some());
        for (name, value) in
            [("schema", None), ("message", None), ("more", Some(json!(1))), ("key", Some(json!(1)))]
        {
            let mut other = asked.clone();
            match value {
                Some(value) => other[name] = value,
                None => drop(other.as_object_mut().unwrap().remove(name)),
            }
            assert_eq!(ToolQuestion::read(&other), None, "{other}");
        }
        assert_eq!(ToolQuestion::read(&json!("Really?")), None);
    }
}
