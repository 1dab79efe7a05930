//! Which parts of its argument a closure compares or keeps.
//!
//! Promise: a part is told only where it is there as a whole on every way through the closure.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::mir::text::{Function, Given, Place, VARIANT, last, of_trait, operand, place};
use crate::mir::told::{Oddity, Part};

/// Functions by what captures they have: closures, by their place in the source.
pub(super) type Closures<'a> = HashMap<&'a str, Function<'a>>;

/// Stand for arguments of which a part is the key of a hash map: what `next` gives of its entries, and of its keys.
const ENTRY: u32 = u32::MAX;
const KEY: u32 = u32::MAX - 1;

/// What a local is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// The fields of an argument on the way to it.
    Part(u32, Vec<usize>),
    /// A tuple or the like of them; what is not known of it is left out.
    Made(Vec<Option<Value>>),
}

/// What one closure does, with those that are made in it.
#[derive(Debug, Default)]
struct Traced {
    locals: HashMap<u32, Option<Value>>,
    /// What each way through it returns.
    returned: Vec<Option<Value>>,
    /// Parts of two arguments that are compared with each other.
    compared: BTreeSet<Vec<usize>>,
    /// What is put into lists.
    pushed: Vec<Option<Value>>,
}

/// All closures of a file.
pub(super) fn closures<'a>(functions: &[Function<'a>]) -> Closures<'a> {
    let of = |function: &Function<'a>| {
        let captures = function.argument(1)?.strip_suffix('}')?;
        captures.starts_with("{closure@").then_some((captures, *function))
    };
    functions.iter().filter_map(of).collect()
}

/// The closures that sort, and those that make something of the entries of a hash map. Of others nothing is told, for there
/// are many.
pub(super) fn asked<'a>(functions: &[Function<'a>]) -> HashSet<&'a str> {
    let may_ask =
        |function: &&Function<'_>| ["sort", "hash_map::"].iter().any(|of| function.body.contains(of));
    let asks = |name: &str| {
        let makes =
            |(of, named, method)| named == "Iterator" && method == "map" && str::contains(of, "hash_map::");
        name.contains("::sort") || of_trait(name).is_some_and(makes)
    };
    let of_call = |(_, given)| match given {
        Given::Call(name, _) if asks(name) => Some(name.get(name.rfind("{closure@")?..)?.split_once('}')?.0),
        _ => None,
    };
    functions.iter().filter(may_ask).flat_map(Function::statements).filter_map(of_call).collect()
}

/// What is told of a closure of one argument or of two, where it is asked for.
pub(super) fn told(function: &Function<'_>, asked: &HashSet<&str>, closures: &Closures<'_>) -> Vec<Oddity> {
    if fills_and_sorts(function) {
        return pushed_keys(function, closures).into_iter().map(Oddity::Keeps).collect();
    }
    let of = function.argument(1).and_then(|of| of.strip_suffix('}'));
    if function.argument(2).is_none() || !of.is_some_and(|of| asked.contains(of)) {
        return Vec::new();
    }
    let traced = trace(function, None, closures, 0);
    let mut told: Vec<Oddity> =
        traced.compared.iter().filter_map(|fields| Part::of(fields)).map(Oddity::Compares).collect();
    if function.argument(3).is_some() {
        return told;
    }
    if let Some(every) = traced.returned.iter().map(held).reduce(|a, b| &a & &b) {
        let compared = every.iter().filter(|(argument, _)| *argument == 2);
        told.extend(compared.filter_map(|(_, fields)| Part::of(fields)).map(Oddity::Compares));
    }
    if let [Some(returned)] = traced.returned.as_slice() {
        let first = Value::Part(2, vec![0]);
        told.extend(places_of(&first, returned).into_iter().map(Oddity::Keeps));
    }
    told
}

/// Where the keys of entries are in all that a function puts into lists.
fn pushed_keys(function: &Function<'_>, closures: &Closures<'_>) -> Vec<Part> {
    let pushed = trace(function, None, closures, 0).pushed;
    let keys = |value: &Option<Value>| value.as_ref().map(keys_in).unwrap_or_default();
    let in_both = |a: Vec<Part>, b: Vec<Part>| a.into_iter().filter(|part| b.contains(part)).collect();
    pushed.iter().map(keys).reduce(in_both).unwrap_or_default()
}

