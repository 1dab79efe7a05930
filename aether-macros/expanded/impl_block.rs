::aether::__private::inventory::submit! {
    ::aether::__private::Linked(::aether::__private::linked_step:: < Agent_look >)
}
/// Looks.
#[allow(
    non_camel_case_types,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    dead_code,
    unreachable_pub,
    unnameable_types,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
struct Agent_look {}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Signature for Agent_look {
    type Returned = Result<u32>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Step for Agent_look {
    const DECLARED: ::aether::__private::Declared<Result<u32>> = {
        use ::aether::__private::ClassOfOther as _;
        ::aether::__private::Declared {
            name: "Agent_look",
            path: ::core::concat!(::core::module_path!(), "::", "Agent::look"),
            function: "look",
            fingerprint: "18c8f280572df61b",
            doc: "Looks.",
            file: ::core::file!(),
            line: 5u32,
            class: ::aether::__private::EffectClass::Read,
            classify: ::aether::__private::ClassOf::<Result<u32>>::CLASSIFY,
        }
    };
    type Args = Agent;
    fn encode(args: &Agent) -> ::aether::__private::Coded<::aether::__private::Payload> {
        let at = args;
        <Agent as ::aether::__private::Argument>::put(
                at,
                "at",
                ::aether::__private::ArgsEncoder::new(),
            )
            .finish()
    }
    fn decode(args: &::aether::__private::Payload) -> ::aether::__private::Coded<Agent> {
        let decoder = ::aether::__private::ArgsDecoder::of(args);
        ::aether::__private::taken(
            <Agent as ::aether::__private::Argument>::take("at", &decoder),
            decoder,
        )
    }
    fn call(
        cx: ::aether::__private::StepCx,
        args: Self::Args,
    ) -> ::aether::__private::BoxFuture<'static, Self::Returned> {
        let at = args;
        ::aether::__private::step_body(<Agent>::__body_look(cx, at))
    }
}
impl Agent_look {
    ///The step `Agent_look` as a tool for a model.
    #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
    #[must_use]
    fn tool() -> ::aether::__private::Tool
    where
        for<'__schema> Agent: ::aether::__private::Describable<'__schema>,
    {
        ::aether::__private::Tool::of::<
            Self,
        >(::aether::__private::ToolSchema::new().field::<Agent>("at", ""))
    }
}
::aether::__private::inventory::submit! {
    ::aether::__private::Linked(::aether::__private::linked_workflow:: < Agent_run >)
}
#[allow(
    non_camel_case_types,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    dead_code,
    unreachable_pub,
    unnameable_types,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
pub struct Agent_run {}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Signature for Agent_run {
    type Returned = Result<u32>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Workflow for Agent_run {
    const DEF: &'static ::aether::__private::WorkflowDef = {
        use ::aether::__private::{
            Edge as __Edge, EdgeKind as __Way, State as __State, StateKind as __Kind,
        };
        &::aether::__private::WorkflowDef {
            name: "Agent_run",
            module: ::core::module_path!(),
            doc: "",
            version: 1u32,
            fingerprint: "a714e81cf3049504",
            file: ::core::file!(),
            line: 6u32,
            states: &[
                __State {
                    name: "look",
                    kind: __Kind::Call,
                    line: 6u32,
                    column: 99u32,
                    branch: ::core::option::Option::None,
                },
            ],
            edges: &[
                __Edge {
                    from: 0u16,
                    to: 65535u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 0u16,
                    to: 65535u16,
                    kind: __Way::EarlyReturn,
                },
                __Edge {
                    from: 65534u16,
                    to: 0u16,
                    kind: __Way::Sequence,
                },
            ],
            changes: &[],
            allows: &[],
        }
    };
    const ARGUMENTS: &'static [&'static ::core::primitive::str] = &["agent"];
    const MENTIONED: ::aether::__private::Mentioned = ::aether::__private::Mentioned {
        function: "run",
        mentions: &["look"],
    };
    type Input = Agent;
    fn encode(args: &Agent) -> ::aether::__private::Coded<::aether::__private::Payload> {
        let agent = args;
        <Agent as ::aether::__private::Argument>::put(
                agent,
                "agent",
                ::aether::__private::ArgsEncoder::new(),
            )
            .finish()
    }
    fn decode(args: &::aether::__private::Payload) -> ::aether::__private::Coded<Agent> {
        let decoder = ::aether::__private::ArgsDecoder::of(args);
        ::aether::__private::taken(
            <Agent as ::aether::__private::Argument>::take("agent", &decoder),
            decoder,
        )
    }
    fn run(
        cx: ::aether::__private::Cx,
        args: Self::Input,
    ) -> ::aether::__private::BoxFuture<'static, Self::Returned> {
        let agent = args;
        ::aether::__private::workflow_body(<Agent>::__body_run(cx, agent))
    }
}
impl Agent {
    #[doc(hidden)]
    #[allow(
        clippy::unused_async,
        clippy::needless_pass_by_value,
        clippy::trivially_copy_pass_by_ref,
        clippy::ptr_arg,
        clippy::future_not_send,
        clippy::used_underscore_binding
    )]
    async fn __body_look(
        mut cx: ::aether::__private::StepCx,
        __at: Agent,
    ) -> Result<u32> {
        let cx: &mut StepCx = &mut cx;
        let at: &Agent = &__at;
        Ok(at.0)
    }
    /// Looks.
    #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
    fn look<'__cx>(
        cx: &'__cx mut impl ::aether::__private::AsCx,
        at: &Agent,
    ) -> ::aether::__private::BoxEffect<
        '__cx,
        <Result<u32> as ::aether::__private::Answers>::Called,
    > {
        let cx = ::aether::__private::AsCx::as_cx(cx);
        ::aether::__private::call_step::<
            Agent_look,
        >(
            cx,
            <Agent as ::aether::__private::Argument>::put(
                    at,
                    "at",
                    ::aether::__private::ArgsEncoder::new(),
                )
                .finish(),
        )
    }
    #[doc(hidden)]
    #[allow(
        clippy::unused_async,
        clippy::needless_pass_by_value,
        clippy::trivially_copy_pass_by_ref,
        clippy::ptr_arg,
        clippy::future_not_send,
        clippy::used_underscore_binding
    )]
    async fn __body_run(mut cx: ::aether::__private::Cx, agent: Agent) -> Result<u32> {
        let cx: &mut Cx = &mut cx;
        #[allow(
            non_camel_case_types,
            dead_code,
            unreachable_pub,
            clippy::all,
            clippy::pedantic,
            clippy::nursery
        )]
        mod __called {
            pub enum look {}
        }
        Ok(
            ::aether::__private::gate_call::<
                __called::look,
                _,
            >(Self::look(cx, &agent), 0u16)
                .await?,
        )
    }
    #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
    pub fn run<'__cx>(
        cx: &'__cx mut impl ::aether::__private::AsCx,
        agent: Agent,
    ) -> ::aether::__private::BoxEffect<'__cx, Result<u32>> {
        let cx = ::aether::__private::AsCx::as_cx(cx);
        ::aether::__private::inline_workflow(
            cx,
            <Agent_run as ::aether::__private::Workflow>::DEF,
            move |scope: ::aether::__private::Cx| <Agent>::__body_run(scope, agent),
        )
    }
    fn plain(&self) -> u32 {
        self.0
    }
}
