//! A semaphore of the process that a helper takes from
//! how: static

use aether::prelude::*;
use tokio::sync::Semaphore;

struct Limiter(Semaphore);

static LIMITER: Limiter = Limiter(Semaphore::const_new(1_000));

impl Limiter {
    fn admit(&self) -> Option<usize> {
        self.0.try_acquire().ok()?.forget();
        Some(self.0.available_permits())
    }
}

fn admitted() -> String {
    LIMITER.admit().map_or_else(|| "busy".to_owned(), |left| left.to_string())
}

#[workflow]
pub async fn permits_left(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(admitted())
}