/// Whether a function goes through a hash map, fills a list and sorts it.
fn fills_and_sorts(function: &Function<'_>) -> bool {
    let does = |what: &str| function.body.contains(what);
    does("::push(") && does("::sort") && (does("hash_map::") || does("hash_set::"))
}

/// Where in a value the key of an entry is.
fn keys_in(value: &Value) -> Vec<Part> {
    [Value::Part(ENTRY, vec![VARIANT, 0, 0]), Value::Part(KEY, vec![VARIANT, 0])]
        .iter()
        .flat_map(|key| places_of(key, value))
        .collect()
}

/// Where one value is in another one.
fn places_of(part: &Value, value: &Value) -> Vec<Part> {
    match value {
        Value::Made(values) => {
            let kept = values.iter().enumerate().filter(|(_, value)| value.as_ref() == Some(part));
            kept.filter_map(|(at, _)| Part::of(&[at])).collect()
        }
        of if of == part => vec![Part::Whole],
        Value::Part(..) => Vec::new(),
    }
}

/// All parts of arguments that a value holds: of two values that are the same, they are, too.
fn held(value: &Option<Value>) -> BTreeSet<(u32, Vec<usize>)> {
    match value {
        None => BTreeSet::new(),
        Some(Value::Part(argument, fields)) => BTreeSet::from([(*argument, fields.clone())]),
        Some(Value::Made(values)) => values.iter().flat_map(held).collect(),
    }
}

fn trace(function: &Function<'_>, captured: Option<Value>, closures: &Closures<'_>, depth: u8) -> Traced {
    // Those of a closure that is made in another one are others.
    let own = (2..4).filter(|of| captured.is_none() && function.argument(*of).is_some());
    let arguments: Vec<_> = own.map(|of| (of, Some(Value::Part(of, Vec::new())))).collect();
    let mut traced =
        Traced { locals: arguments.into_iter().chain([(1, captured)]).collect(), ..Traced::default() };
    for (to, given) in function.statements() {
        let value = traced.value(&given, closures, depth);
        match place(to) {
            Some(Place { local: 0, fields }) => {
                traced.returned.push(value.filter(|_| fields.is_empty()));
            }
            // What is written twice, or in part, is this or that.
            Some(Place { local, fields }) => {
                let is_first = fields.is_empty() && !traced.locals.contains_key(&local);
                traced.locals.insert(local, value.filter(|_| is_first));
            }
            None => {}
        }
    }
    traced
}

impl Traced {
    fn value(&mut self, given: &Given<'_>, closures: &Closures<'_>, depth: u8) -> Option<Value> {
        match given {
            Given::Place(of) => self.at(&place(of)?),
            // Whoever has it may change it.
            Given::Borrow(of) => {
                let of = place(of)?;
                self.locals.insert(of.local, None);
                None
            }
            Given::Made(closure, operands) => {
                let values = operands.iter().map(|of| self.at(&operand(of)?)).collect();
                let made = Value::Made(values);
                if let Some(inner) = closure.and_then(|name| closures.get(name)).filter(|_| depth < 4) {
                    let inner = trace(inner, Some(made.clone()), closures, depth + 1);
                    self.compared.extend(inner.compared);
                }
                Some(made)
            }
            Given::Call(function, operands) => {
                let values: Vec<Option<Value>> = operands.iter().map(|of| self.at(&operand(of)?)).collect();
                self.called(function, &values)
            }
            Given::Other => None,
        }
    }

    /// What a function returns that is called with these values.
    fn called(&mut self, function: &str, values: &[Option<Value>]) -> Option<Value> {
        match values {
            [_] if next_of(function).is_some() => next_of(function).map(|of| Value::Part(of, Vec::new())),
            [value] if keeps_all(function) => value.clone(),
            [_, value] if function.ends_with("::push") => {
                self.pushed.push(value.clone());
                None
            }
            [a, b] if is_comparison(function) => {
                let (a, b) = (held(a), held(b));
                // One of the second argument, the other of the third.
                let is_compared = |(of, fields): &&(u32, Vec<usize>)| {
                    matches!(of, 2 | 3) && b.contains(&(5 - of, fields.clone()))
                };
                self.compared.extend(a.iter().filter(is_compared).map(|(_, fields)| fields.clone()));
                None
            }
            _ => None,
        }
    }

    fn at(&self, place: &Place) -> Option<Value> {
        let mut value = self.locals.get(&place.local)?.clone()?;
        for field in &place.fields {
            value = match value {
                Value::Part(argument, mut fields) => {
                    fields.push(*field);
                    Value::Part(argument, fields)
                }
                Value::Made(values) => values.get(*field)?.clone()?,
            };
        }
        Some(value)
    }
}

