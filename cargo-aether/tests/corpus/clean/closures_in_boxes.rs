//! A pipeline of closures behind boxes
//! how: clean

use aether::prelude::*;

type Stage = Box<dyn Fn(i64) -> Option<i64>>;

fn stages(seed: i64) -> Vec<(&'static str, Stage)> {
    let offset = seed % 10;
    vec![
        ("shift", Box::new(move |n| n.checked_add(offset))),
        ("double", Box::new(|n| n.checked_mul(2))),
        ("even", Box::new(|n| (n % 2 == 0).then_some(n))),
        ("limit", Box::new(move |n| Some(n.min(offset * 100)))),
    ]
}

fn run(stages: &[(&str, Stage)], start: i64) -> std::result::Result<i64, String> {
    stages.iter().try_fold(start, |n, (name, stage)| stage(n).ok_or_else(|| format!("{name} refused {n}")))
}

#[workflow]
pub async fn closures_in_boxes(cx: &mut Cx, _input: u64) -> Result<String> {
    let seed = (cx.random().await >> 1) as i64;
    let stages = stages(seed);
    let results = [1, 50, i64::MAX].map(|start| run(&stages, start));
    Ok(format!("{results:?}"))
}
