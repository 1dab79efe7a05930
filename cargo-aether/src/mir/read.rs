//! Reads the MIR of a crate.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use crate::mir::alone;
use crate::mir::made::Made;
use crate::mir::parts;
use crate::mir::text::{self, Function, local, locals};
use crate::mir::told::{Oddity, Place, Told};

/// Numbers of which sums and the like are the same in every order.
const WHOLE: [&str; 13] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "bool"];

/// What a MIR file of the crate `krate` tells.
pub(crate) fn read(file: &Path, krate: &str) -> Vec<Told> {
    let told = std::fs::read_to_string(file).map(|text| in_text(&text)).unwrap_or_default();
    told.into_iter().map(|(place, oddity)| Told { krate: krate.to_owned(), place, oddity }).collect()
}

fn in_text(text: &str) -> Vec<(Place, Oddity)> {
    let mut found = Vec::new();
    let mut methods = BTreeSet::new();
    let functions = text::functions(text);
    let closures = parts::closures(&functions);
    let asked = parts::asked(&functions);
    let over_maps = alone::closures_over_maps(&functions);
    let made = Made::of(&functions);
    for function in &functions {
        let Function { head, body } = *function;
        let Some(place) = place(head) else { continue };
        if let Place::Method { name, file, line, .. } = &place {
            methods.insert((name.clone(), file.clone(), *line));
        }
        let mut told = HashSet::new();
        told.extend(body.lines().filter_map(|line| oddity(line, body, head)));
        if is_commutative_fold(function) {
            told.insert(Oddity::CommutativeFold);
        }
        if alone::is_one_of(function, &over_maps) && !alone::is_closure_alone(function) {
            told.insert(Oddity::ChangesCaptured);
        }
        if made.compares_in_part(function) {
            told.insert(Oddity::ComparesInPart);
        }
        told.extend(parts::told(function, &asked, &closures));
        if alone::is_told(function, &closures) {
            told.insert(Oddity::ChangesEach);
        }
        found.extend(told.into_iter().map(|oddity| (place.clone(), oddity)));
    }
    for (place, _) in &mut found {
        if let Place::Method { name, file, line, next } = place {
            let behind = (name.clone(), file.clone(), line.saturating_add(1));
            let following = methods.range(behind..).next();
            *next = following.filter(|(of, at, _)| of == name && at == file).map(|(_, _, line)| *line);
        }
    }
    found
}

fn place(head: &str) -> Option<Place> {
    let (path, _) = head.split_once("(_1").or_else(|| head.split_once("()"))?;
    let Some((_, rest)) = path.split_once("<impl at ") else {
        return Some(Place::Path(path.into()));
    };
    let (place, method) = rest.split_once('>')?;
    let mut place = place.split(':');
    let (file, line) = (place.next()?.to_owned(), place.next()?.parse().ok()?);
    Some(Place::Method { name: method.to_owned(), file, line, next: None })
}

fn oddity(line: &str, body: &str, head: &str) -> Option<Oddity> {
    let line = line.trim_start();
    if line.starts_with("asm!(") {
        return Some(Oddity::Assembly);
    }
    let (_, value) = line.split_once(" = ").filter(|_| line.starts_with('_'))?;
    // Types of others have methods of these names, too.
    let is_of_pointer = ["<impl *const ", "<impl *mut ", "NonNull::<"].iter().any(|of| value.contains(of));
    let is_asked = [">::addr(", ">::expose_provenance("].iter().any(|method| value.contains(method));
    if value.contains("(PointerExposeProvenance)") || is_of_pointer && is_asked {
        return Some(Oddity::AddressAsNumber);
    }
    let is_of = |operand: &str, kinds: &[&str]| {
        let local = operand.trim().trim_start_matches("copy ").trim_start_matches("move ");
        let is_declared = |kind: &str| [body, head].iter().any(|of| of.contains(&format!("{local}: {kind}")));
        local.starts_with('_') && kinds.iter().any(|kind| is_declared(kind))
    };
    let transmuted = value.strip_suffix(" (Transmute);").and_then(|value| value.rsplit_once(" as "));
    if let Some((of, "usize" | "u64" | "isize" | "i64")) = transmuted {
        const ADDRESSES: [&str; 6] =
            ["&", "*const ", "*mut ", "fn(", "std::boxed::Box<", "std::ptr::NonNull<"];
        // The compiler makes numbers of `*const ()` by itself, to see whether pointers are aligned.
        let is_address = is_of(of, &ADDRESSES) && !is_of(of, &["*const ();"]);
        return is_address.then_some(Oddity::AddressAsNumber);
    }
    let compared =
        ["Lt(", "Le(", "Gt(", "Ge(", "Cmp("].iter().find_map(|operation| value.strip_prefix(operation))?;
    let is_pointer = |operand: &str| is_of(operand, &["*const ", "*mut "]);
    compared.split([',', ')']).take(2).any(is_pointer).then_some(Oddity::OrderOfAddresses)
}

