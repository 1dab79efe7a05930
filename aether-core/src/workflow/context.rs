//! The context of a workflow: the only door to the world, and a linear one.
//!
//! Promise: a scope is strictly sequential, so the number of a command in its scope never depends on when anything
//! finished. Effects are made from `&mut Cx`: two at once on one context are a borrow error.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::definition::def::{Retry, START, StepDef, StepOptions, WorkflowDef};
use crate::journal::version_marks::Mark;
use crate::perform::attempts::{answer_step, execute_step};
use crate::perform::call::{CallSpec, CountsIn, any_answer};
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::program::Children;
use crate::run::replayed_log::LogScope;
use crate::step::body::{Body, Step, StepBody};
use crate::step::recordable::{Answers, Returns};
use crate::step::tool::Tool;
use crate::store::schedules::tick_of_run;
use crate::vocabulary::budget::Budget;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::limits::OverLimit;
use crate::vocabulary::opaque::Opaque;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::workflow::gate::{BoxEffect, WorkflowCode};
use crate::workflow::reading::{read_answer, read_recorded, readable};
use crate::workflow::ticket::{Marks, Ticket};

/// The context of a workflow or of one of its branches: every contact of a workflow with the world goes through it.
///
/// Everything it returns is a recorded effect: awaited once for real, and answered from the journal on every replay.
///
/// ```
/// # use aether_core::workflow::Cx;
/// # use aether_core::failure::Result;
/// # use std::time::Duration;
/// # async fn charge(_: &mut Cx, _: u32) -> Result<String> { Ok(String::new()) }
/// # async fn notify(_: &mut Cx, _: &str) -> Result<()> { Ok(()) }
/// # async fn workflow(cx: &mut Cx) -> Result<()> {
/// // In an async function with `#[workflow]`; `charge` and `notify` are steps.
/// let opened = cx.now().await;
/// let receipt = charge(cx, 12_50).await?;
/// cx.sleep(Duration::from_secs(24 * 60 * 60)).await;
/// notify(cx, &format!("{receipt}, opened {opened}")).await?;
/// # Ok(()) }
/// ```
pub struct Cx {
    pub(crate) run: Opaque<Arc<Run>>,
    /// Starts and follows child runs; `None` in a replay that executes nothing.
    children: Option<Arc<dyn Children>>,
    def: &'static WorkflowDef,
    path: String,
    next: u32,
    state: u16,
    /// What was said of every command in this scope.
    marks: Marks,
    /// What was said of the next command, in addition.
    next_marks: Marks,
}

/// Only what every replay shows too.
impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (run, workflow) = (&self.run.id, &self.def.name);
        f.debug_struct("Cx")
            .field("run", run)
            .field("workflow", workflow)
            .field("scope", &self.path)
            .finish_non_exhaustive()
    }
}

impl Cx {
    pub(crate) fn root(run: Arc<Run>, children: Option<Arc<dyn Children>>) -> Self {
        let (def, path) = (run.def, run.generation.scope());
        Self {
            run: Opaque::new(run),
            children,
            def,
            path,
            next: 0,
            state: START,
            marks: Marks::default(),
            next_marks: Marks::default(),
        }
    }

    /// The id of the run that executes this workflow. An inline workflow has that of its caller.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let reference = format!("order of {}", cx.run_id());
    /// # }
    /// ```
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// The tick of the schedule that started the run; `None` for a run that no schedule started. Part of the run's id, so
    /// every replay sees the same.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let day = cx.scheduled_for().map(|tick| tick.strftime("%F").to_string());
    /// # }
    /// ```
    pub fn scheduled_for(&self) -> Option<Timestamp> {
        tick_of_run(self.run_id())
    }

