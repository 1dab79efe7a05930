//! The program `aether`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(aether_cli::standalone(std::env::args_os())),
        Err(error) => {
            eprintln!("error: the program cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
