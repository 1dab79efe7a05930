//! `export` and `import`.

use aether_core::recording::{Masking, Recording, RecordingError};

use crate::args::store::{Export, Import};
use crate::commands::target;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::files::{Exported, Imported};
use crate::session::{Session, run_id};

pub(crate) async fn export(session: &mut Session, args: &Export) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let run = run_id(&args.run)?;
    let masking = if args.unmasked { Masking::off() } else { Masking::standard() };
    let recording = engine.export_with(&run, &masking).await?;
    let Some(file) = args.out.as_deref().filter(|file| !target::is_stdout(file)) else {
        session.screen.raw_json(&recording.to_text())?;
        return Ok(Exit::Done);
    };
    target::check(session, file, "aether-recording", args.force)?;
    recording.write(file)?;
    let runs = recording.runs().iter().map(|run| run.run.to_string()).collect();
    let exported = Exported { file: file.display().to_string(), runs, masked: recording.masked() };
    if session.screen.is_json {
        session.screen.json(&exported)?;
    } else {
        let (count, masked) = (exported.runs.len(), exported.masked);
        session.screen.line(&format!("{count} runs in {}, {masked} secrets masked", exported.file))?;
    }
    Ok(Exit::Done)
}

pub(crate) async fn import(session: &mut Session, args: &Import) -> Result<Exit, CliError> {
    if !args.file.exists() {
        let what = format!("there is no file {}", args.file.display());
        return Err(CliError::new(Exit::NotFound, what).with_help("`export RUN --out FILE` writes one"));
    }
    let recording = Recording::read(&args.file).map_err(|error| match error {
        RecordingError::NotARecording { reason } => {
            let what = format!("{} is not a recording: {reason}", args.file.display());
            CliError::new(Exit::Failed, what).with_help("`export RUN --out FILE` writes one")
        }
        error => error.into(),
    })?;
    let engine = session.engine().await?;
    let runs = engine.import(&recording).await?.iter().map(ToString::to_string).collect();
    let imported = Imported { runs };
    if session.screen.is_json {
        session.screen.json(&imported)?;
    } else {
        imported.runs.iter().try_for_each(|run| session.screen.line(run))?;
    }
    Ok(Exit::Done)
}
