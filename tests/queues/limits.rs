//! What limits mean, written once more, without the library's code.

use std::collections::BTreeMap;

/// Pattern and kind of a limit, and its number.
pub(crate) type Limits = BTreeMap<(String, String), u64>;

/// Under which name a limit of this pattern counts a run of this place; `None` if it is not for it.
pub(crate) fn scope(pattern: &str, place: &str) -> Option<String> {
    let (mut wanted, mut found) = (pattern.split('/'), place.split('/'));
    let mut name = vec![wanted.next()?.to_owned()];
    if found.next()? != name[0] {
        return None;
    }
    for segment in wanted {
        let of_run = found.next()?;
        if segment != "*" && segment != of_run {
            return None;
        }
        name.push(of_run.to_owned());
    }
    Some(name.join("/"))
}

/// How many of these places each scope of a pattern holds.
pub(crate) fn counted<'p>(
    pattern: &str,
    places: impl IntoIterator<Item = &'p String>,
) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for scope in places.into_iter().filter_map(|place| scope(pattern, place)) {
        *counts.entry(scope).or_default() += 1;
    }
    counts
}

#[test]
fn patterns_name_scopes() {
    for (pattern, place, wanted) in [
        ("q", "q/a/x", Some("q")),
        ("q", "p/a", None),
        ("q/a", "q/a/x", Some("q/a")),
        ("q/a", "q/ab", None),
        ("q/*", "q/a/x", Some("q/a")),
        ("q/*", "q", None),
        ("q/a/*", "q/a/x", Some("q/a/x")),
        ("q/a/*", "q/b/x", None),
    ] {
        assert_eq!(scope(pattern, place).as_deref(), wanted, "{pattern} {place}");
    }
}
