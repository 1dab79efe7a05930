::aether::__private::inventory::submit! {
    ::aether::__private::Linked(::aether::__private::linked_step:: < send >)
}
/// Send an e-mail.
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
pub struct send {}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Signature for send {
    type Returned = Result<Receipt>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Step for send {
    const DECLARED: ::aether::__private::Declared<Result<Receipt>> = {
        use ::aether::__private::ClassOfOther as _;
        ::aether::__private::Declared {
            name: "send",
            path: ::core::concat!(::core::module_path!(), "::", "send"),
            function: "send",
            fingerprint: "59f357f059c5754e",
            doc: "Send an e-mail.",
            file: ::core::file!(),
            line: 3u32,
            class: ::aether::__private::EffectClass::Tool,
            classify: ::aether::__private::ClassOf::<Result<Receipt>>::CLASSIFY,
        }
    };
    const OPTIONS: ::aether::__private::StepOptions = ::aether::__private::StepOptions {
        retry: ::core::option::Option::Some(::aether::__private::Retry {
            patience: ::core::option::Option::None,
            delay: ::core::time::Duration::from_millis(200u64),
            factor: 2f64,
            max_delay: ::core::time::Duration::from_millis(60000u64),
            jitter: 0.2f64,
            ..::aether::__private::Retry::times(2u32)
        }),
        on_unknown: ::aether::__private::OnUnknown::Probe,
        keyed: true,
        ..::aether::__private::StepOptions::of(::aether::__private::EffectClass::Tool)
    };
    const ALLOWS: &'static [::aether::__private::Allow] = &[
        ::aether::__private::Allow {
            what: "clock",
            reason: "measures",
        },
    ];
    type Args = (::std::string::String, ::core::option::Option<::std::string::String>);
    fn encode(
        args: &(::std::string::String, ::core::option::Option<::std::string::String>),
    ) -> ::aether::__private::Coded<::aether::__private::Payload> {
        let (to, copies) = args;
        <::core::option::Option<
            ::std::string::String,
        > as ::aether::__private::Argument>::put(
                copies,
                "copies",
                <::std::string::String as ::aether::__private::Argument>::put(
                    to,
                    "to",
                    ::aether::__private::ArgsEncoder::new(),
                ),
            )
            .finish()
    }
    fn decode(
        args: &::aether::__private::Payload,
    ) -> ::aether::__private::Coded<
        (::std::string::String, ::core::option::Option<::std::string::String>),
    > {
        let decoder = ::aether::__private::ArgsDecoder::of(args);
        ::aether::__private::taken(
            (
                <::std::string::String as ::aether::__private::Argument>::take(
                    "to",
                    &decoder,
                ),
                <::core::option::Option<
                    ::std::string::String,
                > as ::aether::__private::Argument>::take("copies", &decoder),
            ),
            decoder,
        )
    }
    fn call(
        cx: ::aether::__private::StepCx,
        args: Self::Args,
    ) -> ::aether::__private::BoxFuture<'static, Self::Returned> {
        let (to, copies) = args;
        ::aether::__private::step_body(Self::__body(cx, to, copies))
    }
    fn business_key(args: &Self::Args) -> ::core::option::Option<::std::string::String> {
        ::aether::__private::marks::allow_clock();
        let (to, copies) = args;
        ::core::option::Option::Some(
            ::aether::__private::as_workflow_code(|| ::std::string::ToString::to_string(
                &to,
            )),
        )
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
                let (to, copies) = args;
                was_sent(&mut cx, &to, copies.as_deref())
                    .await
                    .map_err(::core::convert::Into::into)
            }),
        )
    }
}
impl send {
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
        mut cx: ::aether::__private::StepCx,
        __to: ::std::string::String,
        __copies: ::core::option::Option<::std::string::String>,
    ) -> Result<Receipt> {
        let cx: &mut StepCx = &mut cx;
        let to: &str = &__to;
        let copies: Option<&str> = __copies.as_deref();
        post(cx, to).await
    }
    ///The step `send` as a tool for a model.
    #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
    #[must_use]
    pub fn tool() -> ::aether::__private::Tool
    where
        for<'__schema> ::std::string::String: ::aether::__private::Describable<
            '__schema,
        >,
        for<'__schema> ::core::option::Option<
            ::std::string::String,
        >: ::aether::__private::Describable<'__schema>,
    {
        ::aether::__private::Tool::of::<
            Self,
        >(
            ::aether::__private::ToolSchema::new()
                .field::<::std::string::String>("to", "Address.")
                .field::<::core::option::Option<::std::string::String>>("copies", ""),
        )
    }
}
/// Send an e-mail.
#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
pub fn send<'__cx>(
    cx: &'__cx mut impl ::aether::__private::AsCx,
    to: &str,
    copies: Option<&str>,
) -> ::aether::__private::BoxEffect<
    '__cx,
    <Result<Receipt> as ::aether::__private::Answers>::Called,
> {
    let cx = ::aether::__private::AsCx::as_cx(cx);
    ::aether::__private::call_step::<
        send,
    >(
        cx,
        ::aether::__private::ArgsEncoder::new()
            .field::<&str>("to", &to)
            .field::<Option<&str>>("copies", &copies)
            .finish(),
    )
}
