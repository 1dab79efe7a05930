//! What makes the order of a hash collection not matter, by the names of the calls.
//!
//! Promise: by a name alone; which call is about which collection, no name says.

use crate::names::{Name, arguments, has_hasher_of_its_own};

/// In which order objects of `serde_json` keep their members: a feature of that crate decides, of the whole build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JsonMaps {
    /// By their names.
    Sorted,
    /// As they came.
    #[default]
    AsInserted,
}

/// Whether this call makes the order of a hash map not matter, where the function that goes through the map makes it.
pub(crate) fn forgets_order(name: &Name, json: JsonMaps) -> bool {
    let method = name.path.rsplit("::").next().unwrap_or_default();
    let of = name.shown.split(" as ").next().unwrap_or_default();
    let of_map = name.path.starts_with('<') && is_hashed(of) && !tells_places(of);
    match method {
        "sum" | "product" => of_map && adds_exactly(given(name)),
        "count" | "all" | "any" | "max" | "min" => of_map,
        "collect" => of_map && keeps_no_order(given(name), json),
        "extend" | "from_iter" => {
            fills_unordered(name, json) && goes_through_hashed(given(name)) && !tells_places(given(name))
        }
        // Of those with a comparison of their own, MIR says what they compare.
        _ => ["sort", "sort_unstable", "sorted", "sorted_unstable"].contains(&method),
    }
}

/// Whether this call asks the order of its elements which comes first.
pub(crate) fn compares(name: &Name) -> bool {
    const COMPARE: [&str; 6] = ["sort", "sort_unstable", "sorted", "sorted_unstable", "max", "min"];
    const FILL: [&str; 3] = ["collect", "extend", "from_iter"];
    let method = name.path.rsplit("::").next().unwrap_or_default();
    COMPARE.contains(&method) || FILL.contains(&method) && name.shown.contains("alloc::collections::btree::")
}

/// Whether this is a method of what goes through a hash collection, or what is filled by one.
pub(crate) fn walks_hashed(name: &Name) -> bool {
    let is_filled = is_of_iterators(name, &["extend", "from_iter"]);
    let of = if is_filled { given(name) } else { name.of_type().unwrap_or_default() };
    (is_filled || name.path.contains("Iterator>::") || name.path.contains("Itertools>::"))
        && goes_through_hashed(of)
}

/// Whether sums of this type are the same in every order: those of floating-point numbers are not, and what a type of somebody
/// is made of, no name says.
fn adds_exactly(of: &str) -> bool {
    const WHOLE: [&str; 12] =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
    const AROUND: [&str; 2] = ["core::num::wrapping::Wrapping<", "core::option::Option<"];
    let inner = AROUND.iter().find_map(|around| of.strip_prefix(around)?.strip_suffix('>'));
    inner.map_or_else(|| WHOLE.contains(&of) || of == "core::time::Duration", adds_exactly)
}

/// Whether this fills a collection that does not show in which order it was filled.
pub(crate) fn fills_unordered(name: &Name, json: JsonMaps) -> bool {
    is_of_iterators(name, &["extend", "from_iter"]) && keeps_no_order(&name.shown, json)
}

/// Whether this is code of the standard library that is given a hash collection and goes through it, or returns what does.
pub(crate) fn takes_hashed(name: &Name) -> bool {
    // What is zipped with one differs from replay to replay, whatever becomes of it.
    is_of_iterators(name, &["chain", "extend", "from_iter"]) && is_hash_collection(given(name))
}

/// Whether this is one of these methods of iterators, or of what is filled by one.
fn is_of_iterators(name: &Name, methods: &[&str]) -> bool {
    const TRAITS: [&str; 3] = [
        "core::iter::traits::iterator::Iterator",
        "core::iter::traits::collect::Extend",
        "core::iter::traits::collect::FromIterator",
    ];
    let Some((of, method)) = name.path.rsplit_once(">::") else { return false };
    methods.contains(&method) && TRAITS.iter().any(|it| of.ends_with(it))
}

/// The first type argument of a method.
fn given(name: &Name) -> &str {
    name.first_argument().unwrap_or_default()
}

