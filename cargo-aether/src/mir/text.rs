//! MIR as text: its functions, and the statements in them.

/// Operations: what is computed of numbers is none of them.
const OPERATIONS: &str = "Add Sub Mul Div Rem BitXor BitAnd BitOr Shl Shr Eq Lt Le Ne Ge Gt Cmp Offset Not Neg Len \
    PtrMetadata AddWithOverflow SubWithOverflow MulWithOverflow AddUnchecked SubUnchecked \
    MulUnchecked ShlUnchecked ShrUnchecked discriminant";

/// A function: its signature, and all that stands behind it up to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function<'a> {
    pub(super) head: &'a str,
    pub(super) body: &'a str,
}

/// What a statement gives to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given<'a> {
    /// A place as it is: a copy, or a borrow.
    Place(&'a str),
    /// A borrow that may be written through.
    Borrow(&'a str),
    /// A tuple, a struct, a variant or a closure, of these operands; a closure with its name.
    Made(Option<&'a str>, Vec<&'a str>),
    Call(&'a str, Vec<&'a str>),
    /// Anything else.
    Other,
}

/// The way into a variant, in the fields of a place.
pub(super) const VARIANT: usize = usize::MAX;

/// A place: a local, and the fields of it on the way there. Borrows are no part of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) local: u32,
    pub(super) fields: Vec<usize>,
}

/// All functions of a text. One ends at the first brace that stands at the beginning of a line.
pub(super) fn functions(text: &str) -> Vec<Function<'_>> {
    let function = |part| {
        let part: &str = part;
        let at = part.rfind("\nfn ").map(|at| at + 1).or(part.starts_with("fn ").then_some(0))?;
        let (head, body) = part[at + 3..].split_once('\n').unwrap_or_default();
        Some(Function { head, body })
    };
    text.split("\n}\n").filter_map(function).collect()
}

impl<'a> Function<'a> {
    /// The type of an argument, without its borrows; of a closure, `_1` is what it captures.
    pub(super) fn argument(&self, number: u32) -> Option<&'a str> {
        let (_, rest) = self.head.split_once(&format!("_{number}: "))?;
        let ty = rest.split_once(&format!(", _{}: ", number + 1)).map_or(rest, |(ty, _)| ty);
        let ty = ty.rsplit_once(") -> ").filter(|_| ty.len() == rest.len()).map_or(ty, |(ty, _)| ty);
        Some(ty.trim_start_matches(['&', ' ']).trim_start_matches("mut "))
    }

    /// Its statements, without what is done while a panic unwinds.
    pub(super) fn statements(&self) -> impl Iterator<Item = (&'a str, Given<'a>)> {
        blocks(self.body).into_iter().flat_map(|block| block.lines).filter_map(statement)
    }
}

/// A block: its number, and its lines.
#[derive(Clone, Debug)]
pub(super) struct Block<'a> {
    pub(super) number: u32,
    pub(super) lines: Vec<&'a str>,
}

/// The blocks of a function, without those that run while a panic unwinds.
pub(super) fn blocks(body: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut is_cleanup = false;
    for line in body.lines().map(str::trim) {
        if let Some(head) = line.strip_suffix('{').and_then(|line| line.strip_prefix("bb")) {
            is_cleanup = head.contains("(cleanup)");
            let number = head.trim_end().trim_end_matches(':').parse();
            blocks.extend(number.ok().map(|number| Block { number, lines: Vec::new() }));
        } else if let Some(block) = blocks.last_mut().filter(|_| !is_cleanup && line.ends_with(';')) {
            block.lines.push(line);
        }
    }
    blocks
}

/// The place that a line writes, and what it gives to it.
pub(super) fn statement(line: &str) -> Option<(&str, Given<'_>)> {
    let (to, value) =
        line.strip_suffix(';')?.split_once(" = ").filter(|(to, _)| to.starts_with(['_', '(']))?;
    Some((to, given(value)))
}

/// The place of an operand.
pub(super) fn operand(text: &str) -> Option<Place> {
    place(text.trim().strip_prefix("copy ").or_else(|| text.trim().strip_prefix("move "))?)
}

