//! The control-flow graph of a workflow body: which await may follow which.
//!
//! Promise: every transition that can happen inside one scope has an edge. Where the source does not tell, the graph
//! has more edges rather than fewer. Branch closures are machines of their own, from `START` to `END`.

use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, BinOp, Block, Expr, ExprAsync, ExprAwait, ExprBinary, ExprBlock, ExprBreak, ExprClosure,
    ExprContinue, ExprForLoop, ExprIf, ExprLoop, ExprMatch, ExprReturn, ExprTry, ExprWhile, FieldValue, Item,
    Local, Macro, Pat, Stmt,
};

use super::gate;
use super::graph::{Flow, Frame, Node};
use crate::plan::{Edge, EdgeKind};
use crate::syntax::arguments::Arguments;
use crate::syntax::awaits::contains_await;
use crate::syntax::conditions::Conditions;
use crate::syntax::known_macros;
use crate::syntax::operators::is_assignment;

/// The edges of a body whose awaits are numbered.
pub(crate) fn edges(body: &Block, states: usize) -> Vec<Edge> {
    let mut flow = Flow::new(states, Conditions::of(body));
    flow.visit_block(body);
    flow.link(flow.here, flow.exit, EdgeKind::Sequence);
    flow.link(flow.exit, Node::End, EdgeKind::Sequence);
    flow.resolve()
}

impl<'ast> Visit<'ast> for Flow {
    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        match stmt {
            Stmt::Item(Item::Macro(item)) => self.visit_macro(&item.mac),
            Stmt::Item(_) => {}
            _ if self.conditions.guard(stmt) => self.optional(|this| visit::visit_stmt(this, stmt)),
            _ => visit::visit_stmt(self, stmt),
        }
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        if self.conditions.guard(field) {
            self.optional(|this| this.visit_expr(&field.expr));
        } else {
            self.visit_expr(&field.expr);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let Some(init) = &local.init else { return };
        self.visit_expr(&init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            let (from, after) = (self.here, self.junction());
            self.way(from, after, |this| this.visit_expr(otherwise));
            self.link(from, after, EdgeKind::Sequence);
            self.here = after;
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Const(_) => {}
            Expr::Assign(assign) => self.either_order(&assign.right, &assign.left),
            Expr::Array(list) => self.list(&list.elems),
            Expr::Tuple(list) => self.list(&list.elems),
            Expr::Call(call) => {
                self.visit_expr(&call.func);
                self.list(&call.args);
            }
            Expr::MethodCall(call) => {
                self.visit_expr(&call.receiver);
                self.list(&call.args);
            }
            expr => visit::visit_expr(self, expr),
        }
    }

    fn visit_expr_await(&mut self, expr: &'ast ExprAwait) {
        let Some((number, base)) = gate::gated(expr) else {
            return self.visit_expr(&expr.base);
        };
        self.forks.push(Vec::new());
        self.visit_expr(base);
        let state = Node::State(number);
        self.go(state, EdgeKind::Sequence);
        for start in self.forks.pop().unwrap_or_default() {
            self.link(state, start, EdgeKind::Fork);
        }
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        match expr.op {
            BinOp::And(_) | BinOp::Or(_) => {
                self.visit_expr(&expr.left);
                self.optional(|this| this.visit_expr(&expr.right));
            }
            op if is_assignment(op) => self.either_order(&expr.left, &expr.right),
            _ => visit::visit_expr_binary(self, expr),
        }
    }

    fn visit_expr_if(&mut self, expr: &'ast ExprIf) {
        self.visit_expr(&expr.cond);
        let (from, after) = (self.here, self.junction());
        self.way(from, after, |this| this.visit_block(&expr.then_branch));
        match &expr.else_branch {
            Some((_, otherwise)) => self.way(from, after, |this| this.visit_expr(otherwise)),
            None => self.link(from, after, EdgeKind::Sequence),
        }
        self.here = after;
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        self.visit_expr(&expr.expr);
        let after = self.junction();
        if expr.arms.is_empty() {
            self.link(self.here, after, EdgeKind::Sequence);
        }
        for arm in &expr.arms {
            self.arm(arm, after);
        }
        self.here = after;
    }

    fn visit_expr_loop(&mut self, expr: &'ast ExprLoop) {
        self.repeat(expr.label.as_ref(), |this, _| this.visit_block(&expr.body));
    }

