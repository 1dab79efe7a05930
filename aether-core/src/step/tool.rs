//! A step as a tool for a model: name, description, JSON Schema of the arguments, and the body.
//!
//! Promise: a call with arguments that pass [`Tool::check`] can be made.

use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::definition::def::{Approval, StepDef};
use crate::step::body::{Body, Step, StepBody};
use crate::step::tool_approval::RuledBody;
use crate::vocabulary::payload::{Payload, PayloadError};

/// A step that a model may call.
#[derive(Clone)]
pub struct Tool {
    /// Definition of the step, with its name and doc comment.
    pub def: &'static StepDef,
    /// JSON Schema of an object with one field per argument.
    pub schema: Value,
    pub(crate) body: Arc<dyn Body>,
    /// Which calls need approval: what the step declares, and what was asked for besides.
    pub(crate) approval: Approval,
}

impl Tool {
    /// The tool of `S` with the schema of its arguments.
    pub fn of<S: Step>(schema: ToolSchema) -> Self {
        let approval = S::DEF.options.approval;
        Self { def: S::DEF, schema: schema.finish(), body: StepBody::<S>::shared(), approval }
    }

    /// The same tool, every call of which needs a person's approval, whatever its step declares.
    ///
    /// ```
    /// # use aether_core::step::Tool;
    /// # fn tools(search: Tool, send: Tool) -> Vec<Tool> {
    /// vec![search, send.with_approval()]
    /// # }
    /// ```
    #[must_use]
    pub fn with_approval(mut self) -> Self {
        self.approval = Approval::Required;
        self
    }

    /// The same tool, whose calls need a person's approval where `rule` says so of their arguments, besides those for which
    /// the step declares it. The rule is asked once, before the call; a rule that panics requires approval.
    ///
    /// ```
    /// # use aether_core::step::Tool;
    /// # fn tools(transfer: Tool) -> Tool {
    /// #[derive(serde::Deserialize)]
    /// struct Transfer { cents: u64 }
    /// transfer.with_approval_when(|args| args.decode::<Transfer>().map_or(true, |args| args.cents > 100_00))
    /// # }
    /// ```
    #[must_use]
    pub fn with_approval_when(self, rule: impl Fn(&Payload) -> bool + Send + Sync + 'static) -> Self {
        if self.approval == Approval::Required {
            return self;
        }
        let body = RuledBody { body: self.body, declared: self.approval, rule: Arc::new(rule) };
        Self { body: Arc::new(body), approval: Approval::ByArguments, ..self }
    }

    /// Checks that a call with `args` could be made, without making it.
    ///
    /// # Errors
    /// [`PayloadError`] when they do not fit the step's signature; its text is fit for the model that sent them.
    pub fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        self.body.check(args)
    }

    /// The name by which a model calls it.
    pub fn name(&self) -> &'static str {
        self.def.name
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.def.name).field("schema", &self.schema).finish()
    }
}

/// Builds the JSON Schema of a step's arguments. `#[step]` does this for steps that are tools.
#[derive(Debug, Default)]
pub struct ToolSchema {
    generator: SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl ToolSchema {
    /// No arguments yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one argument of type `T`; `doc` describes it and may be empty.
    #[must_use]
    pub fn field<T: JsonSchema>(mut self, name: &str, doc: &str) -> Self {
        let mut schema = self.generator.subschema_for::<T>();
        if !doc.is_empty() {
            schema.insert("description".into(), doc.into());
        }
        let optional =
            schema.get("type").and_then(Value::as_array).is_some_and(|t| t.contains(&"null".into()));
        if !optional {
            self.required.push(name.into());
        }
        self.properties.insert(name.into(), schema.to_value());
        self
    }

    fn finish(mut self) -> Value {
        let mut object = Map::new();
        object.insert("type".into(), "object".into());
        object.insert("properties".into(), self.properties.into());
        object.insert("required".into(), self.required.into());
        object.insert("additionalProperties".into(), false.into());
        let definitions = self.generator.take_definitions(true);
        if !definitions.is_empty() {
            object.insert("$defs".into(), definitions.into());
        }
        object.into()
    }
}