/// Reads a place. One in an array is not told.
pub(super) fn place(text: &str) -> Option<Place> {
    if let Some(local) = text.strip_prefix('_') {
        return Some(Place { local: local.parse().ok()?, fields: Vec::new() });
    }
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    if let Some(pointer) = inner.strip_prefix('*') {
        return place(pointer);
    }
    let end = match inner.strip_prefix('(') {
        Some(rest) => closing(rest)? + 2,
        None => inner.find(['.', ' '])?,
    };
    if inner[end..].starts_with(" as ") {
        let mut place = place(&inner[..end])?;
        place.fields.push(VARIANT);
        return Some(place);
    }
    let (field, _) = inner.get(end..)?.strip_prefix('.')?.split_once(": ")?;
    let mut place = place(&inner[..end])?;
    place.fields.push(field.parse().ok()?);
    Some(place)
}

/// The local that a place begins with.
pub(super) fn local(text: &str) -> Option<u32> {
    locals(text).next()
}

/// All locals that a text names.
pub(super) fn locals(text: &str) -> impl Iterator<Item = u32> {
    text.match_indices('_').filter_map(|(at, _)| {
        let is_inside = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let is_whole = !rest[end..].starts_with(|c: char| c.is_alphabetic() || c == '_');
        rest[..end].parse().ok().filter(|_| !is_inside && is_whole)
    })
}

/// Type, trait and method of `<T as a::Trait<U>>::method::<V>`, without the arguments of the last two. The compiler leaves
/// modules out of some names and not of others.
pub(super) fn of_trait(function: &str) -> Option<(&str, &str, &str)> {
    let rest = function.strip_prefix('<')?;
    let (mut depth, mut before, mut cast) = (0, ' ', None);
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth == 0 => {
                let (of, named) = rest[..at].split_at(cast?);
                let named = named[4..].split('<').next()?;
                let method = rest[at + 1..].strip_prefix("::")?.split("::<").next()?;
                return Some((of, last(named), method));
            }
            ')' | '>' | ']' | '}' => depth -= 1,
            ' ' if depth == 0 && rest[at..].starts_with(" as ") => cast = Some(at),
            _ => {}
        }
        before = c;
    }
    None
}

/// The last name of a path.
pub(super) fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn given(value: &str) -> Given<'_> {
    let copied = ["copy ", "move ", "deref_copy "].iter().find_map(|copy| value.strip_prefix(copy));
    if let Some(place) = copied {
        return if place.contains(" as ") && !place.starts_with('(') {
            Given::Other
        } else {
            Given::Place(place)
        };
    }
    if let Some(place) = ["&mut ", "&raw mut "].iter().find_map(|borrow| value.strip_prefix(borrow)) {
        return Given::Borrow(place);
    }
    if let Some(place) = value.strip_prefix("&raw const ").or_else(|| value.strip_prefix('&')) {
        return Given::Place(place);
    }
    if value.starts_with("{closure@") || value.starts_with("{coroutine") {
        let (name, captured) = value.split_once("} {").unwrap_or((value.trim_end_matches('}'), ""));
        return Given::Made(Some(name), fields(captured));
    }
    let (call, is_call) = value.split_once(" -> [").map_or((value, false), |(call, _)| (call, true));
    if let Some((_, of)) = call.strip_suffix(" }").and_then(|made| made.split_once(" { ")) {
        return Given::Made(None, fields(of));
    }
    let Some(start) = call.strip_suffix(')').and_then(opening) else { return Given::Other };
    let (name, operands) = (&call[..start], split(&call[start + 1..call.len() - 1]));
    match is_call {
        true => Given::Call(name, operands),
        false if OPERATIONS.split(' ').any(|operation| operation == name) => Given::Other,
        false => Given::Made(None, operands),
    }
}

/// The operands of named fields.
fn fields(text: &str) -> Vec<&str> {
    let fields = split(text.trim_end_matches('}'));
    fields.into_iter().filter_map(|field| field.split_once(": ")).map(|(_, operand)| operand.trim()).collect()
}

/// The parts between the commas of the outermost level.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut last, mut before) = (Vec::new(), 0_i32, 0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            ')' | '>' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[last..at].trim());
                last = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(text[last..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Where the bracket closes that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(at)
    })
}

