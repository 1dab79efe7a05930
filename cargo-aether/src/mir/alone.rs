//! Whether a function changes the entries of hash maps each by itself, so that their order does not show.
//!
//! Promise: what is not understood of a loop or a closure is not called so.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::mir::parts::Closures;
use crate::mir::text::{Block, Function, Given, blocks, local, locals, of_trait, statement};

/// What can be changed through a borrow of it.
const CHANGEABLE: [&str; 6] = ["&mut ", "*mut ", "Cell<", "Mutex<", "RwLock<", "Atomic"];

/// Whether a function goes through hash maps to change their entries, and each time writes nothing but through the entry.
pub(super) fn is_told(function: &Function<'_>, closures: &Closures<'_>) -> bool {
    if !function.body.contains("HashMap") {
        return false;
    }
    let blocks = blocks(function.body);
    let calls: Vec<(usize, &str)> = blocks.iter().map(name_of).enumerate().collect();
    let called = |is: &dyn Fn(&str) -> bool| -> Vec<(usize, &str)> {
        calls.iter().copied().filter(|(_, name)| is(name)).collect()
    };
    let walks = called(&is_mutable_walk).len();
    if walks == 0 {
        return false;
    }
    let loops = called(&|name| goes_through(name, "next"));
    let given = called(&|name| goes_through(name, "for_each"));
    loops.len() + given.len() >= walks
        && loops.iter().all(|(at, _)| is_loop_alone(&blocks, *at, function).unwrap_or(false))
        && given.iter().all(|(_, name)| closure_of(name, closures).is_some_and(|of| is_closure_alone(&of)))
}

/// The function that the last line of a block calls.
fn name_of<'a>(block: &Block<'a>) -> &'a str {
    match block.lines.last().and_then(|line| statement(line)) {
        Some((_, Given::Call(name, _))) => name,
        _ => "",
    }
}

/// Whether this call begins to go through a hash map whose entries it may change.
fn is_mutable_walk(name: &str) -> bool {
    let is_map = |of: &str| {
        of.split(['<', ' ']).next().is_some_and(|of| of.trim_end_matches("::").ends_with("HashMap"))
    };
    match of_trait(name) {
        Some((of, "IntoIterator", "into_iter")) => of.strip_prefix("&mut ").is_some_and(is_map),
        Some(_) => false,
        None => is_map(name) && ["::values_mut", "::iter_mut"].iter().any(|method| name.ends_with(method)),
    }
}

/// Whether this is a method of what goes through such a map, and of nothing around it.
fn goes_through(name: &str, by: &str) -> bool {
    let Some((of, "Iterator", method)) = of_trait(name) else { return false };
    let head = of.split('<').next().unwrap_or_default();
    let is_of_map = ["hash_map::ValuesMut", "hash_map::IterMut"].iter().any(|it| head.ends_with(it));
    is_of_map && method == by
}

fn closure_of<'a>(name: &str, closures: &Closures<'a>) -> Option<Function<'a>> {
    let start = name.find("{closure@")?;
    closures.get(name[start..].split_once('}')?.0).copied()
}

/// The closures that are named beside what goes through a hash collection. Of others nothing is told, for there are many.
pub(super) fn closures_over_maps<'a>(functions: &[Function<'a>]) -> HashSet<&'a str> {
    const OVER: [&str; 3] = ["hash_map::", "hash_set::", "dashmap::"];
    let is_over = |text: &str| OVER.iter().any(|of| text.contains(of));
    let lines = functions.iter().filter(|of| is_over(of.body)).flat_map(|of| of.body.lines());
    let named = |line: &'a str| {
        line.match_indices("{closure@").filter_map(|(at, _)| Some(line[at..].split_once('}')?.0))
    };
    lines.filter(|line| line.contains("{closure@") && is_over(line)).flat_map(named).collect()
}

/// Whether a function is one of these closures.
pub(super) fn is_one_of(function: &Function<'_>, closures: &HashSet<&str>) -> bool {
    let of = function.argument(1).and_then(|of| of.strip_suffix('}'));
    of.is_some_and(|of| closures.contains(of))
}

/// Whether a closure changes nothing that it captures.
pub(super) fn is_closure_alone(closure: &Function<'_>) -> bool {
    let is_alone = |line: &str| {
        let is_written = statement(line).is_some_and(|(to, _)| local(to) == Some(1));
        !locals(line).any(|of| of == 1) || !is_written && !CHANGEABLE.iter().any(|it| line.contains(it))
    };
    blocks(closure.body).iter().flat_map(|block| &block.lines).all(|line| is_alone(line))
}

