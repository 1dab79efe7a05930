//! The program `cargo-aether`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_aether::run(std::env::args_os())
}