    pub(crate) fn ticket(&mut self, name: &str) -> Ticket<'_> {
        let ordinal = self.next_ordinal();
        Ticket {
            marks: self.take_marks(),
            command: CommandId::numbered(&self.path, ordinal, name),
            run: Arc::clone(&self.run),
            children: &self.children,
            def: self.def,
            state: &mut self.state,
        }
    }

    /// A mark, and its ticket. It is named and takes no number, so that one more or less shifts no other command.
    pub(crate) fn mark(&mut self, name: &str, range: (u32, u32), each: bool) -> (Mark, Ticket<'_>) {
        let mark = Mark::new(&self.path, self.next, name, range, each);
        let ticket = Ticket {
            marks: Marks::default(),
            command: mark.command.clone(),
            run: Arc::clone(&self.run),
            children: &self.children,
            def: self.def,
            state: &mut self.state,
        };
        (mark, ticket)
    }

    fn next_ordinal(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// The next place in this scope.
    fn place(&mut self) -> String {
        let ordinal = self.next_ordinal();
        if self.path.is_empty() { ordinal.to_string() } else { format!("{}.{ordinal}", self.path) }
    }

    /// A scope below this one.
    pub(crate) fn scope(&self, path: String, def: &'static WorkflowDef, marks: Marks) -> Self {
        Self::below(Arc::clone(&self.run), self.children.clone(), def, path, marks)
    }

    /// A scope at `path`, below a command with `marks`.
    pub(crate) fn below(
        run: Arc<Run>,
        children: Option<Arc<dyn Children>>,
        def: &'static WorkflowDef,
        path: String,
        marks: Marks,
    ) -> Self {
        let next_marks = Marks::default();
        let marks = marks.inside(&path);
        Self { run: Opaque::new(run), children, def, path, next: 0, state: START, marks, next_marks }
    }

    /// What was said of every command in this scope.
    pub(crate) fn marks(&self) -> Marks {
        self.marks.clone()
    }

    fn take_marks(&mut self) -> Marks {
        let next = std::mem::take(&mut self.next_marks);
        let Marks { raised, retry, budget, limit, .. } = next;
        Marks { raised: raised || self.marks.raised, retry, budget, limit, ..self.marks.clone() }
    }

    /// Marks the next command as irreversible, though its step does not declare it: a completed call is then refused under
    /// the same business key, as if the step were `irreversible`. For an inline workflow, a branch or an agent it holds
    /// for everything in it. What a step declares cannot be lowered.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// # async fn send_letter(_cx: &mut Cx, _to: &str) {}
    /// send_letter(cx.irreversible(), "ann").await;
    /// # }
    /// ```
    pub fn irreversible(&mut self) -> &mut Self {
        self.next_marks.raised = true;
        self
    }

    /// Says when another attempt is made at the next command, in place of what its step declares. For an inline workflow, a
    /// branch or an agent it holds for every call in it that declares nothing itself. A call that may change the world is
    /// retried as its step declares, whatever is said here.
    ///
    /// ```
    /// # use aether_core::definition::def::Retry;
    /// # use aether_core::workflow::Cx;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) {
    /// # async fn fetch(_cx: &mut Cx, _url: &str) {}
    /// fetch(cx.retry(Retry::within(Duration::from_secs(600))), "https://example.com").await;
    /// # }
    /// ```
    pub fn retry(&mut self, retry: Retry) -> &mut Self {
        self.next_marks.retry = Some(retry);
        self
    }

    /// Limits what the next command may take: tokens, cost, calls, time. For an inline workflow, a branch or an agent it is a
    /// budget of everything in it, nested calls, parallel branches and child runs included; budgets around it hold as well.
    ///
    /// An attempt reserves what it may take before it is made. One that a budget does not allow is not made:
    /// [`StepError::OverBudget`] says which budget, and is recorded.
    ///
    /// ```
    /// # use aether_core::budget::Budget;
    /// # use aether_core::failure::{Result, StepError};
    /// # use aether_core::workflow::Cx;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) {
    /// # async fn research(_cx: &mut Cx, _topic: &str) -> Result<String> { Ok(String::new()) }
    /// let budget = Budget::new().named("research").tokens(50_000).calls(20).time(Duration::from_secs(300));
    /// match research(cx.budget(budget), "tides").await {
    ///     Err(error) if error.over_budget().is_some() => println!("not finished: {error}"),
    ///     answer => println!("{answer:?}"),
    /// }
    /// # }
    /// ```
    pub fn budget(&mut self, budget: Budget) -> &mut Self {
        let both = match self.next_marks.budget.take() {
            Some(said) => said.and(budget),
            None => budget,
        };
        self.next_marks.budget = Some(both).filter(|budget| !budget.is_unlimited());
        self
    }

    /// Has the next command count in this limit on steps, in place of the one that its step declares; see
    /// [`Engine::step_limits`](crate::engine::Engine::step_limits). For an inline workflow, a branch or an agent it is that of
    /// every model call in it that names none.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// # async fn fetch(_cx: &mut Cx, _url: &str) {}
    /// fetch(cx.limit("example.com"), "https://example.com").await;
    /// # }
    /// ```
    pub fn limit(&mut self, limit: impl Into<String>) -> &mut Self {
        self.next_marks.limit = Some(limit.into().into());
        self
    }

    /// Takes back the limit that was said of the next command: for crates whose effect is made of several commands, and
    /// that have some of them count in it. Without this it is that of the model calls in the effect's scope.
    ///
    /// ```
    /// # use aether_core::workflow::{BoxEffect, Cx};
    /// fn lottery(cx: &mut Cx) -> BoxEffect<'_, u64> {
    ///     let limit = cx.take_limit();
    ///     cx.scoped(|mut cx| async move {
    ///         if let Some(limit) = limit {
    ///             cx.limit(&*limit);
    ///         }
    ///         cx.random().await
    ///     })
    /// }
    /// ```
    pub fn take_limit(&mut self) -> Option<Arc<str>> {
        self.next_marks.limit.take()
    }

    /// This scope, as far as its log is concerned.
    pub(crate) fn log_scope(&self) -> Option<Arc<LogScope>> {
        LogScope::of(&self.run, &self.path)
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn def(&self) -> &'static WorkflowDef {
        self.def
    }

    /// How many scopes this one is nested in. Checked against a limit, so that endless nesting is an error and does not use
    /// up memory.
    fn depth(&self) -> usize {
        self.path.split('.').count()
    }

    /// Records an effect of a new kind: for crates that add effects. `body` runs as that of a step named `name` would.
    ///
    /// ```
    /// # use aether_core::definition::def::StepOptions;
    /// # use aether_core::failure::{Failure, StepError};
    /// # use aether_core::outcome::EffectClass;
    /// # use aether_core::payload::Payload;
    /// # use aether_core::step::{Body, BodyResult, StepCx};
    /// # use aether_core::workflow::{BoxEffect, Cx};
    /// # use std::sync::Arc;
    /// # struct QuoteBody;
    /// # impl Body for QuoteBody {
    /// #     fn call(&self, _: StepCx, _: &Payload) -> futures_util::future::BoxFuture<'static, BodyResult> {
    /// #         Box::pin(std::future::ready(Payload::encode(&100).map(Ok)))
    /// #     }
    /// # }
    /// /// Adds `cx.quote("ACME")` to workflows.
    /// pub trait CxQuotes {
    ///     fn quote(&mut self, share: &str) -> BoxEffect<'_, Result<u64, StepError<Failure>>>;
    /// }
    ///
    /// impl CxQuotes for Cx {
    ///     fn quote(&mut self, share: &str) -> BoxEffect<'_, Result<u64, StepError<Failure>>> {
    ///         let options = StepOptions::of(EffectClass::Read);
    ///         self.effect("quote", options, Payload::encode(share), Arc::new(QuoteBody))
    ///     }
    /// }
    /// ```
    pub fn effect<O, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        options: StepOptions,
        args: Result<Payload, PayloadError>,
        body: Arc<dyn Body>,
    ) -> BoxEffect<'_, Result<O, StepError<E>>>
    where
        O: crate::step::recordable::Recordable,
        E: crate::step::recordable::RecordableError,
    {
        let name = name.into();
        let readable = readable::<O, E>;
        let (counts_in, limit) = (CountsIn::Nothing, None);
        self.call::<Result<O, E>>(CallSpec {
            path: name.clone(),
            name,
            options,
            args,
            body,
            readable,
            counts_in,
            limit,
        })
    }

    pub(crate) fn call<R: Returns>(&mut self, mut call: CallSpec) -> BoxEffect<'_, R::Called> {
        let mut ticket = self.ticket(&call.name);
        ticket.marks.put_on(ticket.command.place(), &mut call);
        BoxEffect::boxed(async move {
            let site = ticket.enter_at().await;
            let (run, command) = (&ticket.run, &ticket.command);
            let is_gated = site.is_some();
            let (answered, recorded) = answer_step(run, command.clone(), site, call).await;
            let sites = || (recorded, if is_gated { ticket.site() } else { None });
            R::called(read_recorded(run, command, "result", sites, || read_answer(&answered)).await)
        })
    }

    /// Runs `body` in a scope of its own below this one: for crates whose effect is made of several commands. The
    /// scope counts its own commands, so how many of them `body` makes changes no id outside.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let sum: u64 = cx.scoped(|mut cx| async move { cx.random().await / 2 + cx.random().await / 2 }).await;
    /// # }
    /// ```
    pub fn scoped<'c, T, F>(&'c mut self, body: impl FnOnce(Self) -> F) -> BoxEffect<'c, T>
    where
        T: Send,
        F: Future<Output = T> + Send + 'c,
    {
        let def = self.def;
        in_scope(self, def, body, WorkflowCode::of_crate)
    }

    /// Calls a tool with JSON arguments, as a model asks for it; the value is JSON too. Arguments that hold
    /// `"irreversible": true` raise the call to irreversible; nothing in them lowers what the step declares.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use aether_core::payload::{Payload, PayloadError};
    /// # use aether_core::step::Tool;
    /// # #[derive(serde::Serialize)]
    /// # struct Weather { city: &'static str }
    /// # async fn workflow(cx: &mut Cx, tool: Tool) -> Result<(), PayloadError> {
    /// // `weather::tool()` describes the step `weather`.
    /// let args = Payload::encode(&Weather { city: "Vienna" })?;
    /// match cx.call_tool(&tool, args).await {
    ///     Ok(forecast) => println!("{}", forecast.as_str()),
    ///     Err(error) => println!("{error:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn call_tool(
        &mut self,
        tool: &Tool,
        args: Payload,
    ) -> BoxEffect<'_, Result<Payload, StepError<Payload>>> {
        let mut call = CallSpec {
            name: tool.def.name.into(),
            path: tool.def.path.into(),
            options: StepOptions { approval: tool.approval, ..tool.def.options },
            args: Ok(args),
            body: Arc::clone(&tool.body),
            readable: any_answer,
            counts_in: CountsIn::Nothing,
            limit: None,
        };
        let mut ticket = self.ticket(tool.def.name);
        ticket.marks.put_on(ticket.command.place(), &mut call);
        call.raise(says_irreversible(&call.args));
        BoxEffect::boxed(async move {
            let site = ticket.enter_at().await;
            let answered = execute_step(&ticket.run, ticket.command.clone(), site, call).await;
            answered.map_err(|error| error.decode().unwrap_or_else(|e| unreadable(&ticket, &e)))
        })
    }
}

