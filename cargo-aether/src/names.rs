//! Names of symbols: the path that rules match, and the crate that wrote the function.
//!
//! Promise: no symbol is refused. What is no Rust name is its own path, and has no crate.

/// The parts of a name that a walk asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name {
    /// As the compiler writes it, with type arguments.
    pub(crate) shown: String,
    /// Without type arguments: `std::fs::read`, `<T as core::fmt::Display>::fmt`.
    pub(crate) path: String,
    /// The crate that wrote the function, wherever it was instantiated; empty where the symbol does not say it.
    pub(crate) krate: String,
    /// A symbol of Rust's own mangling, version 0. Precompiled crates of the toolchain have the former one.
    pub(crate) is_v0: bool,
}

impl Name {
    pub(crate) fn of(symbol: &str) -> Self {
        let shown = format!("{:#}", rustc_demangle::demangle(symbol));
        if !symbol.starts_with("_R") {
            let path = if symbol.starts_with("_ZN") { canonical(&shown) } else { shown.clone() };
            return Self { path, shown, ..Self::default() };
        }
        let krate = owner(symbol, &shown).unwrap_or_default();
        Self { path: canonical(&shown), shown, krate, is_v0: true }
    }

    /// Whether a type or path of the crate `krate` occurs in it.
    pub(crate) fn mentions(&self, krate: &str) -> bool {
        self.shown.match_indices(krate).any(|(at, _)| {
            let before = self.shown[..at].chars().next_back();
            self.shown[at + krate.len()..].starts_with("::")
                && !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
        })
    }

    /// The crate of the first type argument of a function.
    pub(crate) fn first_argument_is_of(&self, krates: &[&str]) -> bool {
        let Some((_, argument)) = self.shown.split_once("::<") else { return false };
        let argument = argument.trim_start_matches(|c: char| !c.is_alphabetic());
        krates.iter().any(|krate| argument.strip_prefix(krate).is_some_and(|rest| rest.starts_with("::")))
    }

    /// The types of keys and values of the hash collection in it; a set has no values.
    pub(crate) fn keys_and_values(&self) -> Option<(&str, Option<&str>)> {
        let (usual, arguments) = hash_collection(&self.shown)?;
        let value = arguments.get(1).filter(|_| usual > 1);
        Some((arguments.first()?.trim(), value.map(|value| value.trim())))
    }

    /// The first type argument of the function itself.
    pub(crate) fn first_argument(&self) -> Option<&str> {
        self.own_arguments().first().copied()
    }

    /// The type arguments of the function itself.
    pub(crate) fn own_arguments(&self) -> Vec<&str> {
        let method = self.path.rsplit("::").next().unwrap_or_default();
        let mark = format!("::{method}::<");
        let Some(start) = self.shown.rfind(&mark) else { return Vec::new() };
        arguments(&self.shown[start + mark.len()..]).into_iter().map(str::trim).collect()
    }

    /// The type that a method is of: `[u8]` of `<[u8]>::sort`, `T` of `<T as Iterator>::map`.
    pub(crate) fn of_type(&self) -> Option<&str> {
        let rest = self.shown.strip_prefix('<')?;
        let (end, ..) = depths(rest).find(|(_, depth, _)| *depth < 0)?;
        let inner = &rest[..end];
        Some(split_as(inner).map_or(inner, |(of, _)| of))
    }

    /// The last type argument of a type that is called `of`, where one occurs in the name.
    pub(crate) fn last_argument_of(&self, of: &str) -> Option<&str> {
        let (at, _) = self.shown.match_indices(of).find(|(at, _)| {
            self.shown[at + of.len()..].starts_with('<') || self.shown[at + of.len()..].starts_with("::<")
        })?;
        let rest = self.shown[at + of.len()..].trim_start_matches(':').strip_prefix('<')?;
        arguments(rest).last().map(|argument| argument.trim())
    }

