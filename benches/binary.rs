//! What the smallest program weighs: one workflow with one step on the embedded store.
//!
//! `cargo bench --bench binary -- [--rounds R] [--json]`
//!
//! The program is a project of its own in a new folder of the target directory. Told are the crates in its dependency
//! graph, itself left out; the bytes of its release build, before and after `strip`; and the time of a clean debug build
//! of everything, the median of the rounds (default 1). The program is run, and has to print its result.

#[path = "kit/mod.rs"]
mod kit;
#[path = "compile/project.rs"]
mod project;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use kit::Result;
use kit::figures::{median, tell};
use project::{Project, ROOT, run};
use serde_json::json;

const HELLO: &str = r#"//! Greets, durably.

use aether::prelude::*;

/// Make a greeting.
#[step(effect = "read")]
async fn greeting(_cx: &mut StepCx, name: &str) -> Result<String> {
    Ok(format!("hello, {name}"))
}

/// Greet somebody.
#[workflow]
async fn hello(cx: &mut Cx, name: String) -> Result<String> {
    Ok(greeting(cx, &name).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::builder().sqlite("hello.db").start().await?;
    println!("{}", engine.start::<hello>("world".to_owned()).id("hello").await?.result().await?);
    engine.shutdown().await?;
    Ok(())
}
"#;

struct Options {
    rounds: u32,
    json: bool,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self { rounds: given.value("--rounds", 1)?, json: given.flag("--json") };
        given.end()?;
        Ok(Self { rounds: options.rounds.max(1), ..options })
    }
}

/// Bytes of the program.
struct Size {
    built: u64,
    stripped: u64,
}

/// The crates that are built for it on this machine, macros and build scripts among them.
fn crates(hello: &Project) -> Result<usize> {
    let args = ["tree", "--edges", "no-dev", "--no-dedupe", "--prefix", "none", "--format", "{p}"];
    let tree = hello.cargo(&args, false)?.1;
    let packages: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (proc-macro)")).collect();
    Ok(packages.len() - 1)
}

/// Builds it in release, runs it, and strips it.
fn size(hello: &Project, place: &Path) -> Result<Size> {
    hello.cargo(&["build", "--release", "--quiet"], false)?;
    let program = place.join("target/release/hello");
    let said = run(Command::new(&program).current_dir(place))?.1;
    if said != "hello, world\n" {
        return Err(format!("the program said {said:?}").into());
    }
    let built = std::fs::metadata(&program)?.len();
    let stripped = place.join("stripped");
    run(Command::new("strip").arg("-o").arg(&stripped).arg(&program))?;
    Ok(Size { built, stripped: std::fs::metadata(stripped)?.len() })
}

/// Seconds of a debug build into a folder that was empty.
fn debug_build(hello: &Project, place: &Path) -> Result<f64> {
    let target = place.join("target");
    if target.exists() {
        std::fs::remove_dir_all(&target)?;
    }
    Ok(hello.cargo(&["build", "--quiet"], true)?.0.as_secs_f64())
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let place = place.path();
    let needs = format!(
        "aether = {{ path = \"{ROOT}\" }}\ntokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n"
    );
    let hello = Project::new(place, "hello", &needs, place.join("target"))?;
    hello.write("main.rs", HELLO)?;
    let crates = crates(&hello)?;
    let size = size(&hello, place)?;
    let mut seconds = Vec::new();
    for _ in 0..options.rounds {
        seconds.push(debug_build(&hello, place)?);
    }
    seconds.sort_unstable_by(f64::total_cmp);
    let (low, middle, high) = (seconds[0], median(seconds.clone()), seconds[seconds.len() - 1]);
    let figures = json!({
        "rounds": options.rounds, "crates": crates, "bytes": size.built, "stripped_bytes": size.stripped,
        "debug_build_s": middle, "debug_build_s_min": low, "debug_build_s_max": high,
    });
    let text = format!(
        "{crates} crates, {:.1} MB, {:.1} MB stripped, clean debug build in {middle:.1} s ({low:.1} to {high:.1})",
        size.built as f64 / 1e6,
        size.stripped as f64 / 1e6
    );
    tell(options.json, "binary", figures, &text);
    Ok(())
}
