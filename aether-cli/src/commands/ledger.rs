//! `ledger`.

use crate::args::runs::OneRun;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::runs::{Ledger, LedgerRow};
use crate::screen::Cell;
use crate::session::{Session, existing, run_id};
use crate::time::ago;

pub(crate) async fn ledger(session: &mut Session, args: &OneRun) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let run = run_id(&args.run)?;
    existing(&engine, &run).await?;
    let rows: Vec<_> = engine.ledger(&run).await?.into_iter().map(LedgerRow::of).collect();
    if session.screen.is_json {
        session.screen.json(&Ledger { run: run.to_string(), rows })?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        session.screen.note("it has made no call that may have changed the world");
        return Ok(Exit::Done);
    }
    let rows = rows.iter().map(|row| {
        let result = row.result.as_ref().or(row.error.as_ref());
        vec![
            Cell::from(&row.command),
            Cell::from(&row.tool),
            print::status(&row.status),
            Cell::from(ago(row.started_at)),
            Cell::from(&row.key),
            Cell::from(result.map_or("", |value| value.as_str())),
        ]
    });
    session.screen.table(&["COMMAND", "TOOL", "STATUS", "STARTED", "KEY", "RESULT"], rows.collect())?;
    Ok(Exit::Done)
}