    /// The closures that occur in it.
    pub(crate) fn closures(&self) -> impl Iterator<Item = &str> {
        self.shown.match_indices("{closure#").filter_map(|(at, _)| {
            let end = at + self.shown[at..].find('}')? + 1;
            // A closure in a closure is the inner one.
            let is_last = !self.shown[end..].starts_with("::");
            is_last.then(|| &self.shown[beginning(&self.shown[..at])..end])
        })
    }

    /// As a reader writes it: without the markers of closures and of generated functions.
    pub(crate) fn plain(&self) -> String {
        let mut out = String::new();
        let mut rest = self.path.as_str();
        while let Some(at) = rest.find("::{") {
            out.push_str(&rest[..at]);
            rest = rest[at..].find('}').map_or("", |end| &rest[at + end + 1..]);
        }
        out.push_str(rest);
        match out.strip_suffix("::__body") {
            Some(stripped) => stripped.to_owned(),
            None => out,
        }
    }
}

/// Whether the first hash collection in a text names a hasher that is not random. Symbols leave the default out.
pub(crate) fn has_hasher_of_its_own(text: &str) -> bool {
    let Some((usual, arguments)) = hash_collection(text) else { return false };
    let mut others =
        arguments.into_iter().skip(usual).filter(|other| !other.ends_with("::Global")).peekable();
    let is_random = |other: &str| {
        ["RandomState", "DefaultHashBuilder", "GxBuildHasher"].iter().any(|random| other.contains(random))
    };
    others.peek().is_some() && !others.any(is_random)
}

/// How many types the entries of the first hash collection in a text have, and all its type arguments.
fn hash_collection(text: &str) -> Option<(usize, Vec<&str>)> {
    const COLLECTIONS: [(&str, usize); 4] =
        [("::HashMap<", 2), ("::HashSet<", 1), ("::DashMap<", 2), ("::DashSet<", 1)];
    COLLECTIONS.into_iter().find_map(|(mark, usual)| {
        let start = text.find(mark)? + mark.len();
        Some((usual, arguments(&text[start..])))
    })
}

/// The arguments of a list of which the opening bracket was read, at its own depth.
pub(crate) fn arguments(text: &str) -> Vec<&str> {
    let (mut all, mut last) = (Vec::new(), 0);
    for (at, depth, byte) in depths(text) {
        match byte {
            b',' if depth == 0 => {
                all.push(&text[last..at]);
                last = at + 1;
            }
            b'>' | b')' | b']' if depth < 0 => {
                all.push(&text[last..at]);
                return all;
            }
            _ => {}
        }
    }
    all
}

