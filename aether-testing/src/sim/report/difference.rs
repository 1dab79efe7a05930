//! The difference of two lists, as assertions show it.
//!
//! Promise: the shortest edit from one list to the other; what both share is kept in its order.

/// A shortest way from `expected` to `found`: kept (' '), missing ('-') and added ('+') items.
pub(super) fn difference<'a>(expected: &[&'a str], found: &[&'a str]) -> Vec<(char, &'a str)> {
    let common = common_lengths(expected, found);
    let (mut left, mut right, mut steps) = (0, 0, Vec::new());
    while left < expected.len() || right < found.len() {
        if left < expected.len() && right < found.len() && expected[left] == found[right] {
            steps.push((' ', expected[left]));
            (left, right) = (left + 1, right + 1);
        } else if right == found.len()
            || (left < expected.len() && common[left + 1][right] >= common[left][right + 1])
        {
            steps.push(('-', expected[left]));
            left += 1;
        } else {
            steps.push(('+', found[right]));
            right += 1;
        }
    }
    steps
}

/// Length of the longest common subsequence of every pair of tails.
fn common_lengths(a: &[&str], b: &[&str]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] = if a[i] == b[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_keeps_what_is_common() {
        let steps = difference(&["a", "b", "c"], &["b", "c", "d"]);
        assert_eq!(steps, [('-', "a"), (' ', "b"), (' ', "c"), ('+', "d")]);
    }
}
