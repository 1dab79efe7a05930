durable::__private::inventory::submit! {
    durable::__private::Linked(durable::__private::linked_workflow:: < triage >)
}
/// Triage.
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
struct triage {}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl durable::__private::Signature for triage {
    type Returned = Result<Verdict>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl durable::__private::Workflow for triage {
    const DEF: &'static durable::__private::WorkflowDef = {
        use durable::__private::{
            Edge as __Edge, EdgeKind as __Way, State as __State, StateKind as __Kind,
        };
        &durable::__private::WorkflowDef {
            name: "triage",
            module: ::core::module_path!(),
            doc: "Triage.",
            version: 2u32,
            fingerprint: "06d39a1773fdcd9e",
            file: ::core::file!(),
            line: 3u32,
            states: &[
                __State {
                    name: "search",
                    kind: __Kind::Call,
                    line: 4u32,
                    column: 49u32,
                    branch: ::core::option::Option::None,
                },
                __State {
                    name: "cx.now",
                    kind: __Kind::Effect,
                    line: 10u32,
                    column: 46u32,
                    branch: ::core::option::Option::Some(0u16),
                },
                __State {
                    name: "rank",
                    kind: __Kind::Call,
                    line: 11u32,
                    column: 52u32,
                    branch: ::core::option::Option::Some(1u16),
                },
                __State {
                    name: "cx.join",
                    kind: __Kind::Join,
                    line: 12u32,
                    column: 16u32,
                    branch: ::core::option::Option::None,
                },
            ],
            edges: &[
                __Edge {
                    from: 0u16,
                    to: 3u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 0u16,
                    to: 3u16,
                    kind: __Way::Branch,
                },
                __Edge {
                    from: 0u16,
                    to: 3u16,
                    kind: __Way::Loop,
                },
                __Edge {
                    from: 0u16,
                    to: 65535u16,
                    kind: __Way::EarlyReturn,
                },
                __Edge {
                    from: 1u16,
                    to: 65535u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 2u16,
                    to: 65535u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 3u16,
                    to: 1u16,
                    kind: __Way::Fork,
                },
                __Edge {
                    from: 3u16,
                    to: 2u16,
                    kind: __Way::Fork,
                },
                __Edge {
                    from: 3u16,
                    to: 65535u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 3u16,
                    to: 65535u16,
                    kind: __Way::EarlyReturn,
                },
                __Edge {
                    from: 65534u16,
                    to: 0u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 65534u16,
                    to: 1u16,
                    kind: __Way::Sequence,
                },
                __Edge {
                    from: 65534u16,
                    to: 2u16,
                    kind: __Way::Sequence,
                },
            ],
            changes: &[],
            allows: &[],
        }
    };
    const ARGUMENTS: &'static [&'static ::core::primitive::str] = &["ticket", "note"];
    const MENTIONED: durable::__private::Mentioned = durable::__private::Mentioned {
        function: "triage",
        mentions: &["LIMIT", "judge", "rank", "search"],
    };
    type Input = (Ticket, ::std::string::String);
    fn encode(
        args: &(Ticket, ::std::string::String),
    ) -> durable::__private::Coded<durable::__private::Payload> {
        let (ticket, note) = args;
        <::std::string::String as durable::__private::Argument>::put(
                note,
                "note",
                <Ticket as durable::__private::Argument>::put(
                    ticket,
                    "ticket",
                    durable::__private::ArgsEncoder::new(),
                ),
            )
            .finish()
    }
    fn decode(
        args: &durable::__private::Payload,
    ) -> durable::__private::Coded<(Ticket, ::std::string::String)> {
        let decoder = durable::__private::ArgsDecoder::of(args);
        durable::__private::taken(
            (
                <Ticket as durable::__private::Argument>::take("ticket", &decoder),
                <::std::string::String as durable::__private::Argument>::take(
                    "note",
                    &decoder,
                ),
            ),
            decoder,
        )
    }
    fn run(
        cx: durable::__private::Cx,
        args: Self::Input,
    ) -> durable::__private::BoxFuture<'static, Self::Returned> {
        let (ticket, note) = args;
        durable::__private::workflow_body(async move {
            let (cx, (ticket, note)) = (cx, (ticket, note));
            Self::__body(cx, ticket, &note).await
        })
    }
}
const _: () = {
    #[deprecated(
        note = "[AE0101] `.elapsed(..)` in a workflow\n  why: a replay or a retry would read another time than the first run did\n  help: use `cx.now().await`"
    )]
    #[allow(non_upper_case_globals)]
    const aether_warning: () = ();
    aether_warning
};
impl triage {
    #[doc(hidden)]
    #[allow(
        clippy::unused_async,
        clippy::needless_pass_by_value,
        clippy::trivially_copy_pass_by_ref,
        clippy::ptr_arg,
        clippy::future_not_send,
        clippy::used_underscore_binding
    )]
    async fn __body(
        mut cx: durable::__private::Cx,
        ticket: Ticket,
        note: &str,
    ) -> Result<Verdict> {
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
            pub enum rank {}
            pub enum search {}
        }
        for hit in durable::__private::asked_of(
            durable::__private::gate_call::<
                __called::search,
                _,
            >(search(cx, &ticket.text), 0u16)
                .await?,
            |items| {
                #[allow(unused_imports)]
                use durable::__private::InAnyOrder as _;
                durable::__private::GoneThrough(items).in_any_order();
            },
        ) {
            if hit.spent.elapsed() > LIMIT {
                break;
            }
        }
        let (a, b) = durable::__private::gate(
                cx
                    .join((
                        async |cx: &mut Cx| {
                            durable::__private::gate(cx.now(), 1u16).await
                        },
                        async |cx: &mut Cx| {
                            durable::__private::gate_call::<
                                __called::rank,
                                _,
                            >(rank(cx, note), 2u16)
                                .await
                        },
                    )),
                3u16,
            )
            .await;
        Ok(judge(a, b?))
    }
}
/// Triage.
#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
fn triage<'__cx>(
    cx: &'__cx mut impl durable::__private::AsCx,
    ticket: Ticket,
    note: &'__cx str,
) -> durable::__private::BoxEffect<'__cx, Result<Verdict>> {
    let cx = durable::__private::AsCx::as_cx(cx);
    durable::__private::inline_workflow(
        cx,
        <triage as durable::__private::Workflow>::DEF,
        move |scope: durable::__private::Cx| <triage>::__body(scope, ticket, note),
    )
}
