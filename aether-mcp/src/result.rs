//! What a tool answered, as it stands in the journal.

use aether_core::failure::Failure;
use aether_core::payload::without_values;
use rmcp::model::CallToolResult;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a tool answered. An error that the tool reports is an answer, too: see [`ToolResult::error_if_failed`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The blocks of the answer (text, images, links), as the protocol writes them.
    #[serde(default)]
    pub content: Vec<Value>,
    /// The answer as JSON, where the tool gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The tool says that it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// What `answer` of the wire says.
    pub(crate) fn of(answer: CallToolResult) -> Result<Self, serde_json::Error> {
        let content = answer.content.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let is_error = answer.is_error.unwrap_or(false);
        Ok(Self { content, structured: answer.structured_content, is_error })
    }

    /// The text of all text blocks, a line break between two.
    ///
    /// ```
    /// use aether_mcp::ToolResult;
    /// use serde_json::json;
    /// let result = ToolResult { content: vec![json!({"type": "text", "text": "17"})], ..ToolResult::default() };
    /// assert_eq!(result.text(), "17");
    /// ```
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter(|block| block["type"] == "text");
        texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The structured answer as a `T`; where there is none, the text is read as JSON.
    ///
    /// # Errors
    /// A permanent [`Failure`] that says why it is no `T`.
    ///
    /// ```
    /// use aether_mcp::ToolResult;
    /// use serde_json::json;
    /// let result = ToolResult { structured: Some(json!([1, 2])), ..ToolResult::default() };
    /// assert_eq!(result.json::<Vec<u8>>()?, [1, 2]);
    /// # Ok::<(), aether_core::failure::Failure>(())
    /// ```
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let read = match &self.structured {
            Some(value) => T::deserialize(value),
            None => serde_json::from_str(&self.text()),
        };
        read.map_err(|error| {
            let wanted = std::any::type_name::<T>();
            let reason = without_values(&error.to_string());
            Failure::permanent(format_args!("the tool's answer is not a `{wanted}`: {reason}"))
        })
    }

    /// This result, unless the tool says that it failed.
    ///
    /// # Errors
    /// A permanent [`Failure`] with the text of the tool.
    ///
    /// ```
    /// use aether_mcp::ToolResult;
    /// let failed = ToolResult { is_error: true, ..ToolResult::default() };
    /// assert!(failed.error_if_failed().is_err());
    /// ```
    pub fn error_if_failed(self) -> Result<Self, Failure> {
        if self.is_error {
            return Err(Failure::permanent(format_args!("the tool failed: {}", self.text())));
        }
        Ok(self)
    }
}
