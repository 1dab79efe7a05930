//! A derived Debug of a struct that holds a function
//! how: address

use aether::prelude::*;

#[derive(Debug, Clone)]
struct Route {
    path: String,
    handler: fn(&str) -> usize,
}

#[derive(Debug, Default)]
struct Router {
    routes: Vec<Route>,
}

fn router() -> Router {
    let mut router = Router::default();
    router.routes.push(Route { path: "/orders".to_owned(), handler: str::len });
    router
}

#[workflow]
pub async fn derived_debug_of_a_callback(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", router()))
}
