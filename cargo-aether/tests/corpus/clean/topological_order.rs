//! Tasks in an order in which each comes after what it needs
//! how: clean

use std::collections::{BTreeSet, HashMap};

use aether::prelude::*;

fn order<'a>(needs: &[(&'a str, &[&'a str])]) -> std::result::Result<Vec<&'a str>, BTreeSet<&'a str>> {
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut after: HashMap<&str, Vec<&'a str>> = HashMap::new();
    for (task, before) in needs {
        open.insert(task, before.len());
        for needed in *before {
            after.entry(needed).or_default().push(task);
        }
    }
    let mut ready: BTreeSet<&str> =
        needs.iter().filter(|(_, before)| before.is_empty()).map(|(task, _)| *task).collect();
    let mut done = Vec::new();
    while let Some(task) = ready.pop_first() {
        done.push(task);
        for next in after.remove(task).unwrap_or_default() {
            if let Some(count) = open.get_mut(next) {
                *count -= 1;
                if *count == 0 {
                    ready.insert(next);
                }
            }
        }
    }
    if done.len() == needs.len() {
        return Ok(done);
    }
    Err(needs.iter().map(|(task, _)| *task).filter(|task| !done.contains(task)).collect())
}

#[workflow]
pub async fn topological_order(cx: &mut Cx, _input: u64) -> Result<String> {
    let last: &[&str] = if cx.random().await % 2 == 0 { &[] } else { &["ship"] };
    let tasks = [("ship", &["pack", "label"][..]), ("pack", &["pick"]), ("label", &["pick"]), ("pick", last)];
    Ok(format!("{:?}", order(&tasks)))
}
