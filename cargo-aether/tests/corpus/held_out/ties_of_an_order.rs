//! Jobs of a hash map in an order that is that of their priority alone
//! how: hash

use std::cmp::Ordering;
use std::collections::HashMap;

use aether::prelude::*;

#[derive(PartialEq, Eq)]
struct Job {
    priority: u64,
    name: String,
}

impl Ord for Job {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.cmp(&other.priority)
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn queue(jobs: HashMap<u64, Job>) -> Vec<String> {
    let mut queue: Vec<Job> = jobs.into_values().collect();
    queue.sort();
    queue.into_iter().map(|job| job.name).collect()
}

fn jobs(count: u64) -> HashMap<u64, Job> {
    (0..count).map(|id| (id, Job { priority: id % 2, name: format!("job {id}") })).collect()
}

#[workflow]
pub async fn ties_of_an_order(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(queue(jobs(count)).join(", "))
}
