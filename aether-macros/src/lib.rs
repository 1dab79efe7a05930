//! The attributes `#[workflow]`, `#[step]` and `#[test]`.
//!
//! Promise: what would break replay and can be seen in the source does not compile, every mistake is told once with
//! its reason and its remedy, and generated code is thin: behaviour lives in `aether-core`.
//!
//! Three phases, three types: `parse` makes an item of tokens, `check` makes a plan of an item or says everything
//! that is wrong with it, `expand` makes code of a plan and cannot fail.

mod attribute;
mod check;
mod diagnostics;
mod expand;
mod flow;
mod parse;
mod plan;
mod syntax;

use proc_macro::TokenStream;

/// Makes an async function a recorded step.
///
/// `#[step(effect = "pure|read|llm|tool|external|http|transaction", …)]` on
/// `async fn name(cx: &mut StepCx, ..) -> Result<T>`; a `pure` step takes no context. The function's name becomes a
/// type (`engine.stub::<name>(..)`, `name::tool()`) and a call for workflows: `name(cx, ..).await`. So no module or type of
/// that name may be declared or imported beside it: they share one namespace, and the compiler says E0428 or E0255.
///
/// | option | meaning |
/// |---|---|
/// | `effect = ".."` | what kind of contact with the world it is; mandatory |
/// | `retry(patience = "10m")`, `retry(max_retries = 5)` or both | for how long, and how many times, it is tried again; reads and model calls have an hour by default |
/// | `retry(.., delay = "200ms", factor = 2.0, max_delay = "1m", jitter = 0.2)` | the wait before the second attempt, its growth, the longest wait, and which part of each wait is left to chance |
/// | `timeout = "30s"` or `"none"` | how long one attempt may take: an integer and `ms`, `s`, `m` or `h` |
/// | `irreversible` | a completed call is not repeated under the same business key |
/// | `scope = "run\|store"` | within what the business key of an `irreversible` step is unique; `run` by default |
/// | `idempotent` | the receiver spots repeats by the idempotency key |
/// | `key = \|arg, ..\| expr` | the business key; parameters are named like the step's arguments |
/// | `on_unknown = "fail\|ask\|retry\|probe"` | what happens when an outcome is unknown |
/// | `probe = path` | an async function that looks at the world; implies `on_unknown = "probe"` |
/// | `approval = "required"` or `\|arg, ..\| condition` | a person must agree before the body runs: always, or where the arguments say so |
/// | `compensate = path` | the step that undoes this one: it takes the arguments of this step and then `Option<Output>`, which is `None` where this step failed half-way |
/// | `changes = ["http", "file"]` | kinds of resources that the body reports as changed; the engine needs a verifier for each |
/// | `confirm = "strict\|warn\|ask"` | what happens where a changed resource is not as the body left it; `strict` by default |
/// | `heartbeat = "10s"` | the longest silence between two heartbeats of the body |
/// | `limit = "openai"` | the limit on steps that calls count in, set with `engine.step_limits()` |
/// | `needs(Mailer, Box<dyn Clock>)` | values of the program that functions take which the body calls; each `cx.dep::<T>()?` in the body is declared by itself |
/// | `name = ".."` | the name in the journal |
/// | `of = "shop::ship"` | the path under which it was recorded, where it was moved or renamed since: module and function, or module, type and function. Its name in the journal, its business keys and what is recorded of its calls stay what they were |
/// | `allow(clock, reason = "..")` | switches a check off, loudly |
/// | `crate = "path"` | where the `aether` crate is |
///
/// # Errors
/// Every compile error carries a code; `aether::error::explain("AE0020")` and `docs/diagnostics` tell more about it.
#[proc_macro_attribute]
pub fn step(options: TokenStream, item: TokenStream) -> TokenStream {
    run(parse::kind::Kind::Step, options, item)
}

