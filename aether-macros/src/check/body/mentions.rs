//! The names of functions in a body, by which the workflows and steps that run inside of it are found.
//!
//! Promise: every function that the body calls or hands on by its name is among them, also behind an import that the macro
//! sees. There may be more names than functions.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprPath, Ident, Item, ItemFn, Macro, PatIdent, Path, UseRename};

/// Names that are no function of anyone.
const KNOWN: [&str; 4] = ["Ok", "Err", "Some", "None"];

/// The names in the body of `function`, sorted.
pub(crate) fn of_workflow(function: &ItemFn, module: &[Item]) -> Vec<String> {
    let mut mentions = Mentions::default();
    module.iter().filter(|item| matches!(item, Item::Use(_))).for_each(|item| mentions.visit_item(item));
    mentions.visit_signature(&function.sig);
    mentions.visit_block(&function.block);
    let Mentions { mut called, values, bound, renamed } = mentions;
    called.extend(values.difference(&bound).cloned());
    let originals: Vec<String> = called.iter().filter_map(|name| renamed.get(name)).cloned().collect();
    called.extend(originals);
    called.into_iter().filter(|name| !KNOWN.contains(&name.as_str())).collect()
}

#[derive(Default)]
struct Mentions {
    /// Names of what is called.
    called: BTreeSet<String>,
    /// Names of values that are not called where they stand.
    values: BTreeSet<String>,
    /// Names of arguments and local variables.
    bound: BTreeSet<String>,
    /// Names of imports that are called otherwise here.
    renamed: BTreeMap<String, String>,
}

impl<'ast> Visit<'ast> for Mentions {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        match &*call.func {
            Expr::Path(path) => self.called.extend(last_name(&path.path)),
            func => self.visit_expr(func),
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.values.extend(last_name(&path.path));
    }

    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.bound.insert(text(&pat.ident));
        visit::visit_pat_ident(self, pat);
    }

    fn visit_use_rename(&mut self, rename: &'ast UseRename) {
        self.renamed.insert(text(&rename.rename), text(&rename.ident));
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        self.look_into(mac.tokens.clone());
    }
}

impl Mentions {
    /// Tokens of a macro: whatever is followed by arguments may be called, and any other name may be a function's.
    fn look_into(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut after_dot = false;
        while let Some(token) = tokens.next() {
            // A method or a field, or `.await`.
            let is_member = std::mem::replace(&mut after_dot, is_dot(&token));
            match token {
                TokenTree::Ident(name) if !is_member && !is_keyword(&name) => {
                    let is_called = matches!(tokens.peek(), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    let names = if is_called { &mut self.called } else { &mut self.values };
                    names.insert(text(&name));
                }
                TokenTree::Group(group) => self.look_into(group.stream()),
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

fn is_dot(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '.')
}

fn is_keyword(name: &Ident) -> bool {
    syn::parse_str::<Ident>(&name.to_string()).is_err()
}

fn last_name(path: &Path) -> Option<String> {
    path.segments.last().map(|last| text(&last.ident))
}

fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn calls_values_and_imports_are_found_and_local_variables_are_not() {
        let function: ItemFn = parse_quote! {
            async fn triage(cx: &mut Cx, ticket: Ticket) -> Result<()> {
                use flows::inner as other_name;
                let search = search::<Deep>(cx, &ticket.text).await?;
                let chosen = if search.ok { rank } else { Agent::score };
                chosen(cx).await?;
                cx.each(search.hits, async |cx, hit| flows::look(cx, hit).await).await;
                other_name(cx).await?;
                renamed(cx).await?;
                tracing::info!("{}", shown(ticket));
                Ok(())
            }
        };
        let imports: Item = parse_quote!(
            use flows::{audit as renamed, plain};
        );
        let expected = "audit chosen inner look other_name rank renamed score search shown";
        assert_eq!(of_workflow(&function, &[imports]).join(" "), expected);
    }

    #[test]
    fn a_call_behind_brackets_or_in_a_macro_is_found() {
        let function: ItemFn = parse_quote! {
            async fn triage(cx: &mut Cx) -> Result<()> {
                (first)(cx).await?;
                { second }(cx).await?;
                let effects = [third(cx)];
                assert_eq!(1, fourth(cx).await, "{}", fifth);
                Ok(())
            }
        };
        assert_eq!(of_workflow(&function, &[]).join(" "), "fifth first fourth second third");
    }
}
