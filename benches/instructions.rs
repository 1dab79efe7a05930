//! Instructions of the engine's hot parts, counted by valgrind: what a step costs, whatever the machine is busy with.
//!
//! `scripts/instructions` compares them with `benches/instructions.txt` and fails above 5 % more; `scripts/instructions
//! --bless` writes that table. `cargo bench --bench instructions` prints the counts of the release build, which are in no
//! table.
//!
//! Promise: a figure is the difference between N steps and 2N of them in two processes, divided by N, so that set-up and the
//! end do not count. The table is never compared with counts of another profile.

#[path = "instructions/count.rs"]
mod count;
#[path = "chain/flows.rs"]
#[allow(dead_code, reason = "other benches use the rest")]
mod flows;
#[path = "instructions/parts.rs"]
mod parts;
#[path = "instructions/still.rs"]
mod still;
#[path = "instructions/table.rs"]
mod table;
#[path = "instructions/writer.rs"]
mod writer;

use std::process::ExitCode;

use parts::Part;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What to do with the counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Print,
    Check,
    Bless,
}

fn counted() -> Result<Vec<(Part, u64)>> {
    Part::ALL.into_iter().map(|part| Ok((part, count::per_step(part)?))).collect()
}

/// Returns whether all is as it should be.
fn compare(then: Then) -> Result<bool> {
    if then != Then::Print && !cfg!(debug_assertions) {
        return Err("the table is of the profile of the tests: scripts/instructions".into());
    }
    let counted = counted()?;
    match then {
        Then::Print => {
            for (part, count) in counted {
                println!("{:<10} {count:>9}  {}", part.name(), part.is_what());
            }
            Ok(true)
        }
        Then::Check => table::check(&counted),
        Then::Bless => table::write(&counted).map(|()| true),
    }
}

fn run() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["perform", part, steps] => parts::perform(part.parse()?, steps.parse()?).map(|()| true),
        [] => compare(Then::Print),
        ["--check"] => compare(Then::Check),
        ["--bless"] => compare(Then::Bless),
        other => Err(format!("unknown arguments {other:?}: --check, --bless or none").into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}