    fn visit_expr_while(&mut self, expr: &'ast ExprWhile) {
        self.repeat(expr.label.as_ref(), |this, after| {
            this.visit_expr(&expr.cond);
            this.link(this.here, after, EdgeKind::Sequence);
            this.visit_block(&expr.body);
        });
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.visit_expr(&expr.expr);
        self.repeat(expr.label.as_ref(), |this, after| {
            this.link(this.here, after, EdgeKind::Sequence);
            this.visit_block(&expr.body);
        });
    }

    fn visit_expr_block(&mut self, expr: &'ast ExprBlock) {
        let Some(label) = &expr.label else { return self.visit_block(&expr.block) };
        let after = self.junction();
        self.frames.push(Frame { label: Some(label.name.clone()), head: None, after });
        self.visit_block(&expr.block);
        self.frames.pop();
        self.go(after, EdgeKind::Sequence);
    }

    fn visit_expr_break(&mut self, expr: &'ast ExprBreak) {
        expr.expr.iter().for_each(|value| self.visit_expr(value));
        if let Some(after) = self.frames(expr.label.as_ref()).map(|frame| frame.after) {
            self.leave(after, EdgeKind::Sequence);
        }
    }

    fn visit_expr_continue(&mut self, expr: &'ast ExprContinue) {
        if let Some(head) = self.frames(expr.label.as_ref()).and_then(|frame| frame.head) {
            self.leave(head, EdgeKind::Loop);
        }
    }

    fn visit_expr_return(&mut self, expr: &'ast ExprReturn) {
        expr.expr.iter().for_each(|value| self.visit_expr(value));
        self.leave(self.exit, EdgeKind::EarlyReturn);
    }

    fn visit_expr_try(&mut self, expr: &'ast ExprTry) {
        self.visit_expr(&expr.expr);
        self.link(self.here, self.exit, EdgeKind::EarlyReturn);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        if gate::is_branch(closure) {
            self.branch_machine(closure.asyncness.is_none(), |this| this.visit_expr(&closure.body));
        }
    }

    fn visit_expr_async(&mut self, block: &'ast ExprAsync) {
        if self.in_plain_closure {
            self.visit_block(&block.block);
        } else {
            self.branch_machine(false, |this| this.visit_block(&block.block));
        }
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if contains_await(&mac.tokens) {
            let arguments = Arguments::of(mac);
            self.any_order(arguments.pieces.iter().filter_map(|piece| piece.expr.as_ref()));
        }
        if known_macros::may_leave(mac) {
            self.link(self.here, self.exit, EdgeKind::EarlyReturn);
            let innermost = self.frames(None).map(|frame| (frame.head, frame.after));
            if let Some((head, after)) = innermost {
                self.link(self.here, after, EdgeKind::Sequence);
                head.into_iter().for_each(|head| self.link(self.here, head, EdgeKind::Loop));
            }
        }
    }
}

impl Flow {
    /// Walks parts that run in an unknown order, any number of times.
    fn any_order<'a>(&mut self, parts: impl IntoIterator<Item = &'a Expr>) {
        let head = self.junction();
        self.go(head, EdgeKind::Sequence);
        for part in parts {
            self.way(head, head, |this| this.visit_expr(part));
        }
        self.here = head;
    }

    /// Two operands whose order of evaluation depends on types.
    fn either_order(&mut self, first: &Expr, second: &Expr) {
        if [first, second].into_iter().all(|side| contains_await(&side.to_token_stream())) {
            self.any_order([first, second]);
        } else {
            self.visit_expr(first);
            self.visit_expr(second);
        }
    }

    /// The elements of a list, which may carry `cfg`.
    fn list<'a>(&mut self, elements: impl IntoIterator<Item = &'a Expr>) {
        for element in elements {
            if self.conditions.guard(element) {
                self.optional(|this| this.visit_expr(element));
            } else {
                self.visit_expr(element);
            }
        }
    }

    /// One arm, entered from where the guards before it failed.
    fn arm(&mut self, arm: &Arm, after: Node) {
        let from = self.here;
        self.way(from, after, |this| {
            if let Some(guard) = guard_of(&arm.pat) {
                this.any_order([guard]);
            }
            this.visit_expr(&arm.body);
        });
        self.here = from;
        if let Some(guard) = guard_of(&arm.pat) {
            self.optional(|this| this.any_order([guard]));
        }
    }
}

/// The guard of an arm with this pattern.
fn guard_of(pat: &Pat) -> Option<&Expr> {
    match pat {
        Pat::Guard(guarded) => Some(&guarded.guard),
        _ => None,
    }
}
