//! From times to places: stretches in which nothing was at work are folded.

use jiff::Timestamp;

use crate::text::time::length;
use crate::timeline::bars::Stretch;

/// How much of the width all folds together take at most, and one of them.
const FOLDS: f64 = 0.35;
const FOLD: f64 = 0.05;
/// A stretch of idle time longer than this share of all work is folded.
const IDLE: f64 = 0.12;
/// Shorter than this, in milliseconds, nothing is folded.
const SHORTEST: f64 = 400.0;

/// A stretch of time that was folded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    /// Its middle, in percent of the width.
    pub(crate) at: f64,
    /// How long it took.
    pub(crate) length: String,
}

/// The pieces of time, each with its share of the width.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scale {
    /// Begin and end in milliseconds, and the place of the begin and of the end, in percent.
    pieces: Vec<(f64, f64, f64, f64)>,
    pub(crate) folds: Vec<Fold>,
}

impl Scale {
    /// The scale on which all `stretches` have a place.
    pub(crate) fn of(stretches: &[Stretch]) -> Self {
        let millis = |at: Timestamp| at.as_microsecond() as f64 / 1_000.0;
        let ends = stretches.iter().flat_map(|stretch| [millis(stretch.from), millis(stretch.to)]);
        let (first, last) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), t| (a.min(t), b.max(t)));
        if first > last {
            return Self::default();
        }
        // What begins or ends in a moment counts as a moment of work.
        let mut busy: Vec<(f64, f64)> = Vec::with_capacity(stretches.len() * 2);
        for stretch in stretches {
            let (from, to) = (millis(stretch.from), millis(stretch.to));
            match stretch.kind.is_work() {
                true => busy.push((from, to)),
                false => busy.extend([(from, from), (to, to)]),
            }
        }
        busy.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut merged: Vec<(f64, f64)> = Vec::with_capacity(busy.len());
        for (from, to) in busy {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        let work: f64 = merged.iter().map(|(from, to)| to - from).sum();
        let long = (work * IDLE).max(SHORTEST);
        let gaps = merged.windows(2).filter_map(|pair| match pair {
            [(_, from), (to, _)] if to - from > long => Some((*from, *to)),
            _ => None,
        });
        Self::with(first, last, &gaps.collect::<Vec<_>>())
    }

    fn with(first: f64, last: f64, gaps: &[(f64, f64)]) -> Self {
        let folded: f64 = gaps.iter().map(|(from, to)| to - from).sum();
        let kept = (last - first - folded).max(0.001);
        let fold = match gaps.len() {
            0 => 0.0,
            count => FOLD.min(FOLDS / count as f64) * 100.0,
        };
        let per_milli = (100.0 - fold * gaps.len() as f64) / kept;
        let (mut pieces, mut folds) =
            (Vec::with_capacity(gaps.len() * 2 + 1), Vec::with_capacity(gaps.len()));
        let (mut at, mut time) = (0.0, first);
        for (from, to) in gaps {
            let begin = at + (from - time) * per_milli;
            pieces.push((time, *from, at, begin));
            pieces.push((*from, *to, begin, begin + fold));
            folds.push(Fold { at: begin + fold / 2.0, length: length((to - from) as i64) });
            (at, time) = (begin + fold, *to);
        }
        pieces.push((time, last, at, 100.0));
        Self { pieces, folds }
    }

    /// The place of a time, in percent of the width.
    pub(crate) fn place(&self, at: Timestamp) -> f64 {
        let time = at.as_microsecond() as f64 / 1_000.0;
        let next = self.pieces.partition_point(|(_, end, _, _)| *end < time);
        let Some((from, to, begin, end)) = self.pieces.get(next).or(self.pieces.last()) else { return 0.0 };
        let share = if to > from { ((time - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
        begin + share * (end - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::bars::Kind;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
    }

    fn stretch(from: i64, to: i64, kind: Kind) -> Stretch {
        Stretch { from: at(from), to: at(to), kind, attempt: 1 }
    }

    #[test]
    fn a_day_of_waiting_is_as_wide_as_a_fold_and_work_keeps_its_share() {
        const DAY: i64 = 86_400_000;
        let scale = Scale::of(&[
            stretch(0, 1_000, Kind::Worked),
            stretch(1_000, 1_000 + DAY, Kind::Person),
            stretch(1_000 + DAY, 4_000 + DAY, Kind::Worked),
        ]);
        assert_eq!(scale.folds.len(), 1);
        assert_eq!(scale.folds[0].length, "1 d");
        let places = [0, 1_000, 1_000 + DAY, 4_000 + DAY].map(|time| scale.place(at(time)).round());
        assert_eq!(places, [0.0, 24.0, 29.0, 100.0]);
    }

    #[test]
    fn places_rise_with_time_however_many_folds_there_are() {
        let works: Vec<_> = (0..100).map(|at| stretch(at * 60_000, at * 60_000 + 10, Kind::Worked)).collect();
        let scale = Scale::of(&works);
        assert_eq!(scale.folds.len(), 99);
        let places: Vec<_> =
            works.iter().flat_map(|work| [scale.place(work.from), scale.place(work.to)]).collect();
        assert!(places.is_sorted() && places.iter().all(|place| (0.0..=100.0).contains(place)), "{places:?}");
    }

    #[test]
    fn a_run_of_one_moment_has_a_scale() {
        let scale = Scale::of(&[stretch(5, 5, Kind::Worked)]);
        assert!((0.0..=100.0).contains(&scale.place(at(5))));
        assert_eq!(Scale::of(&[]).place(at(5)), 0.0);
    }
}
