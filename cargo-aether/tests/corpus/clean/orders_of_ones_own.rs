//! Values of a hash map in orders that are written by hand, and leave nothing out
//! how: clean

use std::cmp::Ordering;
use std::collections::HashMap;

use aether::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Score(f64);

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    priority: u64,
    name: String,
}

impl Ord for Job {
    fn cmp(&self, other: &Self) -> Ordering {
        other.priority.cmp(&self.priority).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn best(scores: &HashMap<u64, Score>) -> Option<Score> {
    scores.values().copied().max()
}

fn queue(jobs: HashMap<u64, Job>) -> Vec<Job> {
    let mut queue: Vec<Job> = jobs.into_values().collect();
    queue.sort();
    queue
}

#[workflow]
pub async fn orders_of_ones_own(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    let scores = (0..count).map(|n| (n, Score(n as f64 / 3.0))).collect();
    let jobs = (0..count).map(|n| (n, Job { priority: n % 2, name: format!("job {n}") })).collect();
    Ok(format!("{:?} {:?}", best(&scores), queue(jobs)))
}
