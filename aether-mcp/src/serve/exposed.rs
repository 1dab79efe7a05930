//! Workflows as tools: their names, schemas, and how a call becomes a run.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aether_core::engine::{Engine, StartError};
use aether_core::id::RunId;
use aether_core::payload::{Payload, PayloadError};
use aether_core::workflow::Workflow;
use futures_util::future::BoxFuture;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// A workflow that is offered as a tool.
#[derive(Clone)]
pub(crate) struct Exposed {
    pub(crate) tool: Tool,
    /// Name of the workflow, as runs have it.
    pub(crate) workflow: &'static str,
    start: Start,
}

type Start = fn(Engine, Payload, String) -> BoxFuture<'static, Result<RunId, StartRefused>>;

/// Why a call began no run.
#[derive(Debug)]
pub(crate) enum StartRefused {
    /// The arguments are not the workflow's input.
    Arguments(PayloadError),
    /// The engine did not start it.
    Start(StartError),
}

impl Exposed {
    /// The tool of `W`, under the name of the workflow.
    pub(crate) fn of<W>() -> Self
    where
        W: Workflow<Input: JsonSchema + Send>,
    {
        let schema = arguments::<W::Input>(W::ARGUMENTS);
        let description = W::DEF.doc.trim().to_owned();
        // Every call is a run: it may change the world, and one with the key of another is that other one.
        let hints = ToolAnnotations::default().read_only(false).idempotent(false);
        let tool = Tool::new(Cow::Borrowed(W::DEF.name), description, Arc::new(schema)).annotate(hints);
        Self { tool, workflow: W::DEF.name, start: start::<W> }
    }

    /// Starts a run for a call, or finds the one that this id has.
    pub(crate) async fn start(
        &self,
        engine: &Engine,
        arguments: Option<JsonObject>,
        id: String,
    ) -> Result<RunId, StartRefused> {
        let input = Payload::encode(&arguments.unwrap_or_default()).map_err(StartRefused::Arguments)?;
        (self.start)(engine.clone(), input, id).await
    }
}

impl fmt::Debug for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exposed({})", self.workflow)
    }
}

fn start<W: Workflow>(
    engine: Engine,
    input: Payload,
    id: String,
) -> BoxFuture<'static, Result<RunId, StartRefused>> {
    Box::pin(async move {
        let input = W::decode(&input).map_err(StartRefused::Arguments)?;
        let run = engine.start::<W>(input).id(id).await.map_err(StartRefused::Start)?;
        Ok(run.id().clone())
    })
}

/// The schema of a call's arguments: an object with one field for each argument, by name. `T` is what they make together: the
/// one, or a tuple.
fn arguments<T: JsonSchema>(names: &[&str]) -> JsonObject {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    let whole = generator.subschema_for::<T>().to_value();
    let definitions = generator.take_definitions(true);
    let of = |number: usize| match names {
        [_] => whole.clone(),
        _ => whole["prefixItems"].get(number).cloned().unwrap_or(Value::Bool(true)),
    };
    let fields: Map<String, Value> =
        names.iter().enumerate().map(|(number, name)| ((*name).to_owned(), of(number))).collect();
    // What may be null may be left out.
    let is_needed = |name: &&&str| {
        let kinds = fields[**name]["type"].as_array();
        kinds.is_none_or(|kinds| !kinds.contains(&"null".into()))
    };
    let required: Vec<_> = names.iter().filter(is_needed).copied().collect();
    let mut object = Map::new();
    object.insert("type".into(), "object".into());
    object.insert("required".into(), required.into());
    object.insert("properties".into(), fields.into());
    object.insert("additionalProperties".into(), false.into());
    if !definitions.is_empty() {
        object.insert("$defs".into(), definitions.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Ticket {
        title: String,
    }

    #[test]
    fn each_argument_is_a_field() {
        assert_eq!(arguments::<()>(&[])["properties"], json!({}));
        let one = arguments::<Ticket>(&["ticket"]);
        assert_eq!(one["required"], json!(["ticket"]));
        assert!(
            one["properties"]["ticket"]["$ref"].is_string() && one["$defs"]["Ticket"].is_object(),
            "{one:?}"
        );
        let two = arguments::<(String, Option<u32>)>(&["to", "cents"]);
        assert_eq!(two["required"], json!(["to"]));
        assert_eq!(two["properties"]["to"]["type"], "string");
        // One argument that is a tuple itself.
        assert_eq!(arguments::<(u8, u8)>(&["pair"])["properties"]["pair"]["type"], "array");
    }
}
