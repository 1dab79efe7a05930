//! `verify`.

use crate::args::runs::ManyRuns;
use crate::error::{CliError, found, not_verifiable};
use crate::exit::Exit;
use crate::output::code::{VerdictReport, Verdicts};
use crate::screen::Tone;
use crate::session::{Session, run_id};

pub(crate) async fn verify(session: &mut Session, args: &ManyRuns) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let mut runs = Vec::with_capacity(args.runs.len());
    for run in &args.runs {
        let run = run_id(run)?;
        runs.push(match engine.verify(&run).await {
            Ok(verified) => VerdictReport {
                run: run.to_string(),
                fits: true,
                matched: Some(verified.matched),
                recorded: Some(verified.recorded),
                text: verified.to_string(),
            },
            Err(error) => match not_verifiable(&error) {
                Some(error) => return Err(error),
                None => VerdictReport {
                    run: run.to_string(),
                    fits: false,
                    matched: None,
                    recorded: None,
                    text: error.to_string(),
                },
            },
        });
    }
    let exit = if runs.iter().all(|run| run.fits) { Exit::Done } else { Exit::Problems };
    found(exit, print(session, runs))
}

fn print(session: &Session, runs: Vec<VerdictReport>) -> Result<(), CliError> {
    if session.screen.is_json {
        return session.screen.json(&Verdicts { runs });
    }
    for run in &runs {
        let (verdict, tone) = if run.fits { ("fits", Tone::Good) } else { ("does not fit", Tone::Bad) };
        session.screen.toned(&format!("{}: {verdict}: {}", run.run, run.text), tone)?;
    }
    Ok(())
}
