//! A clock behind a repository behind a service: a trait object in generics
//! how: clock

use aether::prelude::*;

trait Clock {
    fn millis(&self) -> u128;
}

struct Wall;

impl Clock for Wall {
    fn millis(&self) -> u128 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis())
    }
}

trait Repository {
    fn store(&mut self, name: &str) -> usize;
    fn row(&self, at: usize) -> Option<&(String, u128)>;
}

struct Memory {
    clock: Box<dyn Clock>,
    rows: Vec<(String, u128)>,
}

impl Repository for Memory {
    fn store(&mut self, name: &str) -> usize {
        self.rows.push((name.to_owned(), self.clock.millis()));
        self.rows.len() - 1
    }

    fn row(&self, at: usize) -> Option<&(String, u128)> {
        self.rows.get(at)
    }
}

struct Service<R> {
    rows: R,
}

impl<R: Repository> Service<R> {
    fn register(&mut self, name: &str) -> String {
        let at = self.rows.store(name);
        self.rows.row(at).map_or_else(String::new, |(name, when)| format!("{name} {when}"))
    }
}

fn service() -> Service<impl Repository> {
    Service { rows: Memory { clock: Box::new(Wall), rows: Vec::new() } }
}

#[workflow]
pub async fn layered_repository(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(service().register("Ada"))
}
