//! What the compiler knows: names, versions, lines and types
//! how: clean

use std::any::{TypeId, type_name};
use std::panic::Location;

use aether::prelude::*;

#[track_caller]
fn here() -> u32 {
    Location::caller().line()
}

fn same<A: 'static, B: 'static>() -> bool {
    TypeId::of::<A>() == TypeId::of::<B>()
}

fn facts() -> String {
    let agent = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
    let built = option_env!("A_VARIABLE_THAT_NOBODY_SETS").unwrap_or("plain");
    let module = module_path!().rsplit("::").next().unwrap_or_default();
    let name = type_name::<Option<Vec<u8>>>();
    format!("{agent} {built} {module} {name} {} {}", here() < line!() + 1, same::<u8, i8>())
}

#[workflow]
pub async fn compile_time_facts(cx: &mut Cx, _input: u64) -> Result<String> {
    let random = cx.random().await;
    Ok(format!("{} {random}", facts()))
}
