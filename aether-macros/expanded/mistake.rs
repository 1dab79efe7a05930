::core::compile_error! {
    "[AE0108] `std::thread::park` in a workflow\n  why: what another thread does is neither ordered nor recorded\n  help: use `cx.join`, `cx.race` or `cx.each`; to wait, `cx.sleep(..)`"
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
struct flow {}
#[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Signature for flow {
    type Returned = Result<u32>;
}
#[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
impl ::aether::__private::Workflow for flow {
    const DEF: &'static ::aether::__private::WorkflowDef = {
        use ::aether::__private::{
            Edge as __Edge, EdgeKind as __Way, State as __State, StateKind as __Kind,
        };
        &::aether::__private::WorkflowDef {
            name: "flow",
            module: ::core::module_path!(),
            doc: "",
            version: 1u32,
            fingerprint: "",
            file: ::core::file!(),
            line: 1u32,
            states: &[],
            edges: &[],
            changes: &[],
            allows: &[],
        }
    };
    type Input = u32;
    fn encode(args: &u32) -> ::aether::__private::Coded<::aether::__private::Payload> {
        ::core::unreachable!()
    }
    fn decode(args: &::aether::__private::Payload) -> ::aether::__private::Coded<u32> {
        ::core::unreachable!()
    }
    fn run(
        cx: ::aether::__private::Cx,
        args: Self::Input,
    ) -> ::aether::__private::BoxFuture<'static, Self::Returned> {
        ::core::unreachable!()
    }
}
impl flow {}
#[allow(unused_variables)]
#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
fn flow<'__cx>(
    cx: &'__cx mut impl ::aether::__private::AsCx,
    id: u32,
) -> ::aether::__private::BoxEffect<'__cx, Result<u32>> {
    let cx = ::aether::__private::AsCx::as_cx(cx);
    ::core::unreachable!()
}
