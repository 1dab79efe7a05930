//! Addresses that become numbers: what leaves no reference in an object file, read from the MIR of the workspace's crates.
//!
//! Promise: MIR is text that the compiler changes at will; what is not understood in it is passed over.

use std::path::Path;

/// A function of the workspace that makes a number of an address, as MIR names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exposing {
    /// The crate, and the end of a path: MIR leaves modules out where a name is the only one.
    Path { krate: String, path: String },
    /// A method: its name, and where its `impl` begins.
    Method { name: String, file: String, line: u32 },
}

/// What MIR calls it.
const MARKS: [&str; 3] = ["(PointerExposeProvenance)", ">::addr(", ">::expose_provenance("];

/// The functions in a MIR file of the crate `krate`.
pub(crate) fn exposing(file: &Path, krate: &str) -> Vec<Exposing> {
    std::fs::read_to_string(file).map(|text| in_text(&text, krate)).unwrap_or_default()
}

fn in_text(text: &str, krate: &str) -> Vec<Exposing> {
    let (mut found, mut within) = (Vec::new(), None);
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("fn ") {
            within = function(head, krate);
        } else if line.trim_start().starts_with('_')
            && MARKS.iter().any(|mark| line.contains(mark))
            && let Some(function) = within.take()
        {
            found.push(function);
        }
    }
    found
}

fn function(head: &str, krate: &str) -> Option<Exposing> {
    let (path, _) = head.split_once("(_1").or_else(|| head.split_once("()"))?;
    let Some((_, rest)) = path.split_once("<impl at ") else {
        return Some(Exposing::Path { krate: krate.into(), path: path.into() });
    };
    let (place, method) = rest.split_once('>')?;
    let mut place = place.split(':');
    let (file, line) = (place.next()?.to_owned(), place.next()?.parse().ok()?);
    Some(Exposing::Method { name: method.to_owned(), file, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_once_however_often_it_does_it() {
        let text = "\
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
";
        let path = Exposing::Path { krate: "app".into(), path: "helpers::tag".into() };
        let method = Exposing::Method { name: "::key".into(), file: "src/lib.rs".into(), line: 7 };
        assert_eq!(in_text(text, "app"), [path, method]);
    }
}
