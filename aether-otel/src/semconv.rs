//! Names of the conventions for generative AI, and those of this crate.
//!
//! Promise: every name that is exported stands here, so that another version of the conventions is another version of this
//! file. All of the `gen_ai.*` names have the status "Development" in the version below. Where a name is not of that version,
//! its documentation says so.
//!
//! `OTEL_SEMCONV_STABILITY_OPT_IN` has no effect. It is for instrumentations that began with version 1.36.0 or an earlier one;
//! with `gen_ai_latest_experimental` and without it, what is exported has the names below.

/// The version of OpenTelemetry's semantic conventions whose names these are: the last one that holds them itself. Later
/// ones refer to `open-telemetry/semantic-conventions-genai`, whose first release, 0.1.0, has other names for some: of a
/// workflow it makes an agent.
pub const VERSION: &str = "1.41.0";
/// The schema that spans name.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
/// The instrumentation scope of all spans.
pub const SCOPE: &str = "aether";

/// Spans and attributes of `gen_ai`.
pub mod gen_ai {
    /// What a span is about: one of the names of [`operation`].
    pub const OPERATION_NAME: &str = "gen_ai.operation.name";
    /// Who offers the model.
    pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
    /// The model that was asked for.
    pub const REQUEST_MODEL: &str = "gen_ai.request.model";
    /// Sampling temperature.
    pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
    /// Longest answer, in tokens.
    pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
    /// The model that answered.
    pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
    /// The provider's id of the answer.
    pub const RESPONSE_ID: &str = "gen_ai.response.id";
    /// Why the model stopped.
    pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
    /// Tokens of the question.
    pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    /// Tokens of the answer.
    pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    /// Tokens of the question that came from the provider's cache.
    pub const USAGE_CACHE_READ_INPUT_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
    /// Tokens of the answer that the model thought in.
    pub const USAGE_REASONING_OUTPUT_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
    /// What belongs together: the run.
    pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
    /// Name of the agent.
    pub const AGENT_NAME: &str = "gen_ai.agent.name";
    /// Name of the tool.
    pub const TOOL_NAME: &str = "gen_ai.tool.name";
    /// Name of the workflow.
    pub const WORKFLOW_NAME: &str = "gen_ai.workflow.name";
    /// Content: the conversation that was sent.
    pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
    /// Content: what the model said.
    pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
    /// Content: the instructions.
    pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
    /// Content: the tools that the model may ask for.
    pub const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";
    /// Content: the arguments of a tool.
    pub const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
    /// Content: the result of a tool.
    pub const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";

    /// What was said: attributes that only `capture_content` brings.
    pub const CONTENT: [&str; 6] = [
        INPUT_MESSAGES,
        OUTPUT_MESSAGES,
        SYSTEM_INSTRUCTIONS,
        TOOL_DEFINITIONS,
        TOOL_CALL_ARGUMENTS,
        TOOL_CALL_RESULT,
    ];

    /// Values of [`OPERATION_NAME`].
    pub mod operation {
        /// One question to a model.
        pub const CHAT: &str = "chat";
        /// One call of a tool.
        pub const EXECUTE_TOOL: &str = "execute_tool";
        /// An agent at work.
        pub const INVOKE_AGENT: &str = "invoke_agent";
        /// A run.
        pub const INVOKE_WORKFLOW: &str = "invoke_workflow";
        /// A plan that is being made. Not of this version: of `semantic-conventions-genai`.
        pub const PLAN: &str = "plan";
    }

    /// Provider of a model that nothing is known of. Not of this version, as `meta` is not, which stands for the Llama models.
    pub const OTHER_PROVIDER: &str = "_OTHER";

    /// Metrics of `gen_ai`, for OTLP.
    pub mod metric {
        /// Upper bounds of the buckets of these, in seconds: the conventions' own for the first.
        pub const DURATION_BOUNDS: [f64; 14] =
            [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
        /// Seconds that one question to a model took.
        pub const CLIENT_OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
        /// Seconds that one call of a tool took. Not of this version: of `semantic-conventions-genai`.
        pub const EXECUTE_TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
        /// Seconds that an agent worked. Not of this version: of `semantic-conventions-genai`.
        pub const INVOKE_AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
        /// Seconds that a run took. Not of this version, and not of `semantic-conventions-genai` any more.
        pub const WORKFLOW_DURATION: &str = "gen_ai.workflow.duration";
    }
}

/// Attributes of OpenTelemetry that are not about generative AI.
pub mod general {
    /// What class of error a span ended with.
    pub const ERROR_TYPE: &str = "error.type";
    /// Where in the source a call stands, `file:line`.
    pub const CODE_LOCATION: &str = "aether.code.site";
}

/// Attributes of Aether.
pub mod aether {
    /// Id of the run.
    pub const RUN_ID: &str = "aether.run.id";
    /// Name of the workflow.
    pub const WORKFLOW: &str = "aether.workflow";
    /// Version of the workflow's definition.
    pub const WORKFLOW_VERSION: &str = "aether.workflow.version";
    /// The run that started this one.
    pub const PARENT_RUN_ID: &str = "aether.parent.run.id";
    /// The run that this one is a fork of.
    pub const ORIGIN_RUN_ID: &str = "aether.origin.run.id";
    /// The run that a command started.
    pub const CHILD_RUN_ID: &str = "aether.child.run.id";
    /// How often the workflow continued as new.
    pub const GENERATION: &str = "aether.generation";
    /// Status of a run, a command or an attempt at its end.
    pub const STATUS: &str = "aether.status";
    /// Id of the command.
    pub const COMMAND: &str = "aether.command";
    /// Logical attempt, from 0.
    pub const ATTEMPT: &str = "aether.attempt";
    /// Number of attempts.
    pub const ATTEMPTS: &str = "aether.attempts";
    /// The effect class.
    pub const EFFECT: &str = "aether.effect";
    /// What the outcome means.
    pub const OUTCOME: &str = "aether.outcome";
    /// What was decided about an outcome that was unknown.
    pub const ON_UNKNOWN: &str = "aether.on_unknown";
    /// The journal holds no time of the beginning: it is when what comes before had ended.
    pub const START_DERIVED: &str = "aether.start.derived";
    /// Always false: no replay exports a span.
    pub const REPLAYED: &str = "aether.replayed";
    /// Path of a scope.
    pub const SCOPE: &str = "aether.scope";
    /// What a wait is for.
    pub const WAIT_KIND: &str = "aether.wait.kind";
    /// Name of what is waited for.
    pub const WAIT_NAME: &str = "aether.wait.name";
    /// The worker that held the run.
    pub const WORKER: &str = "aether.worker";
    /// How a claim of the run ended.
    pub const SEGMENT_END: &str = "aether.segment.end";
}
