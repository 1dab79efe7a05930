//! What a comparison of two definitions found: for people as text, for programs as JSON.
//!
//! Promise: plain data; each place and each difference is named with its line.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::definition::owned::DefinedChange;

/// How the code of a workflow has changed, place by place of the old code.
///
/// Its text is for people, its JSON for programs.
///
/// ```
/// # use aether_core::definition::{Definition, diff};
/// # fn compare(old: &Definition, new: &Definition) {
/// let diff = diff(old, new);
/// if !diff.fits() {
///     eprintln!("{diff}");
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DefinitionDiff {
    /// Name of the workflow.
    pub workflow: String,
    /// Versions of the old code and of the new.
    pub versions: (u32, u32),
    /// Whether any code differs, with that of the workflows and steps that are called. Where it does and every place is the
    /// same, the difference is between the awaits.
    pub code_changed: bool,
    /// Each place of the old code, in its order.
    pub places: Vec<PlaceDiff>,
    /// Where ways of the old code leave those of the new.
    pub differences: Vec<Difference>,
    /// Marks of which the new code has no path any more for a version that the old code had.
    pub raised: Vec<RaisedMark>,
}

/// One await of the old code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceDiff {
    /// What it is and where.
    pub old: Site,
    /// What takes its place in the new code, where a way leads there.
    pub new: Vec<Site>,
    /// What a run that stands here finds in the new code.
    pub verdict: Verdict,
    /// Which of [`DefinitionDiff::differences`] lies before this place.
    pub cause: Option<usize>,
}

/// What a run that stands at a place of the old code finds in the new code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// The same code before this place and after it.
    Same,
    /// The same code up to this place, and other code later.
    LaterChanged,
    /// A workflow that is called here or before has changed: compare its definitions.
    CalleeChanged,
    /// A way to this place is no way of the new code.
    ChangedBefore,
}

/// An await in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// What is awaited: the called function or the method on the context.
    pub name: String,
    /// Where, `file:line`.
    pub place: String,
}

/// A place where a way of the old code is no way of the new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What the old code awaits; `None` where it ends.
    pub old: Option<Site>,
    /// What the new code may await there; empty where it ends.
    pub new: Vec<Site>,
}

/// A mark of which the new code has no path any more for a version that the old code had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedMark {
    /// The mark as the old code has it.
    pub old: DefinedChange,
    /// Its lowest version in the new code. A mark that is gone has none.
    pub from: Option<u32>,
}

impl DefinitionDiff {
    /// Whether each place of the old code is a place of the new, whatever comes after it, and every mark of both still has
    /// the versions that it had. A mark that is gone is no obstacle by itself: the places tell.
    pub fn fits(&self) -> bool {
        let fits = |place: &PlaceDiff| place.verdict <= Verdict::LaterChanged;
        self.raised.iter().all(|mark| mark.from.is_none()) && self.places.iter().all(fits)
    }

    /// Whether both have the same shape.
    pub fn is_same(&self) -> bool {
        self.fits()
            && self.differences.is_empty()
            && self.places.iter().all(|place| place.verdict == Verdict::Same)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}", self.name, self.place)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.old {
            Some(old) => write!(f, "the old code asks for {old}")?,
            None => f.write_str("the old code ends")?,
        }
        match self.new.split_first() {
            None => f.write_str(", and the new one ends"),
            Some((first, others)) => {
                write!(f, ", and the new one for {first}")?;
                others.iter().try_for_each(|other| write!(f, " or {other}"))
            }
        }
    }
}

impl fmt::Display for RaisedMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DefinedChange { name, from: old, .. } = &self.old;
        match self.from {
            Some(new) => {
                write!(f, "mark `{name}` begins with {new}: runs that have one of {old}..{new} do not fit")
            }
            None => {
                write!(f, "mark `{name}` is gone: a run fits only if it has the version whose code was kept")
            }
        }
    }
}

impl fmt::Display for DefinitionDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, versions: (old, new), code_changed, .. } = self;
        write!(f, "{workflow} v{old} -> v{new}: ")?;
        if !code_changed {
            return writeln!(f, "the same code");
        }
        let fitting = self.places.iter().filter(|place| place.verdict <= Verdict::LaterChanged).count();
        writeln!(f, "runs at {fitting} of {} places fit", self.places.len())?;
        for place in &self.places {
            write!(f, "  {}: ", place.old)?;
            match (place.verdict, place.cause.and_then(|cause| self.differences.get(cause))) {
                (Verdict::Same, _) => writeln!(f, "the same")?,
                (Verdict::LaterChanged, _) => writeln!(f, "fits, only later code has changed")?,
                (Verdict::CalleeChanged, _) => {
                    writeln!(f, "a workflow that is called here or before has changed")?;
                }
                (Verdict::ChangedBefore, Some(cause)) => writeln!(f, "does not fit: {cause}")?,
                (Verdict::ChangedBefore, None) => writeln!(f, "cannot be told, the code has too many ways")?,
            }
        }
        self.raised.iter().try_for_each(|mark| writeln!(f, "  {mark}"))?;
        f.write_str(
            "A quick answer from the shape of the code. Arguments, conditions and plain functions are not compared; a replay tells for sure.\n",
        )
    }
}
