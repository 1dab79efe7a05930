//! What differs between two texts, line by line.
//!
//! Promise: the lines that are not new are the old text, and those that are not gone the new one. The work is bounded:
//! of very long texts the middle is shown as replaced.

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Same,
    Gone,
    New,
}

impl Change {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Gone => "gone",
            Self::New => "new",
        }
    }

    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Same => " ",
            Self::Gone => "−",
            Self::New => "+",
        }
    }
}

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) change: Change,
    pub(crate) text: String,
}

/// Most cells of the table that is filled.
const CELLS: usize = 1_000_000;

/// The difference of two texts; `None` where they are equal.
pub(crate) fn lines(old: &str, new: &str) -> Option<Vec<Line>> {
    if old == new {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - head;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let middle = |all: &[&str]| {
        all.get(head..all.len() - tail).unwrap_or_default().iter().map(|l| (*l).to_owned()).collect()
    };
    let (gone, added): (Vec<String>, Vec<String>) = (middle(&old), middle(&new));
    let line = |change: Change, text: &str| Line { change, text: text.to_owned() };
    let mut found: Vec<Line> = old.iter().take(head).map(|text| line(Change::Same, text)).collect();
    found.extend(compared(&gone, &added));
    found.extend(old.iter().skip(old.len() - tail).map(|text| line(Change::Same, text)));
    Some(found)
}

/// The longest lines in common stay.
fn compared(old: &[String], new: &[String]) -> Vec<Line> {
    let line = |change: Change, text: &String| Line { change, text: text.clone() };
    let (rows, columns) = (old.len(), new.len());
    if rows.saturating_mul(columns) > CELLS {
        let gone = old.iter().map(|text| line(Change::Gone, text));
        return gone.chain(new.iter().map(|text| line(Change::New, text))).collect();
    }
    let width = columns + 1;
    let mut longest = vec![0_u32; (rows + 1) * width];
    let at = |table: &[u32], row: usize, column: usize| table.get(row * width + column).copied().unwrap_or(0);
    for (row, one) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let best = match one == other {
                true => at(&longest, row + 1, column + 1) + 1,
                false => at(&longest, row + 1, column).max(at(&longest, row, column + 1)),
            };
            if let Some(cell) = longest.get_mut(row * width + column) {
                *cell = best;
            }
        }
    }
    let (mut row, mut column, mut found) = (0, 0, Vec::with_capacity(rows + columns));
    loop {
        match (old.get(row), new.get(column)) {
            (Some(one), Some(other)) if one == other => {
                found.push(line(Change::Same, one));
                (row, column) = (row + 1, column + 1);
            }
            (Some(one), other)
                if other.is_none() || at(&longest, row + 1, column) >= at(&longest, row, column + 1) =>
            {
                found.push(line(Change::Gone, one));
                row += 1;
            }
            (_, Some(other)) => {
                found.push(line(Change::New, other));
                column += 1;
            }
            _ => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(lines: &[Line], leave_out: Change) -> String {
        let kept = lines.iter().filter(|line| line.change != leave_out);
        kept.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_difference_holds_both_texts() {
        let cases =
            [("a\nb\nc", "a\nx\nc"), ("", "a"), ("a\nb", ""), ("a\nb\na\nb", "b\na\nb\nb"), ("x\na", "a\nx")];
        for (old, new) in cases {
            let found = lines(old, new).unwrap();
            assert_eq!((side(&found, Change::New), side(&found, Change::Gone)), (old.into(), new.into()));
        }
        assert_eq!(lines("a", "a"), None);
        let middle = lines("a\nb\nc", "a\nx\nc").unwrap();
        assert_eq!(middle.iter().filter(|line| line.change == Change::Same).count(), 2);
    }
}
