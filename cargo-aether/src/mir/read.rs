//! Reads the MIR of a crate.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use crate::mir::alone;
use crate::mir::parts;
use crate::mir::text::{self, Function};
use crate::mir::told::{Oddity, Place, Told};

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
    for function in &functions {
        let Function { head, body } = *function;
        let Some(place) = place(head) else { continue };
        if let Place::Method { name, file, line, .. } = &place {
            methods.insert((name.clone(), file.clone(), *line));
        }
        let mut told = HashSet::new();
        told.extend(body.lines().filter_map(|line| oddity(line, body, head)));
        if is_commutative_fold(head, body) {
            told.insert(Oddity::CommutativeFold);
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

/// Whether a closure's first argument is used once, and only so that the order of calls does not show in the result.
fn is_commutative_fold(head: &str, body: &str) -> bool {
    const OPERATIONS: [&str; 7] =
        ["AddWithOverflow(", "MulWithOverflow(", "Add(", "BitXor(", "BitOr(", "BitAnd(", "Mul("];
    let whole =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "bool"];
    let is_closure = head.contains("{closure#") && head.contains(", _3: ");
    if !is_closure || !whole.iter().any(|of| head.ends_with(&format!(" -> {of} {{"))) {
        return false;
    }
    let uses = |line: &&str| {
        let is_debug = line.trim_start().starts_with("debug ");
        !is_debug
            && line
                .match_indices("_2")
                .any(|(at, _)| !line[at + 2..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let lines: Vec<&str> = body.lines().filter(uses).collect();
    let [line] = lines.as_slice() else { return false };
    OPERATIONS.iter().any(|operation| line.contains(&format!(" = {operation}copy _2, ")))
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
        let is_blind = |of: &str, line: &str| {
            let text = format!(
                "fn look::{{closure#0}}(_1: &mut {{closure}}, _2: {of}, _3: u64) -> {of} {{\n    debug sum => _2;\n{line}\n}}\n"
            );
            in_text(&text).iter().any(|(_, oddity)| *oddity == Oddity::CommutativeFold)
        };
        assert!(is_blind("u64", "        _0 = BitXor(copy _2, move _6);"));
        assert!(is_blind(
            "u64",
            "        _7 = AddWithOverflow(copy _2, copy _3);\n        _0 = move (_7.0: u64);"
        ));
        assert!(!is_blind("f64", "        _0 = Add(copy _2, copy _3);"));
        assert!(!is_blind(
            "u64",
            "        _4 = Mul(copy _2, const 31_u64);\n        _0 = Add(copy _2, copy _3);"
        ));
        assert!(!is_blind("u64", "        _0 = mix(copy _2, copy _3) -> [return: bb1];"));
    }
}
