//! The catalogue of diagnostics: code, why it matters for replay, how to mend it.
//!
//! Promise: a code never changes its meaning. Each has a page `docs/diagnostics/<code>.md` and failing and passing UI
//! cases.

/// One kind of mistake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) id: &'static str,
    pub(crate) why: &'static str,
    pub(crate) help: &'static str,
}

macro_rules! codes {
    ($($name:ident = $id:literal, why: $why:literal, help: $help:literal;)+) => {
        $(pub(crate) const $name: &Code = &Code { id: $id, why: $why, help: $help };)+
        #[cfg(test)]
        pub(crate) const ALL: &[&Code] = &[$($name),+];
    };
}

codes! {
    UNKNOWN_OPTION = "AE0001",
        why: "an option that is silently ignored would promise something the engine does not do",
        help: "remove it or correct its name";
    DUPLICATE_OPTION = "AE0002",
        why: "only one of the values could hold, and nobody would see which",
        help: "keep one of them";
    BAD_VALUE = "AE0003",
        why: "the definition of a step or workflow is data known at compile time",
        help: "write a value of the named form";
    EFFECT_MISSING = "AE0004",
        why: "the effect class decides what is written before the body runs and what happens after a crash",
        help: "add `effect = \"..\"`: pure (touches nothing), read (looks), llm (asks a model), tool or external (changes the world), http (raw HTTP client), transaction (changes the store's own database)";
    EFFECT_UNKNOWN = "AE0005",
        why: "the effect class decides what is written before the body runs and what happens after a crash",
        help: "one of: pure, read, llm, tool, external, http, transaction";
    NOT_ASYNC = "AE0006",
        why: "steps and workflows are suspended and resumed by the engine",
        help: "write `async fn`";
    CONTEXT = "AE0007",
        why: "the context is the only door to the world, and it is linear: one effect at a time gets a number",
        help: "let the first parameter be `cx: &mut StepCx` in a step and `cx: &mut Cx` in a workflow";
    RECEIVER = "AE0008",
        why: "a call is recorded by name and arguments; what `self` holds would be lost in a replay",
        help: "make it a free function and pass what it needs as arguments; reach services through `cx`";
    NO_RESULT = "AE0009",
        why: "suspension, rejection and unknown outcomes come back to the caller as recorded errors",
        help: "return `aether::Result<T>` or `Result<T, YourError>`";
    OPAQUE_RESULT = "AE0010",
        why: "a recorded result is decoded into its type, so the type must have a name",
        help: "name the type";
    BORROWED_RESULT = "AE0011",
        why: "a recorded result is decoded from the journal, where there is nothing to borrow from",
        help: "return owned data: `String` for `&str`, `Vec<T>` for `&[T]`";
    QUALIFIER = "AE0012",
        why: "the engine calls the body through a generated, safe, async Rust function",
        help: "remove the qualifier";
    PATTERN = "AE0013",
        why: "an argument is recorded under its name",
        help: "name the argument and take it apart in the body";
    BORROWED_ARGUMENT = "AE0014",
        why: "every attempt gets its arguments decoded from the record, so each must have an owned form",
        help: "take `&T`, `&str`, `&[T]`, `Option<&T>` or an owned type";
    LIFETIME = "AE0015",
        why: "arguments are decoded from the record and results are owned, so no lifetime outlives the call",
        help: "leave lifetimes out: write `&str` instead of `&'a str`";
    NOT_A_FUNCTION = "AE0016",
        why: "a step or workflow is one async function",
        help: "put the attribute on an `async fn` with a body";
    IMPL_BLOCK = "AE0017",
        why: "each step and workflow has one definition, registered under one name",
        help: "put `#[workflow]` on a plain block, `impl Agent { .. }`, without type parameters, or use free functions";
    MODULE = "AE0018",
        why: "the attribute reads the imports of a module, so it has to see them",
        help: "put `#[workflow_mod]` on a module with its items in braces: `mod agent { .. }`";
    RETRY_UNSAFE = "AE0020",
        why: "an attempt that seems to have failed may have changed the world, and another one would do it twice",
        help: "add `idempotent` if the receiver spots repeats by the idempotency key, `key = |..| ..` for a business key, or `probe = path` to look; or remove `retry`";
    BLIND_RETRY = "AE0021",
        why: "running a body again whose outcome is unknown repeats its effect unless the receiver spots repeats",
        help: "add `idempotent` or `key = |..| ..`, or choose `on_unknown = \"ask\"`";
    PROBE = "AE0022",
        why: "a probe answers whether a call of unknown outcome happened, and only `on_unknown = \"probe\"` asks it",
        help: "give both or neither: `probe = path` alone implies `on_unknown = \"probe\"`";
    MEANINGLESS = "AE0023",
        why: "an option without effect would promise something the engine does not do",
        help: "remove it, or choose the effect class that says what the body does: read or llm where it looks, tool, external or http where it changes the world";
    PURE_CONTEXT = "AE0024",
        why: "a pure step writes no event and runs again on every replay, so it may not reach the world",
        help: "remove the context, or choose `effect = \"read\"`";
    ALLOW = "AE0025",
        why: "switching a check off stands in the run's definition for whoever reads its history",
        help: "write `allow(clock, reason = \"why it is harmless\")`";
    ERASED_ERROR = "AE0026",
        why: "a recorded error is decoded into its type, and an error behind `dyn Error` forgot its own",
        help: "return `aether::Result<T>`: with `?` every error becomes a recorded `Failure`; or name an error type of your own that is `Serialize`, `Deserialize`, `Debug` and `Display`";
    TEST = "AE0027",
        why: "the test runner calls a test by itself, with nothing but the simulation that the attribute can make",
        help: "write `async fn name()` or `async fn name(sim: Sim<my_workflow>)`: a free function without type parameters";
    SERVICE = "AE0028",
        why: "a step is called by its name and its recorded arguments, and a type that is in neither is not known to a replay",
        help: "a service comes from the program: `.provide::<Box<dyn Mailer>>(Box::new(..))` on the engine's builder, and `cx.dep::<Box<dyn Mailer>>()?` in the body; for a kind of data, say so with the bound `Recordable`";
    ACCEPTS = "AE0040",
        why: "a recorded value is read as the type is declared today, and else as a former type that converts into it",
        help: "put `#[accepts(Old, ..)]` on a struct or an enum without generic parameters, above its `#[derive(Deserialize)]`, or write the conversion by hand with `#[serde(from = \"..\")]`";
    VERSION = "AE0029",
        why: "a run continues by the version that it was recorded with, so the versions of a workflow share its name, and each has a number of its own",
        help: "write `#[workflow(of = \"triage\", version = 2)]`, with the name of the workflow and the number of this version";
    BRANCH_CONTINUES = "AE0030",
        why: "the journal of the whole run ends, and what the other branches are doing would be cut off",
        help: "let the branch return what it found, and continue as new behind the await";
    PURE_AWAIT = "AE0031",
        why: "a pure step has no context, so nothing that it awaits can be recorded, and it is computed again on every replay",
        help: "compute without awaiting, or choose `effect = \"read\"`, which records the result";
    WRAPPED = "AE0032",
        why: "attributes are expanded from the top, so this one has put the body into a future of its own, which is neither recorded nor seen through",
        help: "put it below";
    CLOCK = "AE0101",
        why: "a replay or a retry would read another time than the first run did",
        help: "use `cx.now().await`";
    RANDOM = "AE0102",
        why: "a replay or a retry would draw another number than the first run did",
        help: "use `cx.random().await`";
    UUID = "AE0103",
        why: "a replay or a retry would make another id than the first run did",
        help: "use `cx.uuid().await`";
    ENVIRONMENT = "AE0104",
        why: "the process that replays may have another environment",
        help: "pass the value in the input, or read it in `#[step(effect = \"read\")]`";
    FILES = "AE0105",
        why: "a replay would see the file system as it is then, and a write would happen again",
        help: "move it into `#[step(effect = \"read\")]` or `#[step(effect = \"tool\")]`";
    NETWORK = "AE0106",
        why: "a replay would send the request again",
        help: "use `cx.http()`, or move it into a step";
    PROCESS = "AE0107",
        why: "a replay would run the program again, and leaving the process loses the run's turn",
        help: "move it into `#[step(effect = \"tool\")]`";
    THREAD = "AE0108",
        why: "what another thread does is neither ordered nor recorded",
        help: "use `cx.join`, `cx.race` or `cx.each`; to wait, `cx.sleep(..)`";
    SPAWN = "AE0109",
        why: "a spawned task outlives the turn and is neither ordered nor recorded",
        help: "use `cx.join`, `cx.race` or `cx.each`; for a separate run, `cx.child::<workflow>(..)`";
    TIMER = "AE0110",
        why: "a timer of the async runtime is lost with the process and not known to a replay",
        help: "use `cx.sleep(..)` to wait, `cx.race((..))` for a time limit";
    HASH_ORDER = "AE0111",
        why: "its iteration order differs from process to process, and with it the order of effects",
        help: "use `BTreeMap` or `BTreeSet`";
    OUTPUT = "AE0112",
        why: "a replay would print it again",
        help: "use `tracing`, whose events are emitted only beyond what is recorded";
    HIDDEN_AWAIT = "AE0113",
        why: "an await that a macro hides would pass the gate unseen and would be no state of the workflow",
        help: "await first, `let value = ...await;`, and give the macro the value";
    FOREIGN_CONCURRENCY = "AE0114",
        why: "it polls futures in an order that a replay does not know",
        help: "use `cx.join((..))` or `cx.race((..))`";
    STATIC = "AE0115",
        why: "a static keeps its value between runs of the process, and a replay starts with another one",
        help: "use a local variable, pass the value in the input, or make it a `const`; a cache belongs into a step, with what it keeps in `.provide(..)`";
    TOO_MANY_STATES = "AE0116",
        why: "states are numbered with sixteen bits",
        help: "split the workflow into several";
    ADDRESS = "AE0117",
        why: "addresses differ from process to process",
        help: "use an id or a hash of the value's content";
    BLOCKING = "AE0118",
        why: "a workflow is not recorded while it blocks, holds up every run on its thread, and what another thread sends or unlocks is not replayed",
        help: "wait with `cx.signal(..)` or `cx.sleep(..)`, share data between branches by returning it, or move it into a step";
    THREAD_LOCAL = "AE0119",
        why: "a replay may be polled on another thread, where a thread-local has another value",
        help: "use a local variable, or pass the value in the input";
    RAW_HTTP = "AE0120",
        why: "a raw HTTP client sends no idempotency key and records no exchange, so a repeated attempt is a new request",
        help: "use `cx.http()`, or declare the step `effect = \"http\"`; a client of a library may be had from `cx.dep()`";
    PENDING_EFFECT = "AE0121",
        why: "effects get their numbers in the order they are asked for, so one on each context is under way at a time",
        help: "await it at once, or let both run side by side with `cx.join`";
    OUTER_CONTEXT = "AE0122",
        why: "branches run side by side, and each numbers its effects on a context of its own",
        help: "take the branch's context, `async |cx: &mut Cx| ..`, and use that one";
    RACED_CHANGE = "AE0123",
        why: "a replay polls only the winner of a race, without what the losers changed, and branches that share a value see it in the order in which they continue",
        help: "return the value from the branch, `let found = cx.race((async |cx: &mut Cx| Some(look(cx).await), ..)).await`, and change the variable with it behind the await";
    BRANCH_ELSEWHERE = "AE0124",
        why: "awaits are put behind the gate where they stand in a workflow, so what a function that is passed by its name awaits would pass unseen, and a replay would do it again",
        help: "write the closure here: `async |cx: &mut Cx| look(cx).await`";
    MARK = "AE0130",
        why: "it is told before a deploy which open runs a build has no path for, so what a mark may answer stands in the definition of the workflow",
        help: "write both as literals, the lowest version first: `cx.version(\"use-baz\", 1..=2)`";
    MARK_TWICE = "AE0131",
        why: "a name has one version in a run, and it could be one that only the other place has a path for",
        help: "give every place of this name the same range and the same method, or give the second change a name of its own";
    OPTIONAL_CHANGE = "AE0133",
        why: "the arguments of a log line are evaluated where its level is on, and those of a debug assertion in a debug build, so a process with other settings would go on in another state",
        help: "change it before, and give the macro the value";
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use std::path::Path;

    #[test]
    fn every_code_has_its_page_and_its_number_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = root.join("docs/diagnostics");
        for code in ALL {
            let page = std::fs::read_to_string(pages.join(format!("{}.md", code.id))).unwrap_or_default();
            assert!(page.starts_with(&format!("# {}: ", code.id)), "no page for {}", code.id);
            assert!(page.contains(code.why), "the page of {} gives another reason", code.id);
        }
        // What no lint sees, and `cargo aether check` finds, has pages of its own.
        let of_the_check = ["AE0132"];
        let ids: std::collections::BTreeSet<&str> = ALL.iter().map(|code| code.id).collect();
        assert_eq!(ids.len(), ALL.len());
        assert_eq!(
            std::fs::read_dir(pages).map(Iterator::count).unwrap_or(0),
            ALL.len() + of_the_check.len()
        );
    }

    #[test]
    fn every_code_has_a_failing_and_a_passing_case() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ui");
        for code in ALL {
            for side in ["fail", "pass"] {
                let cases = std::fs::read_dir(root.join(code.id).join(side)).map(Iterator::count);
                assert!(cases.unwrap_or(0) > 0, "no {side} case for {}", code.id);
            }
        }
    }
}
