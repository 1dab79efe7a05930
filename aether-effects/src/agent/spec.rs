//! What an agent is, apart from the workflow that runs it.

use std::sync::Arc;

use super::toolbox::{AgentTool, Toolbox, Toolboxes};
use super::tools::{IntoTools, Parallel};

/// What an agent is: its name, its words, its model and what it may call. [`CxAgent::agent`](super::CxAgent::agent) begins
/// one, and [`hand_off`](Self::hand_off) lets the model of another one hand its conversation over to it.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::workflow::Cx;
/// # use aether_core::step::Tool;
/// use aether_effects::agent::{AgentSpec, CxAgent};
///
/// fn billing(refund: Tool) -> AgentSpec {
///     AgentSpec::new("billing")
///         .description("Answers what is about invoices and refunds.")
///         .system("You answer questions about invoices.")
///         .tools(refund) // `refund::tool()` of the program's step
///         .hand_off_named("support")
/// }
///
/// # async fn workflow(cx: &mut Cx, refund: Tool) -> Result<()> {
/// let report = cx.agent("support").hand_off(billing(refund)).run("My invoice is wrong.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AgentSpec {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) model: Option<String>,
    /// The models that are asked after it, one after the other.
    pub(super) fallbacks: Vec<String>,
    pub(super) system: Vec<String>,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u32>,
    pub(super) tools: Vec<AgentTool>,
    pub(super) toolboxes: Toolboxes,
    pub(super) parallel: Parallel,
    /// Names of the agents to whom it may hand over.
    pub(super) hand_offs: Vec<String>,
    /// Those of them that are described here, and not elsewhere.
    pub(super) described: Vec<AgentSpec>,
}

/// An agent by its name alone.
impl<S: Into<String>> From<S> for AgentSpec {
    fn from(name: S) -> Self {
        Self::new(name)
    }
}

impl AgentSpec {
    /// An agent without words and tools. `name` names its model calls in the journal (`llm.<name>`) and chooses their
    /// client.
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").model("gpt-4o").system("You answer in one sentence.");
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            model: None,
            fallbacks: Vec::new(),
            system: Vec::new(),
            temperature: None,
            max_tokens: None,
            tools: Vec::new(),
            toolboxes: Toolboxes::default(),
            parallel: Parallel::Nothing,
            hand_offs: Vec::new(),
            described: Vec::new(),
        }
    }

    /// What the agent is for. Models that may hand over to it decide by this.
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").description("Answers what is about invoices and refunds.");
    /// ```
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// As [`Agent::model`](super::Agent::model).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").model("gpt-4o");
    /// ```
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// As [`Agent::or`](super::Agent::or).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").model("large").or("small");
    /// ```
    #[must_use]
    pub fn or(mut self, model: impl Into<String>) -> Self {
        self.fallbacks.push(model.into());
        self
    }

    /// As [`Agent::system`](super::Agent::system).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").system("You answer in one sentence.");
    /// ```
    #[must_use]
    pub fn system(mut self, content: impl Into<String>) -> Self {
        self.system.push(content.into());
        self
    }

    /// As [`Agent::temperature`](super::Agent::temperature).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").temperature(0.2);
    /// ```
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// As [`Agent::max_tokens`](super::Agent::max_tokens).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").max_tokens(500);
    /// ```
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// As [`Agent::tools`](super::Agent::tools).
    ///
    /// ```
    /// # use aether_core::step::Tool;
    /// # use aether_effects::agent::AgentSpec;
    /// # fn billing(refund: Tool) -> AgentSpec {
    /// AgentSpec::new("billing").tools(refund)
    /// # }
    /// ```
    #[must_use]
    pub fn tools(mut self, tools: impl IntoTools) -> Self {
        self.tools.extend(tools.into_tools().into_iter().map(AgentTool::Step));
        self
    }

    /// As [`Agent::toolbox`](super::Agent::toolbox). Its tools are asked for when the agent is at work for the first time.
    ///
    /// ```
    /// # use aether_effects::agent::{AgentSpec, Toolbox};
    /// # fn billing(tracker: impl Toolbox + Clone + 'static) -> AgentSpec {
    /// AgentSpec::new("billing").toolbox(&tracker)
    /// # }
    /// ```
    #[must_use]
    pub fn toolbox(mut self, toolbox: &(impl Toolbox + Clone + 'static)) -> Self {
        self.toolboxes.0.push(Arc::new(toolbox.clone()));
        self
    }

    /// As [`Agent::parallel`](super::Agent::parallel).
    ///
    /// ```
    /// use aether_effects::agent::{AgentSpec, Parallel};
    /// let billing = AgentSpec::new("billing").parallel(Parallel::Reads);
    /// ```
    #[must_use]
    pub fn parallel(mut self, parallel: Parallel) -> Self {
        self.parallel = parallel;
        self
    }

    /// As [`Agent::hand_off`](super::Agent::hand_off).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").hand_off(AgentSpec::new("refunds"));
    /// ```
    #[must_use]
    pub fn hand_off(mut self, to: AgentSpec) -> Self {
        self.hand_offs.push(to.name.clone());
        self.described.push(to);
        self
    }

    /// As [`Agent::hand_off_named`](super::Agent::hand_off_named).
    ///
    /// ```
    /// use aether_effects::agent::AgentSpec;
    /// let billing = AgentSpec::new("billing").hand_off_named("support");
    /// ```
    #[must_use]
    pub fn hand_off_named(mut self, name: impl Into<String>) -> Self {
        self.hand_offs.push(name.into());
        self
    }
}
