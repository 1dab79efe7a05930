//! Explores schedules; see `scripts/schedules`, which builds and runs it.

#[cfg(not(aether_dst))]
fn main() {
    eprintln!("built without `--cfg aether_dst`: run scripts/schedules");
}

#[cfg(aether_dst)]
fn main() -> std::process::ExitCode {
    command::run(std::env::args().skip(1).collect())
}

#[cfg(aether_dst)]
mod command;