/// Whether a closure returns what it makes of its first argument and of its second, uses the first one nowhere else, and makes
/// it so that the order of calls does not show in the result.
fn is_commutative_fold(function: &Function<'_>) -> bool {
    let is_closure = function.head.contains("{closure#") && function.argument(3).is_some();
    let is_whole = || WHOLE.iter().any(|of| function.head.ends_with(&format!(" -> {of} {{")));
    is_closure && is_whole() && alone::is_closure_alone(function) && returns_joined(function).unwrap_or(false)
}

/// Whether the only use of the first argument joins it with something else, and that is what is returned.
fn returns_joined(function: &Function<'_>) -> Option<bool> {
    let lines: Vec<&str> = text::blocks(function.body).into_iter().flat_map(|block| block.lines).collect();
    // What would overflow is named again.
    let used = lines.iter().filter(|line| !line.starts_with("assert(") && locals(line).any(|of| of == 2));
    let used: Vec<&&str> = used.collect();
    let [line] = used.as_slice() else { return None };
    let (to, value) = line.strip_suffix(';')?.split_once(" = ")?;
    let written =
        lines.iter().filter_map(|line| line.split_once(" = ")).filter(|(to, _)| local(to) == Some(0));
    let [(_, returned)] = written.collect::<Vec<_>>().try_into().ok()?;
    // Of what may overflow, the result is the first half.
    let is_returned = to == "_0" || returned.starts_with(&format!("move ({to}.0: "));
    Some(is_returned && joins(value))
}

