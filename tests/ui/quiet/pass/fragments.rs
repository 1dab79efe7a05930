//! Workflows that a macro makes of types that it is given.
#![deny(warnings)]
use aether::prelude::*;

macro_rules! by_reference {
    ($name:ident, $t:ty) => {
        #[workflow]
        async fn $name(cx: &mut Cx, input: &$t) -> Result<u64> {
            Ok(cx.random().await + input.len() as u64)
        }
    };
}

macro_rules! optional {
    ($name:ident, $t:ty) => {
        #[workflow]
        async fn $name(cx: &mut Cx, input: Option<$t>) -> Result<u64> {
            Ok(cx.random().await + input.map_or(0, |input| input.len() as u64))
        }
    };
}

macro_rules! in_context {
    ($name:ident, $c:ty, $r:ty) => {
        #[workflow]
        async fn $name(cx: &mut $c) -> $r {
            Ok(cx.random().await)
        }
    };
}

by_reference!(of_text, str);
by_reference!(of_bytes, [u8]);
optional!(of_text_or_none, &str);
in_context!(plain, Cx, Result<u64>);

fn main() {
    let _sizes = std::mem::size_of::<(of_text, of_bytes, of_text_or_none, plain)>();
}
