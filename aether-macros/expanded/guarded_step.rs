::aether::__private::inventory::submit! {
    ::aether::__private::Linked(::aether::__private::linked_step:: < pay >)
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
struct pay {}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Signature for pay {
    type Returned = Result<Receipt>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Step for pay {
    const DECLARED: ::aether::__private::Declared<Result<Receipt>> = {
        use ::aether::__private::ClassOfOther as _;
        ::aether::__private::Declared {
            name: "pay",
            path: ::core::concat!(::core::module_path!(), "::", "pay"),
            function: "pay",
            fingerprint: "0b1cd1bfd7959c6a",
            doc: "",
            file: ::core::file!(),
            line: 1u32,
            class: ::aether::__private::EffectClass::External,
            classify: ::aether::__private::ClassOf::<Result<Receipt>>::CLASSIFY,
        }
    };
    const OPTIONS: ::aether::__private::StepOptions = ::aether::__private::StepOptions {
        retry: ::core::option::Option::Some(::aether::__private::Retry {
            patience: ::core::option::Option::None,
            delay: ::core::time::Duration::from_millis(200u64),
            factor: 2f64,
            max_delay: ::core::time::Duration::from_millis(60000u64),
            jitter: 0.5f64,
            ..::aether::__private::Retry::times(1u32)
        }),
        on_unknown: ::aether::__private::OnUnknown::Probe,
        irreversible: true,
        scope: ::aether::__private::KeyScope::Store,
        approval: ::aether::__private::Approval::ByArguments,
        changes: &["http"],
        confirm: ::aether::__private::Confirm::Ask,
        heartbeat: ::core::option::Option::Some(
            ::core::time::Duration::from_millis(10000u64),
        ),
        limit: ::core::option::Option::Some("bank"),
        compensated: true,
        ..::aether::__private::StepOptions::of(
            ::aether::__private::EffectClass::External,
        )
    };
    type Args = u64;
    fn encode(args: &u64) -> ::aether::__private::Coded<::aether::__private::Payload> {
        let cents = args;
        <u64 as ::aether::__private::Argument>::put(
                cents,
                "cents",
                ::aether::__private::ArgsEncoder::new(),
            )
            .finish()
    }
    fn decode(args: &::aether::__private::Payload) -> ::aether::__private::Coded<u64> {
        let decoder = ::aether::__private::ArgsDecoder::of(args);
        ::aether::__private::taken(
            <u64 as ::aether::__private::Argument>::take("cents", &decoder),
            decoder,
        )
    }
    fn call(
        cx: ::aether::__private::StepCx,
        args: Self::Args,
    ) -> ::aether::__private::BoxFuture<'static, Self::Returned> {
        let cents = args;
        ::aether::__private::step_body(Self::__body(cx, cents))
    }
    fn needs_approval(args: &Self::Args) -> bool {
        let cents = args;
        let cents: &u64 = cents;
        ::aether::__private::as_workflow_code(|| -> bool { *cents > 10_000 })
    }
    fn probe(
        cx: ::aether::__private::StepCx,
        args: Self::Args,
    ) -> ::core::option::Option<
        ::aether::__private::BoxFuture<
            'static,
            ::core::result::Result<
                ::aether::__private::Probe<Self::Output>,
                ::aether::__private::Failure,
            >,
        >,
    > {
        ::core::option::Option::Some(
            ::std::boxed::Box::pin(async move {
                let mut cx = cx;
                let cents = args;
                Self::was_paid(&mut cx, cents).await.map_err(::core::convert::Into::into)
            }),
        )
    }
    fn compensation(
        args: Self::Args,
        output: ::core::option::Option<Self::Output>,
    ) -> ::core::option::Option<::aether::__private::Undo> {
        let cents = args;
        ::core::option::Option::Some(
            <bank::Account_refund as ::aether::__private::Undoes<
                (u64, ::core::option::Option<Self::Output>),
            >>::undo(&(cents, output)),
        )
    }
}
impl pay {
    #[doc(hidden)]
    #[allow(
        clippy::unused_async,
        clippy::needless_pass_by_value,
        clippy::trivially_copy_pass_by_ref,
        clippy::ptr_arg,
        clippy::future_not_send,
        clippy::used_underscore_binding
    )]
    async fn __body(mut cx: ::aether::__private::StepCx, cents: u64) -> Result<Receipt> {
        let cx: &mut StepCx = &mut cx;
        send(cx, cents).await
    }
    ///The step `pay` as a tool for a model.
    #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
    #[must_use]
    fn tool() -> ::aether::__private::Tool
    where
        for<'__schema> u64: ::aether::__private::Describable<'__schema>,
    {
        ::aether::__private::Tool::of::<
            Self,
        >(::aether::__private::ToolSchema::new().field::<u64>("cents", ""))
    }
}
#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
fn pay<'__cx>(
    cx: &'__cx mut impl ::aether::__private::AsCx,
    cents: u64,
) -> ::aether::__private::BoxEffect<
    '__cx,
    <Result<Receipt> as ::aether::__private::Answers>::Called,
> {
    let cx = ::aether::__private::AsCx::as_cx(cx);
    ::aether::__private::call_step::<
        pay,
    >(
        cx,
        <u64 as ::aether::__private::Argument>::put(
                &cents,
                "cents",
                ::aether::__private::ArgsEncoder::new(),
            )
            .finish(),
    )
}