/// Whether the loop whose next entry is asked for in the block at `head` ends only behind the last one, and writes nothing but
/// through entries and into what it has made itself.
fn is_loop_alone(blocks: &[Block<'_>], head: usize, function: &Function<'_>) -> Option<bool> {
    let numbered: HashMap<u32, &Block<'_>> = blocks.iter().map(|block| (block.number, block)).collect();
    let asked = numbered.get(successors(&blocks[head]).first()?)?;
    // `None` has the number 0.
    let [exit, begin] = successors(asked).get(..2)?.try_into().ok()?;
    if !asked.lines.last()?.contains(" -> [0: ") {
        return None;
    }
    let body = body(&numbered, begin, blocks[head].number, exit)?;
    let is_outside = |block: &&Block<'_>| {
        !body.contains(&block.number) && ![blocks[head].number, asked.number].contains(&block.number)
    };
    let outside = blocks.iter().filter(is_outside).flat_map(|block| &block.lines);
    let mut outer: HashSet<u32> = outside.flat_map(|line| locals(line)).collect();
    outer.extend((1..16).filter(|of| function.argument(*of).is_some()));
    outer.insert(0);
    let changeable: HashSet<u32> = outer.iter().copied().filter(|of| is_changeable(*of, function)).collect();
    let mut lines = body.iter().filter_map(|at| numbered.get(at)).flat_map(|block| &block.lines);
    Some(lines.all(|line| is_line_alone(line, &outer, &changeable)))
}

/// The blocks of a loop from its first one until it begins anew at `head`; `None` where it ends on another way.
fn body(blocks: &HashMap<u32, &Block<'_>>, first: u32, head: u32, exit: u32) -> Option<BTreeSet<u32>> {
    let (mut body, mut ways) = (BTreeSet::new(), vec![first]);
    while let Some(at) = ways.pop() {
        let block = blocks.get(&at)?;
        if at == exit || block.lines.last() == Some(&"return;") {
            return None;
        }
        if at != head && body.insert(at) {
            ways.extend(successors(block));
        }
    }
    Some(body)
}

fn is_line_alone(line: &str, outer: &HashSet<u32>, changeable: &HashSet<u32>) -> bool {
    let named: Vec<u32> = locals(line).filter(|of| outer.contains(of)).collect();
    if named.is_empty() {
        return true;
    }
    let is_outer = |place: &str| local(place).is_some_and(|of| outer.contains(&of));
    let is_written = match statement(line) {
        Some((to, Given::Borrow(of))) => is_outer(to) || is_outer(of),
        Some((to, _)) => is_outer(to),
        // What is dropped is made anew elsewhere.
        None => line.starts_with("drop("),
    };
    !is_written
        && !named.iter().any(|of| changeable.contains(of))
        && !CHANGEABLE.iter().any(|it| line.contains(it))
}

/// Whether something can be changed through a copy of this local.
fn is_changeable(of: u32, function: &Function<'_>) -> bool {
    let declared = function.body.lines().find_map(|line| {
        line.trim().split_once(&format!("_{of}: ")).filter(|(before, _)| before.starts_with("let "))
    });
    let ty = declared.map(|(_, ty)| ty);
    let of_head = || {
        let (_, rest) = function.head.split_once(&format!("_{of}: "))?;
        Some(rest.split_once(&format!(", _{}: ", of + 1)).map_or(rest, |(ty, _)| ty))
    };
    ty.or_else(of_head).is_some_and(|ty| CHANGEABLE.iter().any(|it| ty.contains(it)))
}