/// Whether a type, whose name comes first, is a collection that does not show in which order it was filled. One with a hasher
/// that is not random may be gone through without a word, and of entries that meet in one place the first one has it.
fn keeps_no_order(of: &str, json: JsonMaps) -> bool {
    const SORTED: [&str; 2] =
        ["alloc::collections::btree::map::BTreeMap", "alloc::collections::btree::set::BTreeSet"];
    let of = of.trim_start_matches(['&', '<', ' ']);
    let is_json = json == JsonMaps::Sorted && head(of) == "serde_json::map::Map";
    is_json || SORTED.contains(&head(of)) || is_hash_collection(of)
}

/// The name of a type behind borrows, without its arguments.
fn head(of: &str) -> &str {
    let of = of.trim_start_matches(['&', ' ']).trim_start_matches("mut ");
    of.split('<').next().unwrap_or_default()
}

/// Whether the name of a type begins with one of a hash collection whose hasher is random, or of a borrow of one.
fn is_hash_collection(of: &str) -> bool {
    let kind = head(of).rsplit("::").next().unwrap_or_default();
    is_hashed(head(of))
        && ["HashMap", "HashSet", "DashMap", "DashSet"].contains(&kind)
        && !has_hasher_of_its_own(of)
}

/// Whether the name of a type begins with one of what goes through a hash collection, however that is changed on its way.
fn goes_through_hashed(of: &str) -> bool {
    match adapter(of) {
        // Of two, either.
        Some(("chain" | "zip", of)) => arguments(of).into_iter().any(goes_through_hashed),
        Some((_, of)) => goes_through_hashed(of),
        None => is_hashed(head(of)),
    }
}

/// Whether what comes out of an iterator over a hash collection depends on which of its elements comes when.
fn tells_places(of: &str) -> bool {
    const TELL: [&str; 8] =
        ["enumerate", "take", "take_while", "skip", "skip_while", "step_by", "map_while", "scan"];
    let Some((adapter, of)) = adapter(of) else { return false };
    match adapter {
        // Which element is with which.
        "zip" => arguments(of).into_iter().any(goes_through_hashed),
        "chain" => arguments(of).into_iter().any(tells_places),
        _ => goes_through_hashed(of) && (TELL.contains(&adapter) || tells_places(of)),
    }
}

/// The module of an iterator that changes what another one gives, and its type arguments, of which that is the first.
pub(crate) fn adapter(of: &str) -> Option<(&str, &str)> {
    let (path, arguments) =
        of.trim_start_matches('<').strip_prefix("core::iter::adapters::")?.split_once('<')?;
    Some((path.split("::").next()?, arguments))
}

/// Whether the name of a type is one of a hash collection, or of what goes through one.
pub(crate) fn is_hashed(of: &str) -> bool {
    ["std::collections::hash::", "hashbrown::", "dashmap::"].iter().any(|krate| of.contains(krate))
}

/// Whether the name of a function begins with the type of a hash collection, and not with a borrow of one.
pub(crate) fn is_hashed_head(path: &str) -> bool {
    let of = path.trim_start_matches('<');
    ["std::collections::hash::", "hashbrown::", "dashmap::"].iter().any(|krate| of.starts_with(krate))
}

/// Whether a hash collection with random keys occurs in a name as a type.
pub(crate) fn holds_hashed(shown: &str) -> bool {
    const COLLECTIONS: [&str; 4] = ["HashMap<", "HashSet<", "DashMap<", "DashSet<"];
    let is_at = |at: usize| {
        let begin = shown[..at]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .map_or(0, |at| at + 1);
        is_hashed(&shown[begin..at]) && !has_hasher_of_its_own(&shown[begin..])
    };
    COLLECTIONS.iter().any(|of| shown.match_indices(of).any(|(at, _)| is_at(at)))
}

