//! The control-flow graph of a workflow body: which await may follow which.
//!
//! Promise: every transition that can happen inside one scope has an edge. Where the source does not tell, the graph
//! has more edges rather than fewer. Branch closures are machines of their own, from [`START`] to [`END`].
//!
//! A frontier is always one node; where ways meet, a junction is made. Junctions are taken out again at the end.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Arm, BinOp, Block, Expr, ExprAsync, ExprAwait, ExprBinary, ExprBlock, ExprBreak, ExprClosure,
    ExprContinue, ExprForLoop, ExprIf, ExprLoop, ExprMatch, ExprReturn, ExprTry, ExprWhile, FieldValue, Item,
    Label, Lifetime, Local, Macro, Stmt,
};

use crate::awaits;
use crate::hidden::{self, Arguments};
use crate::ir::{END, Edge, EdgeKind, START};

/// The edges of a body whose awaits are numbered.
pub(crate) fn edges(body: &Block, states: usize) -> Vec<Edge> {
    let mut flow = Flow::new(states);
    flow.visit_block(body);
    flow.link(flow.here, flow.exit, EdgeKind::Sequence);
    flow.link(flow.exit, Node::End, EdgeKind::Sequence);
    flow.resolve()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Start,
    State(u16),
    Junction(usize),
    End,
}

/// What `break` and `continue` refer to.
struct Frame {
    label: Option<Lifetime>,
    /// `None` for a labelled block.
    head: Option<Node>,
    after: Node,
}

struct Flow {
    ways: BTreeMap<Node, BTreeSet<(Node, EdgeKind)>>,
    states: usize,
    junctions: usize,
    /// Where control is now.
    here: Node,
    /// Where `return` and `?` go.
    exit: Node,
    frames: Vec<Frame>,
    /// The starts of the branch closures in the expression that is awaited, innermost await last.
    forks: Vec<Vec<Node>>,
    in_plain_closure: bool,
}

impl Flow {
    fn new(states: usize) -> Self {
        Self {
            ways: BTreeMap::new(),
            states,
            junctions: 1,
            here: Node::Start,
            exit: Node::Junction(0),
            frames: Vec::new(),
            forks: Vec::new(),
            in_plain_closure: false,
        }
    }

    fn link(&mut self, from: Node, to: Node, kind: EdgeKind) {
        self.ways.entry(from).or_default().insert((to, kind));
    }

    fn junction(&mut self) -> Node {
        self.junctions += 1;
        Node::Junction(self.junctions)
    }

    /// Goes on at `node`.
    fn go(&mut self, node: Node, kind: EdgeKind) {
        self.link(self.here, node, kind);
        self.here = node;
    }

    /// Leaves for `node`; what follows in the source is not reached from here.
    fn leave(&mut self, node: Node, kind: EdgeKind) {
        self.link(self.here, node, kind);
        self.here = self.junction();
    }

    /// Walks one of several ways from `from` to `to`.
    fn way(&mut self, from: Node, to: Node, walk: impl FnOnce(&mut Self)) {
        self.here = from;
        let entry = self.junction();
        self.go(entry, EdgeKind::Branch);
        walk(self);
        self.link(self.here, to, EdgeKind::Sequence);
    }

    /// Walks what may be absent.
    fn optional(&mut self, walk: impl FnOnce(&mut Self)) {
        let (from, to) = (self.here, self.junction());
        self.way(from, to, walk);
        self.link(from, to, EdgeKind::Sequence);
        self.here = to;
    }