/// Where the last bracket opens that `text`, which ends before it closes, leaves open.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().rev().find_map(|(at, c)| {
        depth += i32::from(c == ')') - i32::from(c == '(');
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_local_and_its_fields() {
        let of = |text: &str| place(text).map(|place| (place.local, place.fields));
        assert_eq!(of("_4"), Some((4, vec![])));
        assert_eq!(of("(*_4)"), Some((4, vec![])));
        assert_eq!(of("((*_2).0: std::string::String)"), Some((2, vec![0])));
        assert_eq!(of("(((*_2).1: Job).3: (u8, u8))"), Some((2, vec![1, 3])));
        assert_eq!(of("(*(_1.0: &(u8, u8)))"), Some((1, vec![0])));
        assert_eq!(of("(((_6 as Some).0: (u8, T)).1: T)"), Some((6, vec![VARIANT, 0, 1])));
        for unknown in ["_4[_5]", "const 1_u8", "(*_4)[0 of 1]", ""] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
        assert_eq!(locals("f(move _12, copy ((*_3).0: a_4::b_5), const 1_u8)").collect::<Vec<_>>(), [12, 3]);
    }

    #[test]
    fn a_statement_says_what_becomes_of_which_places() {
        let of = |line| statement(line).map(|(_, given)| given);
        assert_eq!(of("_3 = &((*_2).0: char);"), Some(Given::Place("((*_2).0: char)")));
        assert_eq!(of("_7 = &mut _5;"), Some(Given::Borrow("_5")));
        assert_eq!(of("_0 = (move _5, copy _6);"), Some(Given::Made(None, vec!["move _5", "copy _6"])));
        assert_eq!(of("_0 = Reverse::<u64>(move _4);"), Some(Given::Made(None, vec!["move _4"])));
        assert_eq!(
            of("_0 = Row { word: copy _3, n: const 1_u8 };"),
            Some(Given::Made(None, vec!["copy _3", "const 1_u8"]))
        );
        assert_eq!(
            of("_7 = {closure@s.rs:9:1: 9:3} { a: copy _2, b: copy _3 };"),
            Some(Given::Made(Some("{closure@s.rs:9:1: 9:3"), vec!["copy _2", "copy _3"]))
        );
        assert_eq!(
            of("_0 = <(&u8, fn(u8) -> u8) as Ord>::cmp(move _4, copy _8) -> [return: bb1, unwind continue];"),
            Some(Given::Call("<(&u8, fn(u8) -> u8) as Ord>::cmp", vec!["move _4", "copy _8"]))
        );
        for other in
            ["_0 = Rem(move _3, const 10_usize);", "_0 = move _3 as u8 (IntToInt);", "_0 = const 3_u8;"]
        {
            assert_eq!(of(other), Some(Given::Other), "{other}");
        }
        assert_eq!(of("goto -> bb3;"), None);
    }

    #[test]
    fn a_method_of_a_trait_is_told_with_and_without_modules() {
        assert_eq!(of_trait("<String as Ord>::cmp"), Some(("String", "Ord", "cmp")));
        let next = "<hash_map::IntoIter<u8, fn(u8) -> u8> as std::iter::Iterator>::map::<R, {closure@a}>";
        let of = "hash_map::IntoIter<u8, fn(u8) -> u8>";
        assert_eq!(of_trait(next), Some((of, "Iterator", "map")));
        let inner = of_trait("<<T as A>::B as AsRef<str>>::as_ref");
        assert_eq!(inner, Some(("<T as A>::B", "AsRef", "as_ref")));
        assert_eq!(of_trait("core::slice::<impl [T]>::sort"), None);
    }

    #[test]
    fn the_types_of_arguments_are_read() {
        let head =
            "f::{closure#0}(_1: &mut {closure@s.rs:8:1: 8:3}, _2: &(u8, fn(u8) -> u8), _3: &T) -> bool {";
        let function = Function { head, body: "" };
        assert_eq!(function.argument(1), Some("{closure@s.rs:8:1: 8:3}"));
        assert_eq!(function.argument(2), Some("(u8, fn(u8) -> u8)"));
        assert_eq!((function.argument(3), function.argument(4)), (Some("T"), None));
    }
}