/// Whether this call sorts by a comparison or by a key, of which a closure is the last type argument.
pub(crate) fn sorts_by_closure(name: &Name) -> bool {
    const SORTS: [&str; 10] = [
        "sort_by",
        "sort_unstable_by",
        "sort_by_key",
        "sort_unstable_by_key",
        "sort_by_cached_key",
        "sorted_by",
        "sorted_unstable_by",
        "sorted_by_key",
        "sorted_unstable_by_key",
        "sorted_by_cached_key",
    ];
    SORTS.contains(&name.path.rsplit("::").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::JsonMaps::{AsInserted, Sorted};
    use super::*;

    fn name(path: &str) -> Name {
        Name { shown: path.into(), path: path.into(), ..Name::default() }
    }

    #[test]
    fn only_a_sort_of_whole_elements_forgets_the_order_by_itself() {
        for (method, forgets, is_by_closure) in [
            ("sort", true, false),
            ("sort_unstable", true, false),
            ("sort_by", false, true),
            ("sort_unstable_by", false, true),
            ("sort_by_key", false, true),
            ("sort_by_cached_key", false, true),
            ("sort_floats", false, false),
        ] {
            let name = name(&format!("[(u8, u8)]::{method}"));
            let found = (forgets_order(&name, AsInserted), sorts_by_closure(&name));
            assert_eq!(found, (forgets, is_by_closure), "{method}");
        }
    }

    #[test]
    fn sums_of_whole_numbers_forget_the_order_and_sums_of_fractions_do_not() {
        let of = |method: &str| {
            let shown = format!(
                "<std::collections::hash::map::Values<u8, u8> as core::iter::traits::iterator::Iterator>::{method}"
            );
            let path = shown.replace("<u8, u8>", "").split("::<").next().unwrap_or_default().to_owned();
            forgets_order(&Name { shown, path, ..Name::default() }, AsInserted)
        };
        assert!(of("sum::<u32>") && !of("sum::<f64>") && of("count") && !of("next"));
        assert!(of("sum::<core::time::Duration>") && of("product::<core::option::Option<u8>>"));
        assert!(!of("sum::<app::Usd>") && !of("sum::<core::result::Result<u8, app::No>>"));
        assert!(of("collect::<alloc::collections::btree::set::BTreeSet<u8>>"));
        assert!(!of("collect::<alloc::vec::Vec<u8>>"));
        assert!(of("collect::<alloc::collections::btree::map::BTreeMap<u8, u8>>"));
        assert!(!of("collect::<hashlink::linked_hash_map::LinkedHashMap<u8, u8>>"));
    }

    #[test]
    fn of_the_first_ones_of_a_map_even_a_sum_depends_on_the_order() {
        let of = |adapter: &str| {
            let shown = format!(
                "<core::iter::adapters::{adapter}<std::collections::hash::map::Values<u8, u8>> as core::iter::traits::iterator::Iterator>::sum::<u8>"
            );
            let path = shown.split(" as ").next().unwrap_or_default().to_owned() + ">::sum";
            forgets_order(&Name { shown, path, ..Name::default() }, AsInserted)
        };
        assert!(of("copied::Copied") && !of("take::Take") && !of("skip::Skip"));
    }

    #[test]
    fn what_fills_a_sorted_collection_forgets_the_order() {
        let of = |ty: &str, method: &str, with: &str| {
            let shown = format!("<{ty} as core::iter::traits::collect::{method}::<{with}>");
            let path = shown.split("::<").next().unwrap_or_default().replace("<u8>", "");
            let name = Name { shown, path, ..Name::default() };
            (forgets_order(&name, AsInserted), fills_unordered(&name, AsInserted))
        };
        let keys = "std::collections::hash::map::Keys<u8, u8>";
        let (set, list) = ("alloc::collections::btree::set::BTreeSet<u8>", "alloc::vec::Vec<u8>");
        assert_eq!(of(set, "Extend<u8>>::extend", keys), (true, true));
        assert_eq!(of(set, "FromIterator<u8>>::from_iter", keys), (true, true));
        // It is no use of a hash map, and would hide one that stands beside it.
        assert_eq!(of(set, "Extend<u8>>::extend", list), (false, true));
        let of_sets =
            "alloc::collections::btree::map::BTreeMap<u8, std::collections::hash::set::HashSet<u8>>";
        assert_eq!(of(set, "Extend<u8>>::extend", of_sets), (false, true));
        let adapted = |adapter: &str| format!("core::iter::adapters::{adapter}<{keys}>");
        assert_eq!(of(set, "Extend<u8>>::extend", &adapted("cloned::Cloned")), (true, true));
        assert_eq!(of(set, "Extend<u8>>::extend", &adapted("take::Take")), (false, true));
        let first_of_list = format!("core::iter::adapters::take::Take<core::slice::iter::Iter<u8>>, {keys}");
        let chained = format!("core::iter::adapters::chain::Chain<{first_of_list}>");
        assert_eq!(of(set, "Extend<u8>>::extend", &chained), (true, true), "the list is the same each time");
        let zipped = format!("core::iter::adapters::zip::Zip<core::slice::iter::Iter<u8>, {keys}>");
        assert_eq!(of(set, "Extend<u8>>::extend", &zipped), (false, true));
        let fixed =
            "std::collections::hash::set::HashSet<u8, core::hash::BuildHasherDefault<fnv::FnvHasher>>";
        assert_eq!(of(fixed, "Extend<u8>>::extend", keys), (false, false));
        assert_eq!(
            of("alloc::collections::binary_heap::BinaryHeap<u8>", "Extend<u8>>::extend", keys),
            (false, false)
        );
        let linked = "hashlink::linked_hash_map::LinkedHashMap<u8>";
        assert_eq!(of(linked, "Extend<u8>>::extend", keys), (false, false));
        assert_eq!(of(list, "Extend<u8>>::extend", keys), (false, false));
        assert_eq!(of(list, "FromIterator<u8>>::from_iter", keys), (false, false));
    }

    #[test]
    fn a_hash_collection_is_told_from_borrows_and_from_others_of_its_name() {
        assert!(is_hashed_head("<std::collections::hash::map::HashMap as a::B>::c"));
        assert!(!is_hashed_head("<&std::collections::hash::map::HashMap as core::fmt::Debug>::fmt"));
        assert!(holds_hashed("a::f::<std::collections::hash::set::HashSet<e::RunId>>"));
        assert!(!holds_hashed("a::f::<std::collections::hash::set::HashSet<e::RunId, fx::Build>>"));
        assert!(!holds_hashed("a::f::<b::HashSet<u8>>") && !holds_hashed("a::f::<b::Vec<u8>>"));
    }

    #[test]
    fn an_object_of_json_forgets_the_order_where_it_is_sorted() {
        let map = "serde_json::map::Map<alloc::string::String, serde_json::value::Value>";
        let shown = format!(
            "<std::collections::hash::map::IntoIter<u8, u8> as core::iter::traits::iterator::Iterator>::collect::<{map}>"
        );
        let path =
            "<std::collections::hash::map::IntoIter as core::iter::traits::iterator::Iterator>::collect";
        let name = Name { shown, path: path.into(), ..Name::default() };
        assert!(forgets_order(&name, Sorted) && !forgets_order(&name, AsInserted));
    }

    #[test]
    fn whoever_gives_a_hash_collection_away_is_asked_what_becomes_of_it() {
        let of = |shown: &str| {
            let path = shown.split("::<").next().unwrap_or_default().replace("<u8>", "");
            takes_hashed(&Name { shown: shown.into(), path, ..Name::default() })
        };
        let chain = |with: &str| {
            of(&format!(
                "<core::slice::iter::Iter<u8> as core::iter::traits::iterator::Iterator>::chain::<{with}>"
            ))
        };
        assert!(chain("&std::collections::hash::set::HashSet<u8>"));
        assert!(chain("hashbrown::map::HashMap<u8, u8>"));
        assert!(!chain(
            "std::collections::hash::set::HashSet<u8, core::hash::BuildHasherDefault<fnv::FnvHasher>>"
        ));
        assert!(!of("<app::Config>::extend::<&std::collections::hash::set::HashSet<u8>>"));
        // Who made the iterator has been asked.
        assert!(!chain("std::collections::hash::map::Keys<u8, u8>"));
        assert!(!chain("&alloc::vec::Vec<std::collections::hash::set::HashSet<u8>>"));
        assert!(of(
            "<alloc::vec::Vec<u8> as core::iter::traits::collect::Extend<u8>>::extend::<std::collections::hash::set::HashSet<u8>>"
        ));
    }
}
