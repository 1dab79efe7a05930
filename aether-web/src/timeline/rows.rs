//! The rows of a timeline, a page of them at a time.

use std::collections::HashMap;

use aether_core::id::CommandId;
use aether_core::view::{RunView, StepView};

use crate::text::time::{between, count, length};
use crate::timeline::bars::{Moment, Stretch, stretches};
use crate::timeline::scale::{Fold, Scale};

/// Most rows of a page.
pub(crate) const PAGE: usize = 200;
/// The width below which a bar is not drawn, in percent.
const THIN: f64 = 0.6;

/// A page of the timeline of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) rows: Vec<Row>,
    pub(crate) folds: Vec<Mark>,
    /// How long the commands of this page took, from first to last.
    pub(crate) took: String,
    /// Number of this page and of all pages, from 1.
    pub(crate) page: usize,
    pub(crate) pages: usize,
    pub(crate) commands: String,
}

/// A fold as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: String,
    pub(crate) length: String,
    /// So far right that its text stands before it.
    pub(crate) is_late: bool,
}

impl From<&Fold> for Mark {
    fn from(fold: &Fold) -> Self {
        Self { at: percent(fold.at), length: fold.length.clone(), is_late: fold.at > 80.0 }
    }
}

/// One command.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) command: CommandId,
    pub(crate) class: &'static str,
    /// How deep in branches it is, at most six.
    pub(crate) depth: usize,
    /// Which branch that is; empty in none.
    pub(crate) branch: String,
    pub(crate) state: State,
    pub(crate) attempts: usize,
    pub(crate) took: String,
    pub(crate) bars: Vec<Bar>,
}

/// A bar as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) at: String,
    pub(crate) width: String,
    pub(crate) kind: &'static str,
    pub(crate) says: String,
}

/// Where a command stands, as people say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) class: &'static str,
    pub(crate) says: &'static str,
}

impl State {
    /// Of a step.
    pub(crate) fn of(step: &StepView) -> Self {
        use aether_core::contract::Status;
        let (class, says) = match step.status {
            _ if step.in_doubt => ("unknown", "unknown outcome"),
            Status::Pending if step.retry_due.is_some() => ("waiting", "retrying"),
            Status::Pending => ("pending", "pending"),
            Status::Running => ("running", "running"),
            Status::Waiting => ("waiting", "waiting"),
            Status::Completed => ("completed", "completed"),
            Status::Failed => ("failed", "failed"),
            Status::Rejected => ("rejected", "rejected"),
            Status::Cancelled => ("cancelled", "cancelled"),
        };
        Self { class, says }
    }
}

impl Timeline {
    /// Of a view that is a page of [`PAGE`] steps.
    pub(crate) fn of(view: &RunView, moment: &Moment) -> Self {
        let steps = view.steps.as_slice();
        let places: HashMap<&CommandId, usize> =
            steps.iter().enumerate().map(|(at, step)| (&step.command, at)).collect();
        let mut found: Vec<Vec<Stretch>> = vec![Vec::new(); steps.len()];
        let mut attempts = vec![0_usize; steps.len()];
        for execution in &view.executions {
            let Some(at) = places.get(&execution.command) else { continue };
            let (Some(step), Some(row), Some(count)) =
                (steps.get(*at), found.get_mut(*at), attempts.get_mut(*at))
            else {
                continue;
            };
            if execution.purpose == aether_core::view::Purpose::Call {
                *count += 1;
            }
            row.extend(stretches(view, Some(step), execution, (*count).max(1), moment));
        }
        begin_when_they_could(steps, &mut found, view.lifecycle.created.at);
        let all: Vec<Stretch> = found.iter().flatten().cloned().collect();
        let scale = Scale::of(&all);
        let ends =
            all.iter().map(|stretch| stretch.from).min().zip(all.iter().map(|stretch| stretch.to).max());
        let rows = steps.iter().zip(&found).zip(attempts);
        Self {
            rows: rows.map(|((step, stretches), attempts)| row(step, stretches, attempts, &scale)).collect(),
            folds: scale.folds.iter().map(Mark::from).collect(),
            took: ends.map(|(from, to)| length(between(from, to))).unwrap_or_default(),
            page: view.first_step() / PAGE + 1,
            pages: view.step_count().div_ceil(PAGE).max(1),
            commands: count(view.step_count() as u64),
        }
    }
}

/// Of what changes nothing the journal holds the end alone. It began when its scope had come that far: a scope does one
/// thing after the other.
fn begin_when_they_could(steps: &[StepView], found: &mut [Vec<Stretch>], created: jiff::Timestamp) {
    let mut ends: HashMap<&str, jiff::Timestamp> = HashMap::new();
    for (step, stretches) in steps.iter().zip(found) {
        let scope = scope(step.command.place());
        let since = scopes(scope).find_map(|scope| ends.get(scope)).copied().unwrap_or(created);
        if let Some(first) = stretches.first_mut()
            && first.kind.is_work()
            && first.from == first.to
            && since < first.from
        {
            first.from = since;
        }
        if let Some(end) = stretches.iter().map(|stretch| stretch.to).max() {
            let last = ends.entry(scope).or_insert(end);
            *last = end.max(*last);
        }
    }
}

/// The scope of a place: `3.b0` of `3.b0.1`, and nothing of `3`.
fn scope(place: &str) -> &str {
    place.rsplit_once('.').map_or("", |(scope, _)| scope)
}

/// A scope and those around it.
fn scopes(scope: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(scope), |inner| {
        (!inner.is_empty()).then(|| inner.rsplit_once('.').map_or("", |(outer, _)| outer))
    })
}

fn row(step: &StepView, stretches: &[Stretch], attempts: usize, scale: &Scale) -> Row {
    let took = stretches.first().zip(stretches.iter().map(|stretch| stretch.to).max());
    let (depth, branch) = branch(step.command.place());
    Row {
        command: step.command.clone(),
        class: step.class.as_str(),
        depth: depth.min(6),
        branch,
        state: State::of(step),
        attempts,
        took: took.map(|(first, to)| length(between(first.from, to))).unwrap_or_default(),
        bars: stretches.iter().map(|stretch| bar(stretch, scale)).collect(),
    }
}

fn bar(stretch: &Stretch, scale: &Scale) -> Bar {
    let (from, to) = (scale.place(stretch.from), scale.place(stretch.to));
    let width = (to - from).max(THIN);
    // At the right edge a thin bar still has its width.
    let at = from.min(100.0 - width);
    Bar { at: percent(at), width: percent(width), kind: stretch.kind.class(), says: stretch.says() }
}

/// How many branches a place is in, and the innermost: `3.b0.1` is in one, `b0`.
fn branch(place: &str) -> (usize, String) {
    let is_branch = |part: &&str| !part.starts_with(|c: char| c.is_ascii_digit());
    let mut branches = place.split('.').filter(is_branch);
    let depth = branches.clone().count();
    (depth, branches.next_back().unwrap_or_default().to_owned())
}

fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_inside_of_others() {
        assert_eq!([scope("3.b0.1"), scope("3")], ["3.b0", ""]);
        assert_eq!(scopes("3.b0").collect::<Vec<_>>(), ["3.b0", "3", ""]);
    }

    #[test]
    fn branches_are_read_from_places() {
        assert_eq!(branch("3"), (0, String::new()));
        assert_eq!(branch("3.b0.1"), (1, "b0".into()));
        assert_eq!(branch("3.b0.1.b12.0"), (2, "b12".into()));
    }
}