/// Whether a model marks its own call as irreversible.
fn says_irreversible(args: &Result<Payload, PayloadError>) -> bool {
    #[derive(serde::Deserialize)]
    struct ClaimsIrreversible {
        irreversible: bool,
    }
    args.as_ref()
        .ok()
        .and_then(|args| args.decode::<ClaimsIrreversible>().ok())
        .is_some_and(|claim| claim.irreversible)
}

fn unreadable<E>(ticket: &Ticket<'_>, error: &PayloadError) -> StepError<E> {
    let failure: Failure =
        ticket.run.failure(&ticket.command, format_args!("the result does not round-trip: {error}"));
    StepError::Unrecordable(failure)
}

/// Calls step `S`. Generated code.
pub fn call_step<S: Step>(
    cx: &mut Cx,
    args: Result<Payload, PayloadError>,
) -> BoxEffect<'_, <S::Returned as Answers>::Called> {
    call_defined::<S::Returned>(cx, S::DEF, args, StepBody::<S>::shared())
}

fn call_defined<'c, R: Returns>(
    cx: &'c mut Cx,
    def: &'static StepDef,
    args: Result<Payload, PayloadError>,
    body: Arc<dyn Body>,
) -> BoxEffect<'c, R::Called> {
    cx.call::<R>(CallSpec {
        name: def.name.into(),
        path: def.path.into(),
        options: def.options,
        args,
        body,
        readable: readable::<R::Ok, R::Err>,
        counts_in: CountsIn::Nothing,
        limit: None,
    })
}