/// Makes an async function a durable workflow.
///
/// `#[workflow]` on `async fn name(cx: &mut Cx, ..) -> Result<T>`. Every `.await` becomes a state of the definition
/// and lets only recorded effects pass. The function's name becomes a type (`engine.start::<name>(input)`) and a call
/// for other workflows: `name(cx, ..).await`. So no module or type of that name may be declared or imported beside it, as
/// with steps.
///
/// | option | meaning |
/// |---|---|
/// | `name = ".."` | the name in the journal |
/// | `version = 2` | the version of the definition, from 1 |
/// | `allow(env, reason = "..")` | switches a check off, loudly |
/// | `macros(my_macro)` | macros that evaluate their arguments in place and hide no await |
/// | `crate = "path"` | where the `aether` crate is |
///
/// # Associated functions
/// On `impl Agent { .. }`, every `async fn` whose first parameter is `cx: &mut Cx` becomes a workflow and every
/// function with `#[step(..)]` a step; all others stay as they are. None of them takes `self`. Calls are
/// `Agent::triage(cx, ..)` and `Self::triage(cx, ..)`; the types are named `Agent_triage`
/// (`engine.start::<Agent_triage>(..)`), and so are they in the journal. Options of the block (`allow`, `macros`,
/// `crate`) hold for every function in it; a function may have its own `#[workflow(version = 2)]`.
///
/// # Errors
/// Every compile error carries a code; `aether::error::explain("AE0101")` and `docs/diagnostics` tell more about it.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    run(parse::kind::Kind::Workflow, options, item)
}

/// Shows the imports of an inline module to the workflows and steps in it.
///
/// An attribute on a function does not see what the file imports. On `#[workflow_mod] mod agent { .. }` the checks
/// `AE01xx` follow `use std::time::SystemTime as Clock;` and type aliases, know which statics of the module can change,
/// and leave alone what the module declares itself. `allow(..)`, `macros(..)` and `crate = ".."` hold for everything in
/// the module. An import alone is never judged.
///
/// # Errors
/// `AE0018` on anything but a module with its items in braces.
#[proc_macro_attribute]
pub fn workflow_mod(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute::module::compile(&options.into(), item.into()).into()
}

/// Makes an async function a test.
///
/// `#[aether::test] async fn name()`, or with a fresh simulation `async fn name(sim: Sim<my_workflow>)`. The function
/// becomes a plain `#[test]`: its body runs on a single-threaded tokio runtime whose time is paused, on a thread of its
/// own. It needs the crate `aether-testing` among the dev-dependencies of its package. It may return what `main` may.
///
/// | option | meaning |
/// |---|---|
/// | `timeout = "60s"` or `"none"` | how much real time the test may take, one minute by default |
/// | `crate = "path"` | where the `aether_testing` crate is |
///
/// # Errors
/// Every compile error carries a code; `aether::error::explain("AE0027")` and `docs/diagnostics` tell more about it.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute::test::compile(options.into(), item.into()).into()
}

/// Lets a type be read from what older builds recorded for it.
///
/// `#[accepts(OldReceipt, OlderReceipt)]` stands on a struct or an enum, above its `#[derive(Deserialize)]`, and each type
/// that it names converts: `impl From<OldReceipt> for Receipt`. A recorded value is read as the type is declared today. Where
/// that fails, or would drop members of the value, the former types are tried in order. It holds wherever the type is
/// recorded: in arguments, results, signals, answers, plans, configuration, and inside other types.
///
/// | option | meaning |
/// |---|---|
/// | `crate = "path"` | where the `aether` crate is |
///
/// # Errors
/// `AE0040` on anything that cannot be read so; `docs/diagnostics` tells more about it.
#[proc_macro_attribute]
pub fn accepts(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute::accepts::compile(options.into(), item.into()).into()
}

/// Tells `cargo aether check` that a helper is deterministic enough for workflows, whatever it calls.
///
/// `#[deterministic(reason = "..")]` stands on a function or a method. The check does not look behind it, and tells where it
/// has no effect. Everything else stays: the lints of a workflow's own body, the trap and the double run of tests.
///
/// | option | meaning |
/// |---|---|
/// | `reason = ".."` | why it is deterministic enough; it must be given |
/// | `crate = "path"` | where the `aether` crate is |
///
/// # Errors
/// `AE0025` without a reason, on anything but a function with a body, or beside `#[inline(always)]`, which would put the mark
/// into every caller.
#[proc_macro_attribute]
pub fn deterministic(options: TokenStream, item: TokenStream) -> TokenStream {
    attribute::deterministic::compile(options.into(), item.into()).into()
}

fn run(kind: parse::kind::Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    attribute::item::compile(kind, options.into(), item.into()).into()
}
