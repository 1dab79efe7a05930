//! Jobs of a hash map, sorted by a priority that has the type of their numbers
//! how: hash

use std::cmp::Reverse;
use std::collections::HashMap;

use aether::prelude::*;

struct Job {
    priority: u64,
    name: String,
}

fn queue(jobs: HashMap<u64, Job>) -> Vec<String> {
    let mut queue = jobs.into_iter().collect::<Vec<_>>();
    queue.sort_by_key(|(_, job)| Reverse(job.priority));
    queue.into_iter().map(|(_, job)| job.name).collect()
}

fn jobs(count: u64) -> HashMap<u64, Job> {
    (0..count).map(|id| (id, Job { priority: id % 2, name: format!("job {id}") })).collect()
}

#[workflow]
pub async fn ties_of_a_priority(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(queue(jobs(count)).join(", "))
}