/// Whether this is an operation on whole numbers of which neither the order nor the grouping shows, once on the argument `_2`.
fn joins(value: &str) -> bool {
    const OPERATIONS: [&str; 7] =
        ["AddWithOverflow", "MulWithOverflow", "Add", "BitXor", "BitOr", "BitAnd", "Mul"];
    const METHODS: [&str; 9] =
        ["add", "mul", "bitxor", "bitor", "bitand", "wrapping_add", "wrapping_mul", "max", "min"];
    let (call, _) = value.split_once(" -> [").unwrap_or((value, ""));
    let Some((name, operands)) = call.strip_suffix(')').and_then(|call| call.rsplit_once('(')) else {
        return false;
    };
    let is_once = operands.split(", ").filter(|of| matches!(*of, "copy _2" | "move _2")).count() == 1;
    let is_of_numbers = match text::of_trait(name) {
        Some((of, _, method)) => WHOLE.contains(&of) && METHODS.contains(&method),
        None => {
            let number = name.strip_prefix("core::num::<impl ").and_then(|rest| rest.split_once(">::"));
            OPERATIONS.contains(&name)
                || number.is_some_and(|(of, method)| WHOLE.contains(&of) && METHODS.contains(&method))
        }
    };
    is_once && is_of_numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_once_however_often_it_does_it() {
        let text = "\
// WARNING: this is no stable format.

fn helpers::tag(_1: &T) -> usize {
    bb0: {
        _2 = copy _3 as usize (PointerExposeProvenance);
        _4 = copy _3 as usize (PointerExposeProvenance);
    }
}

fn <impl at src/lib.rs:7:1: 7:9>::key(_1: &S) -> usize {
    bb0: {
        _2 = core::ptr::const_ptr::<impl *const T>::addr(copy _3) -> [return: bb1, unwind continue];
    }
}

fn helpers::fine() -> usize {
    // a comment of (PointerExposeProvenance)
}

fn <impl at src/lib.rs:20:1: 20:9>::key(_1: &U) -> usize {
    bb0: {
        _2 = <Peer as Endpoint>::addr(copy _1) -> [return: bb1, unwind continue];
    }
}
";
        let path = Place::Path("helpers::tag".into());
        let method =
            Place::Method { name: "::key".into(), file: "src/lib.rs".into(), line: 7, next: Some(20) };
        assert_eq!((path.last(), method.last()), ("tag", "key"));
        assert_eq!(in_text(text), [(path, Oddity::AddressAsNumber), (method, Oddity::AddressAsNumber)]);
    }

    #[test]
    fn pointers_are_compared_and_assembly_is_run() {
        let told = |body: &str| {
            let text = format!("fn look(_1: *const u8, _2: u8) -> bool {{\n{body}\n}}\n");
            in_text(&text).into_iter().map(|(_, oddity)| oddity).collect::<Vec<_>>()
        };
        assert_eq!(told("        _0 = Lt(copy _1, move _4);"), [Oddity::OrderOfAddresses]);
        assert_eq!(
            told("    let _4: *mut T;\n        _0 = Cmp(move _4, copy _5);"),
            [Oddity::OrderOfAddresses]
        );
        assert_eq!(told("        _0 = Lt(copy _2, move _4);"), []);
        // Which is the same one does not change from run to run.
        assert_eq!(told("        _0 = Eq(copy _1, move _4);"), []);
        // An address by another name, and a number that is none.
        let transmuted = "    let _3: &u8;\n        _0 = copy _3 as usize (Transmute);";
        assert_eq!(told(transmuted), [Oddity::AddressAsNumber]);
        let checked = "    let mut _3: *const ();\n        _0 = copy _3 as usize (Transmute);";
        assert_eq!(told(checked), []);
        assert_eq!(told("    let _3: f64;\n        _0 = copy _3 as u64 (Transmute);"), []);
        assert_eq!(told("        asm!(\"rdtsc\", out(\"eax\") _3) -> [return: bb1];"), [Oddity::Assembly]);
    }

    #[test]
    fn a_fold_that_adds_forgets_the_order() {
        let is_blind = |of: &str, lines: &str| {
            let text = format!(
                "fn look::{{closure#0}}(_1: &mut {{closure@s.rs:1:1: 1:2}}, _2: {of}, _3: u64) -> {of} {{\n    debug sum => _2;\n\n    bb0: {{\n{lines}\n    }}\n}}\n"
            );
            in_text(&text).iter().any(|(_, oddity)| *oddity == Oddity::CommutativeFold)
        };
        for lines in [
            "_0 = BitXor(copy _2, move _6);",
            "_0 = BitXor(move _6, copy _2);",
            "_7 = AddWithOverflow(copy _2, copy _3);\n_0 = move (_7.0: u64);",
            // What is added is copied first, so that the message of an overflow names it again.
            "_4 = copy (*_3);\n_5 = AddWithOverflow(copy _2, copy _4);\nassert(!move (_5.1: bool), \"attempt to compute `{} + {}`, which would overflow\", copy _2, move _4) -> [success: bb1, unwind continue];\n_0 = move (_5.0: u64);",
            "_0 = <u64 as Add<&u64>>::add(copy _2, copy _3) -> [return: bb1, unwind continue];",
            "_0 = core::num::<impl u64>::wrapping_add(copy _2, move _4) -> [return: bb1, unwind continue];",
            "_0 = <u64 as Ord>::max(copy _2, copy _3) -> [return: bb1, unwind continue];",
        ] {
            assert!(is_blind("u64", lines), "{lines}");
        }
        for lines in [
            "_4 = Mul(copy _2, const 31_u64);\n_0 = Add(copy _2, copy _3);",
            "_0 = mix(copy _2, copy _3) -> [return: bb1];",
            // What comes of it goes on to be changed.
            "_4 = BitXor(copy _2, copy _3);\n_0 = core::num::<impl u64>::wrapping_mul(move _4, const 3_u64) -> [return: bb1, unwind continue];",
            "_4 = <u64 as BitXor<&u64>>::bitxor(copy _2, copy _3) -> [return: bb1];\n_0 = core::num::<impl u64>::rotate_left(move _4, const 3_u32) -> [return: bb2];",
            "_5 = MulWithOverflow(copy _2, const 31_u64);\n_4 = move (_5.0: u64);\n_7 = AddWithOverflow(copy _4, copy _3);\n_0 = move (_7.0: u64);",
            // Which one is returned depends on something else.
            "_0 = BitXor(copy _2, copy _3);\n_0 = const 0_u64;",
            "_0 = <Hash as Add<u64>>::add(copy _2, copy _3) -> [return: bb1];",
            "_0 = Add(copy _2, copy _2);",
            "_9 = copy ((*_1).0: &mut u64);\n(*_9) = const 1_u64;\n_0 = Add(copy _2, copy _3);",
        ] {
            assert!(!is_blind("u64", lines), "{lines}");
        }
        assert!(!is_blind("f64", "_0 = Add(copy _2, copy _3);"));
    }

    #[test]
    fn an_order_that_leaves_fields_out_is_told() {
        let in_part = |lines: &str| {
            let text = format!(
                "fn make() -> Job {{\n    bb0: {{\n_0 = own::Job {{ priority: copy _1, name: move _2 }};\n    }}\n}}\n\nfn <impl at src/lib.rs:7:1: 7:9>::cmp(_1: &Job, _2: &Job) -> std::cmp::Ordering {{\n    bb0: {{\n{lines}\n    }}\n}}\n"
            );
            in_text(&text).iter().any(|(_, oddity)| *oddity == Oddity::ComparesInPart)
        };
        let first = "_3 = &((*_1).0: u64);\n_4 = &((*_2).0: u64);\n_0 = <u64 as Ord>::cmp(copy _3, copy _4) -> [return: bb1];";
        let second = "_3 = &((*_1).1: String);\n_4 = &((*_2).1: String);\n_0 = <String as Ord>::cmp(copy _3, copy _4) -> [return: bb1];";
        assert!(in_part(first) && in_part(second));
        assert!(!in_part(&format!("{first}\n{second}")));
        // What a method of it compares is not known.
        assert!(!in_part("_3 = Job::key(copy _1) -> [return: bb1];"));
        assert!(!in_part(&format!("{first}\n_9 = Job::key(copy _1) -> [return: bb1];")));
    }
}
