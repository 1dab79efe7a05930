//! The difference between two texts, line by line
//! how: clean

use aether::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit<'a> {
    Keep(&'a str),
    Add(&'a str),
    Remove(&'a str),
}

fn difference<'a>(old: &'a str, new: &'a str) -> Vec<Edit<'a>> {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut edits) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            edits.push(Edit::Keep(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            edits.push(Edit::Remove(old[i]));
            i += 1;
        } else {
            edits.push(Edit::Add(new[j]));
            j += 1;
        }
    }
    edits
}

#[workflow]
pub async fn line_difference(cx: &mut Cx, _input: u64) -> Result<String> {
    let new = format!("a\nc\n{}\nd", cx.random().await % 3);
    let edits = difference("a\nb\nc\n1\nd", &new);
    Ok(edits.iter().map(|edit| format!("{edit:?}")).collect::<Vec<_>>().join(" "))
}