/// Where the path begins that `text` ends in.
fn beginning(text: &str) -> usize {
    let (mut depth, bytes) = (0_i32, text.as_bytes());
    for at in (0..bytes.len()).rev() {
        match bytes[at] {
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' => depth += 1,
            b'<' | b'(' | b'[' if depth == 0 => return at + 1,
            b'<' | b'(' | b'[' => depth -= 1,
            b',' | b' ' | b'&' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    0
}

/// Every byte with the depth of brackets behind it. The `>` of `->` is no bracket.
fn depths(text: &str) -> impl Iterator<Item = (usize, i32, u8)> {
    let mut before = (b' ', 0_i32);
    text.bytes().enumerate().map(move |(at, byte)| {
        let depth = match byte {
            b'<' | b'(' | b'[' => before.1 + 1,
            b'>' if before.0 == b'-' => before.1,
            b'>' | b')' | b']' => before.1 - 1,
            _ => before.1,
        };
        before = (byte, depth);
        (at, depth, byte)
    })
}

/// The name without type arguments.
pub(crate) fn canonical(shown: &str) -> String {
    let Some(rest) = shown.strip_prefix('<') else { return without_arguments(shown) };
    let end = depths(rest).find(|(_, depth, _)| *depth < 0).map_or(rest.len(), |(at, ..)| at);
    let (inner, tail) = (&rest[..end], without_arguments(rest.get(end + 1..).unwrap_or_default()));
    match split_as(inner) {
        Some((of, name)) => format!("<{} as {}>{tail}", canonical(of), without_arguments(name)),
        None => format!("{}{tail}", canonical(inner)),
    }
}

/// Splits `T as Trait` at the ` as ` of the outermost level.
fn split_as(text: &str) -> Option<(&str, &str)> {
    let at = depths(text)
        .take_while(|(_, depth, _)| *depth >= 0)
        .find(|(at, depth, _)| *depth == 0 && text.as_bytes()[*at..].starts_with(b" as "))?
        .0;
    Some((&text[..at], &text[at + 4..]))
}

fn without_arguments(text: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut before) = (0_usize, ' ');
    for c in text.chars() {
        match c {
            '<' => {
                if depth == 0 && out.ends_with("::") {
                    out.truncate(out.len() - 2);
                }
                depth += 1;
            }
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

/// The crate that wrote the function of a v0 symbol, as far as the symbol says it before the function's own name.
pub(crate) fn crate_of(symbol: &str) -> Option<String> {
    owner(symbol, "")
}

/// The crate that wrote the function of a v0 symbol.
fn owner(symbol: &str, shown: &str) -> Option<String> {
    let mut text = Symbol { text: symbol.strip_prefix("_R")?.as_bytes(), at: 0 };
    // A path that refers back and forth is no path: the bound ends it.
    for _ in 0..64 {
        match text.take()? {
            b'C' => {
                text.disambiguator()?;
                return text.identifier();
            }
            b'M' | b'X' => text.disambiguator()?,
            b'N' => text.at += 1,
            b'I' => {}
            b'B' => text.at = text.base62()?,
            // `<T as Trait>::method`, the trait's own body: the crate of the trait.
            b'Y' => return trait_crate(shown),
            _ => return None,
        }
    }
    None
}

fn trait_crate(shown: &str) -> Option<String> {
    let rest = shown.strip_prefix('<')?;
    let end = depths(rest).find(|(_, depth, _)| *depth < 0)?.0;
    let (_, after) = split_as(&rest[..end])?;
    Some(after.split("::").next()?.to_owned())
}

/// A symbol that is being read: <https://doc.rust-lang.org/rustc/symbol-mangling/v0.html>.
struct Symbol<'a> {
    text: &'a [u8],
    at: usize,
}

impl Symbol<'_> {
    fn take(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn disambiguator(&mut self) -> Option<()> {
        if self.text.get(self.at) == Some(&b's') {
            self.at += 1;
            self.base62()?;
        }
        Some(())
    }

    fn base62(&mut self) -> Option<usize> {
        let mut value: Option<usize> = None;
        loop {
            let digit = match self.take()? {
                b'_' => return value.map_or(Some(0), |value| value.checked_add(1)),
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'z' => digit - b'a' + 10,
                digit @ b'A'..=b'Z' => digit - b'A' + 36,
                _ => return None,
            };
            value = Some(value.unwrap_or(0).checked_mul(62)?.checked_add(usize::from(digit))?);
        }
    }

    fn identifier(&mut self) -> Option<String> {
        if self.text.get(self.at) == Some(&b'u') {
            self.at += 1;
        }
        let mut length = 0_usize;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            length = length.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'_') {
            self.at += 1;
        }
        let name = self.text.get(self.at..self.at.checked_add(length)?)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_arguments_are_left_out_of_paths() {
        for (shown, path) in [
            ("std::fs::read::<&str>", "std::fs::read"),
            ("<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt", "<alloc::vec::Vec as core::fmt::Debug>::fmt"),
            (
                "<std::collections::hash::map::HashMap<a::K, fn(u8) -> b::V>>::iter",
                "std::collections::hash::map::HashMap::iter",
            ),
            ("<<a::T as b::U>::V as c::W<d::X>>::y::<e::Z>", "<<a::T as b::U>::V as c::W>::y"),
            ("a::b::{closure#0}", "a::b::{closure#0}"),
            ("getenv", "getenv"),
        ] {
            assert_eq!(canonical(shown), path, "{shown}");
        }
    }

    #[test]
    fn the_types_of_a_hash_collection_are_read() {
        let of = |shown: &str| Name { shown: shown.into(), path: canonical(shown), ..Name::default() };
        let map = of("<hashbrown::map::HashMap<&str, (u8, a::B<u8>)>>::iter");
        assert_eq!(map.keys_and_values(), Some(("&str", Some("(u8, a::B<u8>)"))));
        assert!(!has_hasher_of_its_own(&map.shown));
        let set = of("<&std::collections::hash::set::HashSet<u8> as a::IntoIterator>::into_iter");
        assert_eq!(set.keys_and_values(), Some(("u8", None)));
        for (hasher, is_own) in [
            ("foldhash::fast::RandomState", false),
            ("foldhash::fast::RandomState, allocator_api2::stable::alloc::global::Global", false),
            ("hashbrown::hasher::DefaultHashBuilder", false),
            ("gxhash::hasher::GxBuildHasher", false),
            ("a::Fixed, allocator_api2::stable::alloc::global::Global", true),
            ("a::Fixed", true),
        ] {
            let map = of(&format!("<hashbrown::map::HashMap<u8, u8, {hasher}>>::iter"));
            assert_eq!(has_hasher_of_its_own(&map.shown), is_own, "{hasher}");
        }
        let sorted = of("<[(char, usize)]>::sort_by_key::<(usize, char), a::{closure#1}>");
        assert_eq!(sorted.first_argument(), Some("(usize, char)"));
        assert_eq!(sorted.own_arguments(), ["(usize, char)", "a::{closure#1}"]);
        assert_eq!(sorted.of_type(), Some("[(char, usize)]"));
        assert_eq!(of("<a::B<u8> as a::C>::d::<u8>").of_type(), Some("a::B<u8>"));
    }

    #[test]
    fn closures_are_found_wherever_they_occur() {
        let name = Name {
            shown: "<b::Map<c::Iter<u8>, app::f::{closure#0}> as d::Iterator>::map::<u8, <app::S<fn(u8) -> u8>>::g::{closure#1}::{closure#2}>".into(),
            ..Name::default()
        };
        let closures: Vec<_> = name.closures().collect();
        assert_eq!(closures, ["app::f::{closure#0}", "<app::S<fn(u8) -> u8>>::g::{closure#1}::{closure#2}"]);
    }

    #[test]
    fn the_crate_of_a_function_is_that_which_wrote_it() {
        // As rustc 1.95 mangles `core::iter::Iterator::fold` for a closure of another crate, and `app::pay::body`.
        let name = Name::of("_RNvNtCs1234_3app3pay4body");
        assert_eq!((name.krate.as_str(), name.path.as_str()), ("app", "app::pay::body"));
        for odd in ["_R", "_RNv", "_RB_", "_RNvC99999999999999999999999", "", "_ZN", "memcpy", "_RNvCs_3é"] {
            assert_eq!(Name::of(odd).krate, "", "{odd}");
        }
    }

    #[test]
    fn a_hasher_is_ones_own_where_it_is_named_and_not_random() {
        let map = has_hasher_of_its_own;
        assert!(!map("<std::collections::hash::map::HashMap<u8, u8>>::iter"));
        assert!(!map("<std::collections::hash::map::HashMap<(u8, u8), fn(u8, u8) -> u8>>::iter"));
        assert!(!map("<std::collections::hash::map::HashMap<u8, u8, std::hash::random::RandomState>>::iter"));
        assert!(map("<std::collections::hash::map::HashMap<u8, u8, fx::Build>>::iter"));
        assert!(map("<std::collections::hash::set::HashSet<u8, fx::Build>>::iter"));
    }

    #[test]
    fn a_crate_is_mentioned_by_its_own_name_only() {
        let name = Name { shown: "<my_app::T as other::Uapp::V>::f".into(), ..Name::default() };
        assert!(name.mentions("my_app") && name.mentions("other") && !name.mentions("app"));
    }

    #[test]
    fn closures_have_the_name_of_their_function() {
        let name = Name { path: "a::b::{closure#0}::{closure#1}".into(), ..Name::default() };
        assert_eq!(name.plain(), "a::b");
        let name = Name { path: "a::flow::__body::{closure#0}".into(), ..Name::default() };
        assert_eq!(name.plain(), "a::flow");
    }
}
