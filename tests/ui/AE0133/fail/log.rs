use aether::prelude::*;

#[workflow]
async fn work(_cx: &mut Cx, mut queue: Vec<u32>) -> Result<u32> {
    tracing::info!(job = ?queue.pop(), "dropped");
    let mut lines = 0;
    tracing::debug!("line {}", {
        lines += 1;
        lines
    });
    tracing::warn!(target: "jobs", left = left(&mut queue), "still to do");
    let _span = tracing::info_span!("job", first = queue.remove(0)).entered();
    Ok(queue.iter().sum())
}

fn left(queue: &mut Vec<u32>) -> usize {
    queue.pop();
    queue.len()
}

fn main() {}
