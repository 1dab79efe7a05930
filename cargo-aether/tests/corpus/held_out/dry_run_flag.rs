//! A flag of the command line that decides whether a step is called
//! how: env

use aether::prelude::*;

struct Mode {
    dry: bool,
}

impl Default for Mode {
    fn default() -> Self {
        Mode { dry: std::env::args_os().skip(1).any(|arg| arg == "--dry-run") }
    }
}

#[step(effect = "read")]
pub async fn dry_run_flag_send(cx: &mut StepCx, key: &str) -> Result<u64> {
    Ok(key.len() as u64)
}

#[workflow]
pub async fn dry_run_flag(cx: &mut Cx, _input: u64) -> Result<String> {
    if Mode::default().dry {
        return Ok("nothing sent".to_owned());
    }
    Ok(dry_run_flag_send(cx, "mail").await?.to_string())
}
