//! The graphs of bodies of several shapes.

mod soundness;

use crate::flow::gate;
use crate::flow::walk::edges;
use crate::plan::{END, Edge, EdgeKind, START};
use syn::Block;

use crate::diagnostics::report::Diagnostics;

/// The edges of a body as `from>to` words: `s` is the start, `e` the end; the letter after tells the kind.
fn graph(body: &str) -> String {
    let mut block: Block = syn::parse_str(&format!("{{ {body} }}")).unwrap();
    let mut diagnostics = Diagnostics::default();
    let krate = syn::parse_quote!(aether);
    let cx = Some(syn::parse_quote!(cx));
    let states = gate::insert_gates(&mut block, &krate, cx, &[], &mut diagnostics);
    assert!(diagnostics.is_empty());
    let name = |state: u16| match state {
        START => "s".into(),
        END => "e".into(),
        state => state.to_string(),
    };
    let kind = |kind| match kind {
        EdgeKind::Sequence => "",
        EdgeKind::Branch => "b",
        EdgeKind::Loop => "l",
        EdgeKind::EarlyReturn => "r",
        EdgeKind::Fork => "f",
    };
    let word = |edge: &Edge| format!("{}>{}{}", name(edge.from), name(edge.to), kind(edge.kind));
    edges(&block, states.len()).iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn awaits_follow_one_another() {
    assert_eq!(graph(""), "s>e");
    assert_eq!(graph("a(cx).await; b(cx).await;"), "0>1 1>e s>0");
    assert_eq!(graph("b(cx, a(cx).await).await"), "0>1 1>e s>0");
}

#[test]
fn the_question_mark_leaves() {
    assert_eq!(graph("a(cx).await?; b(cx).await"), "0>1 0>er 1>e s>0");
    assert_eq!(graph("x?; a(cx).await"), "0>e s>0 s>er");
}

#[test]
fn arms_are_ways_of_their_own() {
    assert_eq!(graph("if c { a(cx).await; } else { b(cx).await; } d(cx).await"), "0>2 1>2 2>e s>0b s>1b");
    assert_eq!(graph("if c { a(cx).await; } d(cx).await"), "0>1 1>e s>0b s>1");
    assert_eq!(
        graph("match x { 1 => a(cx).await, 2 => return, _ => {} } d(cx).await"),
        "0>1 1>e s>0b s>1b s>er"
    );
}

#[test]
fn a_guard_may_fail_into_every_later_arm() {
    let graph = graph("match x { 1 if g(cx).await => a(cx).await, _ => b(cx).await }");
    for edge in ["s>0b", "0>1", "0>2b", "s>2b", "1>e", "2>e"] {
        assert!(graph.split(' ').any(|e| e == edge), "{edge} in {graph}");
    }
}

#[test]
fn loops_go_back() {
    assert_eq!(graph("for x in y { a(cx).await; } b(cx).await"), "0>0l 0>1l 1>e s>0 s>1");
    assert_eq!(graph("loop { a(cx).await; if c { break b(cx).await; } }"), "0>0l 0>1b 1>e s>0");
    assert_eq!(graph("while a(cx).await { b(cx).await; }"), "0>1 0>e 1>0l s>0");
    assert_eq!(graph("loop { if c { continue; } a(cx).await; }"), "0>0l s>0 s>0l");
}

#[test]
fn labels_name_the_loop() {
    let body =
        "'o: for x in y { loop { a(cx).await; if c { break 'o; } if d { continue 'o; } } } b(cx).await";
    assert_eq!(graph(body), "0>0l 0>1b 0>1l 1>e s>0 s>1");
    assert_eq!(graph("'o: { if c { break 'o; } a(cx).await; } b(cx).await"), "0>1 1>e s>0 s>1b");
}

#[test]
fn what_may_be_skipped_is_skipped() {
    assert_eq!(graph("if x && a(cx).await { b(cx).await; }"), "0>1b 0>e 1>e s>0b s>1b s>e");
    assert_eq!(graph("#[cfg(x)] a(cx).await; b(cx).await"), "0>1 1>e s>0b s>1");
    assert_eq!(graph("#[cfg(x)] let y = a(cx).await; b(cx).await"), "0>1 1>e s>0b s>1");
    assert_eq!(
        graph("let Some(x) = a(cx).await else { return b(cx).await }; d(cx).await"),
        "0>1b 0>2 1>er 2>e s>0"
    );
}

#[test]
fn branches_are_machines_of_their_own() {
    let body = "cx.join((async |cx: &mut Cx| { a(cx).await?; b(cx).await }, async |cx| d(cx).await)).await; f(cx).await";
    assert_eq!(graph(body), "0>1 0>er 1>e 2>e 3>0f 3>2f 3>4 4>e s>0 s>2 s>3");
    assert_eq!(graph("cx.each(x, |cx, y| async move { a(cx).await }).await"), "0>e 1>0f 1>e s>0 s>1");
}

#[test]
fn closures_that_do_not_await_are_no_machines() {
    assert_eq!(graph("x.map(|y| y?); a(cx).await"), "0>e s>0");
}

#[test]
fn macros_may_leave() {
    assert_eq!(graph("format!(\"{}\", a(cx).await); b(cx).await"), "0>0b 0>1 0>1b 1>e s>0b s>1 s>1b");
    assert_eq!(graph("loop { a(cx).await; foo!(x); }"), "0>0l 0>e 0>er s>0");
    assert_eq!(graph("info!(x); a(cx).await"), "0>e s>0");
}

#[test]
fn assignments_evaluate_in_either_order() {
    assert_eq!(graph("x[a(cx).await] = b(cx).await;"), "0>0b 0>1b 0>e 1>0b 1>1b 1>e s>0b s>1b s>e");
}