/// What this call gives of a hash collection, where it asks for the next of it.
fn next_of(function: &str) -> Option<u32> {
    let (of, "Iterator", "next") = of_trait(function)? else { return None };
    let (module, name) = of.split('<').next()?.trim_end_matches("::").rsplit_once("::")?;
    match (last(module), name) {
        ("hash_map", "Iter" | "IntoIter" | "IterMut" | "Drain") => Some(ENTRY),
        ("hash_map", "Keys" | "IntoKeys") | ("hash_set", "Iter" | "IntoIter" | "Drain") => Some(KEY),
        _ => None,
    }
}

fn is_comparison(function: &str) -> bool {
    matches!(of_trait(function), Some((_, "Ord", "cmp") | (_, "PartialOrd", "partial_cmp")))
}

/// Whether what a function of one argument returns is another one for another argument.
fn keeps_all(function: &str) -> bool {
    const AS_TEXT: [&str; 2] = ["String::as_str", "String::as_bytes"];
    // A number or a text that is shown as text, but not a type whose `Display` may leave something out.
    const SHOWN: [&str; 14] = [
        "String", "str", "char", "bool", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32",
        "i64",
    ];
    match of_trait(function) {
        Some((_, "Clone", "clone") | (_, "ToOwned", "to_owned") | (_, "Deref", "deref")) => true,
        Some((_, "AsRef", "as_ref") | (_, "Borrow", "borrow")) => true,
        Some((of, "ToString", "to_string")) => SHOWN.contains(&last(of.trim_start_matches('&'))),
        Some(_) => false,
        None => AS_TEXT.iter().any(|text| function.ends_with(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text::functions;

    /// What is told of the first function of a text.
    fn of(text: &str) -> Vec<Oddity> {
        let functions = functions(text);
        told(&functions[0], &HashSet::from(["{closure@s.rs:1:1: 1:2"]), &closures(&functions))
    }

    fn key(lines: &str) -> Vec<Oddity> {
        of(&format!(
            "fn f::{{closure#0}}(_1: &mut {{closure@s.rs:1:1: 1:2}}, _2: &(char, T)) -> K {{\n    bb0: {{\n{lines}\n    }}\n}}\n"
        ))
    }

    #[test]
    fn a_sort_by_a_key_compares_what_the_key_holds() {
        let (first, whole) = (Oddity::Compares(Part::Field(0)), Oddity::Compares(Part::Whole));
        let both =
            "_3 = &((*_2).0: char);\n_4 = copy (*_3);\n_5 = copy ((*_2).1: u8);\n_0 = (move _5, move _4);";
        assert!(key(both).contains(&first) && key(both).contains(&Oddity::Compares(Part::Field(1))));
        assert_eq!(key("_3 = copy (*_2);\n_0 = Reverse::<T>(move _3);"), [whole]);
        for (lines, holds) in [
            ("_3 = &((*_2).0: String);\n_0 = <String as Clone>::clone(copy _3) -> [return: bb1];", true),
            ("_3 = &((*_2).0: String);\n_0 = String::len(copy _3) -> [return: bb1];", false),
            ("_3 = copy ((*_2).0: u8);\n_0 = Rem(move _3, const 10_u8);", false),
            ("_3 = copy ((*_2).0: u8);\n_0 = move _3 as u64 (IntToInt);", false),
            // Of two ways through it, one leaves it out.
            ("_0 = copy ((*_2).0: u8);\n_0 = const 3_u8;", false),
            (
                "_3 = copy ((*_2).0: S);\n_4 = &mut _3;\n_5 = S::cut(move _4) -> [return: bb1];\n_0 = move _3;",
                false,
            ),
            ("_3 = copy ((*_2).0: u8);\n_3 = const 1_u8;\n_0 = move _3;", false),
        ] {
            assert_eq!(key(lines).contains(&first), holds, "{lines}");
        }
    }

    #[test]
    fn a_comparison_compares_the_same_part_of_both() {
        let compared = |lines: &str| {
            let head =
                "fn f::{closure#0}(_1: &mut {closure@s.rs:1:1: 1:2}, _2: &(S, T), _3: &(S, T)) -> Ordering {";
            let inner = "fn f::{closure#0}::{closure#0}(_1: {closure@s.rs:1:5: 1:7}) -> Ordering {\n    bb0: {\n_4 = copy (_1.0: &(S, T));\n_2 = &((*_4).0: S);\n_5 = copy (_1.1: &(S, T));\n_3 = &((*_5).0: S);\n_0 = <S as Ord>::cmp(move _2, copy _3) -> [return: bb1];\n    }\n}\n";
            of(&format!("{head}\n    bb0: {{\n{lines}\n    }}\n}}\n{inner}"))
        };
        let first = [Oddity::Compares(Part::Field(0))];
        let cmp = "_0 = <S as Ord>::cmp(move _4, copy _5) -> [return: bb1];";
        assert_eq!(compared(&format!("_4 = &((*_3).0: S);\n_5 = &((*_2).0: S);\n{cmp}")), first);
        assert_eq!(compared(&format!("_4 = &((*_3).0: S);\n_5 = &((*_2).1: S);\n{cmp}")), []);
        assert_eq!(compared(&format!("_4 = &((*_2).0: S);\n_5 = &((*_2).0: S);\n{cmp}")), []);
        assert_eq!(compared(&format!("_4 = &(((*_2).1: T).1: S);\n_5 = &(((*_3).1: T).1: S);\n{cmp}")), []);
        // What is compared only of equal ones, in a closure of its own.
        assert_eq!(compared("_7 = {closure@s.rs:1:5: 1:7} { a: copy _2, b: copy _3 };"), first);
        assert_eq!(compared("_7 = {closure@s.rs:1:5: 1:7} { a: copy _2, b: copy _2 };"), []);
    }

    #[test]
    fn only_closures_that_sort_or_make_something_of_entries_are_looked_at() {
        let text = "fn f() -> () {\n    bb0: {\n_1 = <hash_map::IntoIter<u8, u8> as Iterator>::map::<R, {closure@a}>(move _2, const ()) -> [return: bb1];\n_3 = std::slice::<impl [T]>::sort_by::<{closure@b}>(move _2, const ()) -> [return: bb1];\n_4 = <vec::IntoIter<u8> as Iterator>::map::<R, {closure@c}>(move _2, const ()) -> [return: bb1];\n    }\n}\n";
        assert_eq!(asked(&functions(text)), HashSet::from(["{closure@a", "{closure@b"]));
    }

    #[test]
    fn what_a_loop_puts_into_a_list_keeps_the_key_in_a_field() {
        let kept = |iterator: &str, lines: &str| {
            of(&format!(
                "fn f(_1: &HashMap<u8, u8>) -> () {{\n    bb0: {{\n_6 = <std::collections::{iterator}<'_, u8, u8> as Iterator>::next(copy _5) -> [return: bb1];\n{lines}\n_20 = std::slice::<impl [T]>::sort_by::<C>(move _21, const ()) -> [return: bb1];\n    }}\n}}\n"
            ))
        };
        let first = [Oddity::Keeps(Part::Field(1))];
        let push = "_9 = Row { n: const 1_u8, key: copy _8 };\n_10 = Vec::<Row>::push(copy _4, move _9) -> [return: bb2];";
        let entry = format!("_8 = copy (((_6 as Some).0: (&u8, &u8)).0: &u8);\n{push}");
        assert_eq!(kept("hash_map::Iter", &entry), first);
        assert_eq!(kept("btree_map::Iter", &entry), []);
        assert_eq!(
            kept("hash_map::Iter", &format!("_8 = copy (((_6 as Some).0: (&u8, &u8)).1: &u8);\n{push}")),
            []
        );
        assert_eq!(kept("hash_map::Keys", &format!("_8 = copy ((_6 as Some).0: &u8);\n{push}")), first);
        // Another list may be sorted.
        let other = "_12 = Vec::<Row>::push(copy _4, move _13) -> [return: bb2];";
        assert_eq!(kept("hash_map::Iter", &format!("{entry}\n{other}")), []);
    }

    #[test]
    fn what_is_made_of_an_entry_keeps_its_key_in_a_field() {
        assert!(
            key("_3 = copy ((*_2).0: u8);\n_0 = Row { n: const 1_u8, key: move _3 };")
                .contains(&Oddity::Keeps(Part::Field(1)))
        );
        assert!(key("_0 = copy ((*_2).0: u8);").contains(&Oddity::Keeps(Part::Whole)));
        assert!(key("_0 = copy ((*_2).1: u8);").iter().all(|told| !matches!(told, Oddity::Keeps(_))));
    }
}