/// Where the last line of a block leads, but for unwinding; in the order of the text.
fn successors(block: &Block<'_>) -> Vec<u32> {
    let Some((_, to)) = block.lines.last().and_then(|line| line.rsplit_once(" -> ")) else {
        return Vec::new();
    };
    let ways = to.trim_end_matches(';').trim_matches(['[', ']']).split(", ");
    let leads_on = ways.filter(|way| !way.starts_with("unwind"));
    leads_on.filter_map(|way| way.rsplit_once("bb")?.1.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::parts::closures;
    use crate::mir::text::functions;

    const HEAD: &str = "\
fn own(_1: &mut HashMap<String, Job>, _2: u64, _3: &mut u64) -> () {
    let mut _5: std::collections::hash_map::ValuesMut<'_, std::string::String, Job>;
    let mut _4: &Cell<u64>;

    bb0: {
        _5 = HashMap::<String, Job>::values_mut(copy _1) -> [return: bb3, unwind continue];
    }

    bb3: {
        _7 = &mut _5;
        _6 = <std::collections::hash_map::ValuesMut<'_, String, Job> as Iterator>::next(copy _7) -> [return: bb4, unwind continue];
    }

    bb4: {
        _8 = discriminant(_6);
        switchInt(move _8) -> [0: bb7, 1: bb6, otherwise: bb5];
    }

    bb5: {
        unreachable;
    }

    bb7: {
        _4 = const 3_u8;
        return;
    }

    bb6: {
        _9 = move ((_6 as Some).0: &mut Job);
";

    fn is_alone(body: &str) -> bool {
        let text = format!("{HEAD}{body}\n    }}\n}}\n");
        is_told(&functions(&text)[0], &HashMap::new())
    }

    #[test]
    fn a_loop_that_writes_into_its_entries_alone_has_no_order() {
        for (body, alone) in [
            ("_10 = copy _2;\n((*_9).0: u64) = copy _10;\ngoto -> bb3;", true),
            (
                "_12 = &mut ((*_9).1: String);\n_11 = String::push(move _12, const 'x') -> [return: bb3, unwind: bb9];",
                true,
            ),
            ("_2 = copy ((*_9).0: u64);\ngoto -> bb3;", false),
            ("_12 = &mut _2;\n_11 = add(move _12) -> [return: bb3];", false),
            ("_11 = add(copy _3) -> [return: bb3];", false),
            ("_11 = Cell::<u64>::set(copy _4, const 1_u64) -> [return: bb3];", false),
            // Which entry is the last one depends on the order.
            ("(*_9) = const 0_u64;\ngoto -> bb7;", false),
            ("(*_9) = const 0_u64;\nreturn;", false),
        ] {
            assert_eq!(is_alone(body), alone, "{body}");
        }
    }

    #[test]
    fn a_closure_that_writes_what_it_captures_is_not_alone() {
        let is_alone = |line: &str| {
            let text = format!(
                "fn f(_1: &mut HashMap<u8, u8>) -> () {{\n    bb0: {{\n_2 = HashMap::<u8, u8>::values_mut(copy _1) -> [return: bb1];\n    }}\n\n    bb1: {{\n_0 = <std::collections::hash_map::ValuesMut<'_, u8, u8> as Iterator>::for_each::<{{closure@s.rs:1:1: 1:2}}>(move _2, const ()) -> [return: bb2];\n    }}\n\n    bb2: {{\n        return;\n    }}\n}}\n\nfn f::{{closure#0}}(_1: &mut {{closure@s.rs:1:1: 1:2}}, _2: &mut u8) -> () {{\n    bb0: {{\n{line}\nreturn;\n    }}\n}}\n"
            );
            let functions = functions(&text);
            is_told(&functions[0], &closures(&functions))
        };
        assert!(is_alone("(*_2) = const 3_u8;"));
        assert!(is_alone("_3 = copy ((*_1).0: &u8);\n(*_2) = copy (*_3);"));
        assert!(!is_alone("_3 = copy ((*_1).0: &mut u8);\n(*_3) = copy (*_2);"));
        assert!(!is_alone("((*_1).0: u8) = copy (*_2);"));
    }

    #[test]
    fn only_closures_over_hash_collections_are_looked_at() {
        let text = "fn f() -> () {\n    bb0: {\n_1 = <Map<hash_map::IntoIter<u8, u8>, {closure@a}> as Iterator>::filter::<{closure@b}>(move _2, const ()) -> [return: bb1];\n_4 = <vec::IntoIter<u8> as Iterator>::map::<R, {closure@c}>(move _2, const ()) -> [return: bb1];\n    }\n}\n";
        assert_eq!(closures_over_maps(&functions(text)), HashSet::from(["{closure@a", "{closure@b"]));
    }

    #[test]
    fn a_map_is_told_from_what_holds_maps() {
        assert!(is_mutable_walk("HashMap::<String, Job>::values_mut"));
        assert!(is_mutable_walk("hashbrown::HashMap::<u8, u8>::iter_mut"));
        assert!(is_mutable_walk("<&mut HashMap<String, Job> as IntoIterator>::into_iter"));
        assert!(!is_mutable_walk("core::slice::<impl [HashMap<u8, u8>]>::iter_mut"));
        assert!(!is_mutable_walk("BTreeMap::<u8, HashMap<u8, u8>>::values_mut"));
        assert!(!is_mutable_walk("<&mut Vec<HashMap<u8, u8>> as IntoIterator>::into_iter"));
    }
}