    /// Walks parts that run in an unknown order, any number of times.
    fn any_order<'a>(&mut self, parts: impl IntoIterator<Item = &'a Expr>) {
        let head = self.junction();
        self.go(head, EdgeKind::Sequence);
        for part in parts {
            self.way(head, head, |this| this.visit_expr(part));
        }
        self.here = head;
    }

    /// Walks a loop; `body` is told where the loop is left.
    fn repeat(&mut self, label: Option<&Label>, body: impl FnOnce(&mut Self, Node)) {
        let (head, after) = (self.junction(), self.junction());
        self.go(head, EdgeKind::Sequence);
        let label = label.map(|label| label.name.clone());
        self.frames.push(Frame { label, head: Some(head), after });
        body(self, after);
        self.link(self.here, head, EdgeKind::Loop);
        self.frames.pop();
        self.here = after;
    }

    /// Walks a body with its own start and end, and gives its start.
    fn machine(&mut self, plain: bool, walk: impl FnOnce(&mut Self)) -> Node {
        let (start, exit) = (self.junction(), self.junction());
        self.link(Node::Start, start, EdgeKind::Sequence);
        self.link(exit, Node::End, EdgeKind::Sequence);
        let outer = (self.here, self.exit, self.in_plain_closure);
        let frames = std::mem::take(&mut self.frames);
        let forks = std::mem::take(&mut self.forks);
        (self.here, self.exit, self.in_plain_closure) = (start, exit, plain);
        walk(self);
        self.link(self.here, exit, EdgeKind::Sequence);
        (self.here, self.exit, self.in_plain_closure) = outer;
        (self.frames, self.forks) = (frames, forks);
        start
    }

    fn branch_machine(&mut self, plain: bool, walk: impl FnOnce(&mut Self)) {
        let start = self.machine(plain, walk);
        if let Some(forks) = self.forks.last_mut() {
            forks.push(start);
        }
    }

    /// The places a `break` or `continue` may refer to: the named frame, or the innermost loop.
    fn frames(&self, label: Option<&Lifetime>) -> Option<&Frame> {
        self.frames.iter().rev().find(|frame| match label {
            Some(label) => frame.label.as_ref().is_some_and(|name| name.ident == label.ident),
            None => frame.head.is_some(),
        })
    }

    /// Takes the junctions out.
    fn resolve(&self) -> Vec<Edge> {
        let mut edges = BTreeSet::new();
        let states = (0..self.states)
            .filter_map(|state| u16::try_from(state).ok())
            .map(|state| (state, Node::State(state)));
        for (from, node) in std::iter::once((START, Node::Start)).chain(states) {
            self.follow(from, node, &mut edges);
        }
        edges.into_iter().collect()
    }

    fn follow(&self, from: u16, node: Node, edges: &mut BTreeSet<Edge>) {
        let mut seen = BTreeSet::new();
        let mut open = vec![(node, EdgeKind::Sequence)];
        while let Some((node, so_far)) = open.pop() {
            for (next, kind) in self.ways.get(&node).into_iter().flatten() {
                let kind = so_far.max(*kind);
                match next {
                    Node::State(to) => drop(edges.insert(Edge { from, to: *to, kind })),
                    Node::End if kind != EdgeKind::Fork => drop(edges.insert(Edge { from, to: END, kind })),
                    Node::Junction(_) if seen.insert((*next, kind)) => open.push((*next, kind)),
                    Node::Start | Node::End | Node::Junction(_) => {}
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Flow {
    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        match stmt {
            Stmt::Item(Item::Macro(item)) => self.visit_macro(&item.mac),
            Stmt::Item(_) => {}
            _ if is_conditional(stmt) => self.optional(|this| visit::visit_stmt(this, stmt)),
            _ => visit::visit_stmt(self, stmt),
        }
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        if is_conditional(field) {
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
        let Some((number, base)) = awaits::gated(expr) else {
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
        if awaits::is_branch(closure) {
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
        if hidden::awaits(&mac.tokens) {
            let arguments = Arguments::of(mac);
            self.any_order(arguments.pieces.iter().filter_map(|piece| piece.expr.as_ref()));
        }
        if hidden::may_leave(mac) {
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
    /// Two operands whose order of evaluation depends on types.
    fn either_order(&mut self, first: &Expr, second: &Expr) {
        if [first, second].into_iter().all(|side| hidden::awaits(&side.to_token_stream())) {
            self.any_order([first, second]);
        } else {
            self.visit_expr(first);
            self.visit_expr(second);
        }
    }

    /// The elements of a list, which may carry `cfg`.
    fn list<'a>(&mut self, elements: impl IntoIterator<Item = &'a Expr>) {
        for element in elements {
            if is_conditional(element) {
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
            if let Some((_, guard)) = &arm.guard {
                this.any_order([&**guard]);
            }
            this.visit_expr(&arm.body);
        });
        self.here = from;
        if let Some((_, guard)) = &arm.guard {
            self.optional(|this| this.any_order([&**guard]));
        }
    }
}

fn is_assignment(op: BinOp) -> bool {
    use BinOp as Op;
    matches!(
        op,
        Op::AddAssign(_)
            | Op::SubAssign(_)
            | Op::MulAssign(_)
            | Op::DivAssign(_)
            | Op::RemAssign(_)
            | Op::BitXorAssign(_)
            | Op::BitAndAssign(_)
            | Op::BitOrAssign(_)
            | Op::ShlAssign(_)
            | Op::ShrAssign(_)
    )
}

/// Whether `cfg` may take the piece of code away.
fn is_conditional(code: &impl ToTokens) -> bool {
    leading_cfg(code.to_token_stream())
}

fn leading_cfg(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter();
    while let (Some(TokenTree::Punct(hash)), Some(TokenTree::Group(group))) = (tokens.next(), tokens.next()) {
        let name = group.stream().into_iter().next().map(|token| token.to_string()).unwrap_or_default();
        if hash.as_char() == '#' && (name == "cfg" || name == "cfg_attr") {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod soundness;
#[cfg(test)]
mod tests;