/// Runs a workflow inline, in a scope below `cx`. Generated code.
pub fn inline_workflow<'c, T, F>(
    cx: &'c mut Cx,
    def: &'static WorkflowDef,
    body: impl FnOnce(Cx) -> F,
) -> BoxEffect<'c, T>
where
    T: Send,
    F: Future<Output = T> + Send + 'c,
{
    in_scope(cx, def, body, WorkflowCode::of)
}

/// Runs `body` in a scope below `cx`, as the code that `code` makes of it.
fn in_scope<'c, T, F>(
    cx: &'c mut Cx,
    def: &'static WorkflowDef,
    body: impl FnOnce(Cx) -> F,
    code: impl FnOnce(Option<Arc<LogScope>>, F) -> WorkflowCode<F>,
) -> BoxEffect<'c, T>
where
    T: Send,
    F: Future<Output = T> + Send + 'c,
{
    let path = cx.place();
    let marks = cx.take_marks();
    let scope = cx.scope(path, def, marks);
    let too_deep = scope.depth() > scope.run.shared.limits.depth;
    let run = Arc::clone(&scope.run);
    let body = code(scope.log_scope(), body(scope));
    let (command, children) = (CommandId::new("", ""), &cx.children);
    let mut ticket =
        Ticket { run, command, marks: Marks::default(), children, def: cx.def, state: &mut cx.state };
    BoxEffect::boxed(async move {
        ticket.enter().await;
        if too_deep {
            return too_deep_fault(&ticket.run).await;
        }
        body.await
    })
}

/// Stops a run whose scopes are nested too deep.
pub(crate) async fn too_deep_fault<T>(run: &Run) -> T {
    let limit = run.shared.limits.depth;
    let over = OverLimit {
        what: "depth of nested scopes".into(),
        size: limit.saturating_add(1),
        limit,
        name: "depth",
    };
    let (run_id, advice) = (run.id.clone(), "split the work into child runs");
    run.stop(Fault::OverLimit { run: run_id, over, advice }).await
}

/// The future of a workflow's body; what it does between effects is workflow code. Generated code.
pub fn workflow_body<T>(body: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    Box::pin(WorkflowCode::new(body))
}

/// The future of a step's body. Generated code.
pub fn step_body<T>(body: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    Box::pin(body)
}
