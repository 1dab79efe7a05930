::aether::__private::inventory::submit! {
    ::aether::__private::Linked(|| ::aether::__private::LinkedItem { code :
    ::aether::__private::LinkedCode { function : "first", name : "first", file :
    ::core::file!(), line : 1u32, fingerprint : "4f5d7820616608e4", mentions : & [],
    class : ::core::option::Option::Some(::aether::__private::EffectClass::Pure), }, item
    : ::core::option::Option::None, })
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
struct first<T, __otherwise1> {
    __marker: ::core::marker::PhantomData<fn() -> (T, __otherwise1)>,
}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl<
    T: Clone + ::aether::__private::Recordable,
    __otherwise1: Into<T> + ::aether::__private::Recordable,
> ::aether::__private::Signature for first<T, __otherwise1> {
    type Returned = Result<T>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl<
    T: Clone + ::aether::__private::Recordable,
    __otherwise1: Into<T> + ::aether::__private::Recordable,
> ::aether::__private::Step for first<T, __otherwise1> {
    const DECLARED: ::aether::__private::Declared<Result<T>> = {
        use ::aether::__private::ClassOfOther as _;
        ::aether::__private::Declared {
            name: "first",
            path: ::core::concat!(::core::module_path!(), "::", "first"),
            function: "first",
            fingerprint: "4f5d7820616608e4",
            doc: "",
            file: ::core::file!(),
            line: 1u32,
            class: ::aether::__private::EffectClass::Pure,
            classify: ::aether::__private::ClassOf::<Result<T>>::CLASSIFY,
        }
    };
    type Args = (::std::vec::Vec<T>, __otherwise1);
    fn encode(
        args: &(::std::vec::Vec<T>, __otherwise1),
    ) -> ::aether::__private::Coded<::aether::__private::Payload> {
        let (items, otherwise) = args;
        <__otherwise1 as ::aether::__private::Argument>::put(
                otherwise,
                "otherwise",
                <::std::vec::Vec<
                    T,
                > as ::aether::__private::Argument>::put(
                    items,
                    "items",
                    ::aether::__private::ArgsEncoder::new(),
                ),
            )
            .finish()
    }
    fn decode(
        args: &::aether::__private::Payload,
    ) -> ::aether::__private::Coded<(::std::vec::Vec<T>, __otherwise1)> {
        let decoder = ::aether::__private::ArgsDecoder::of(args);
        ::aether::__private::taken(
            (
                <::std::vec::Vec<
                    T,
                > as ::aether::__private::Argument>::take("items", &decoder),
                <__otherwise1 as ::aether::__private::Argument>::take(
                    "otherwise",
                    &decoder,
                ),
            ),
            decoder,
        )
    }
    fn call(
        cx: ::aether::__private::StepCx,
        args: Self::Args,
    ) -> ::aether::__private::BoxFuture<'static, Self::Returned> {
        ::aether::__private::marks::replayed();
        let (items, otherwise) = args;
        ::aether::__private::step_body(Self::__body(cx, items, otherwise))
    }
}
impl<
    T: Clone + ::aether::__private::Recordable,
    __otherwise1: Into<T> + ::aether::__private::Recordable,
> first<T, __otherwise1> {
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
        cx: ::aether::__private::StepCx,
        __items: ::std::vec::Vec<T>,
        otherwise: __otherwise1,
    ) -> Result<T> {
        let items: &[T] = &__items;
        pick(items)
    }
    ///The step `first` as a tool for a model.
    #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
    #[must_use]
    fn tool() -> ::aether::__private::Tool
    where
        for<'__schema> ::std::vec::Vec<T>: ::aether::__private::Describable<'__schema>,
        for<'__schema> __otherwise1: ::aether::__private::Describable<'__schema>,
    {
        ::aether::__private::Tool::of::<
            Self,
        >(
            ::aether::__private::ToolSchema::new()
                .field::<::std::vec::Vec<T>>("items", "")
                .field::<__otherwise1>("otherwise", ""),
        )
    }
}
#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
fn first<
    '__cx,
    T: Clone + ::aether::__private::Recordable,
    __otherwise1: Into<T> + ::aether::__private::Recordable,
>(
    cx: &'__cx mut impl ::aether::__private::AsCx,
    items: &[T],
    otherwise: __otherwise1,
) -> ::aether::__private::BoxEffect<
    '__cx,
    <Result<T> as ::aether::__private::Answers>::Called,
> {
    let cx = ::aether::__private::AsCx::as_cx(cx);
    ::aether::__private::call_step::<
        first<T, __otherwise1>,
    >(
        cx,
        <__otherwise1 as ::aether::__private::Argument>::put(
                &otherwise,
                "otherwise",
                ::aether::__private::ArgsEncoder::new().field::<&[T]>("items", &items),
            )
            .finish(),
    )
}
