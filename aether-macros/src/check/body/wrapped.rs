//! A body that an attribute above has rewritten.
//!
//! Promise: only what `#[tracing::instrument]` leaves is told; it is recognized by the name of its span.

use syn::visit::Visit;
use syn::{Block, Ident, ItemFn, PatIdent};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::parse::kind::Kind;

/// What the names of that attribute begin with.
const SPAN: &str = "__tracing_attr";

/// Reports that `#[tracing::instrument]` has put the body into a future of its own, and says whether it has.
pub(crate) fn is_reported(function: &ItemFn, kind: Kind, diagnostics: &mut Diagnostics) -> bool {
    let Some(at) = instrumented(&function.block) else { return false };
    let attribute = kind.attribute();
    diagnostics.report_with(
        at,
        code::WRAPPED,
        format_args!("`#[instrument]` above `{attribute}`"),
        format_args!("put `#[instrument]` below `{attribute}`, where it sees the function as it is written"),
    );
    true
}

/// The name of the span that the attribute has made.
fn instrumented(body: &Block) -> Option<Ident> {
    let mut search = Search(None);
    search.visit_block(body);
    search.0
}

struct Search(Option<Ident>);

impl<'ast> Visit<'ast> for Search {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        if pattern.ident.to_string().starts_with(SPAN) {
            self.0.get_or_insert_with(|| pattern.ident.clone());
        }
    }
}
