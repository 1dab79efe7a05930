//! Which runs: from arguments to the filter of the store, and to the runs that fit.

use aether_core::contract::Status;
use aether_core::engine::{Engine, Hold};
use aether_core::id::RunId;
use aether_core::store::{RunFilter, RunRecord};

use crate::args::runs::{Filter, Named, Pick};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::hold::Reason;
use crate::session::{Session, existing, run_id};

/// Runs that are looked at together, where their reasons are asked for.
const PAGE: usize = 200;
/// How many runs are named before somebody is asked about all of them.
const NAMED: usize = 5;

/// The filter that the arguments describe.
pub(crate) fn filter_of(args: Filter) -> Result<RunFilter, CliError> {
    let mut filter = RunFilter::new().statuses(args.status);
    if args.open {
        filter = filter.open();
    }
    for (key, value) in args.label {
        filter = filter.label(key, value);
    }
    filter.workflow = args.workflow;
    filter.version = args.version;
    filter.id_contains = args.id;
    filter.queue = args.queue;
    filter.parent = args.parent.as_deref().map(run_id).transpose()?;
    filter.created_after = args.since;
    Ok(filter)
}

/// Runs as they were asked for, also by why they do not move.
pub(crate) struct Picked {
    pub(crate) filter: RunFilter,
    why: Vec<Reason>,
    stuck: bool,
}

impl Picked {
    pub(crate) fn of(pick: Pick) -> Result<Self, CliError> {
        let Pick { filter, why, stuck } = pick;
        let mut filter = filter_of(filter)?;
        if (stuck || !why.is_empty()) && filter.statuses.is_empty() && !why.contains(&Reason::Ended) {
            // No other run can be held for such a reason.
            filter = filter.open();
        }
        Ok(Self { filter, why, stuck })
    }

    fn is_for_reasons(&self) -> bool {
        self.stuck || !self.why.is_empty()
    }

    fn wants(&self, hold: &Hold) -> bool {
        (!self.stuck || hold.needs_operator())
            && (self.why.is_empty() || Reason::all_of(hold).iter().any(|reason| self.why.contains(reason)))
    }

    /// The first runs that fit, newest first.
    pub(crate) async fn runs(
        &mut self,
        engine: &Engine,
        most: usize,
    ) -> Result<Vec<(RunRecord, Hold)>, CliError> {
        self.filter.limit = if self.is_for_reasons() { PAGE } else { most.min(PAGE) };
        let mut found = Vec::new();
        loop {
            let page = engine.holds(self.filter.clone()).await?;
            let (is_last, last) = (page.len() < self.filter.limit, page.last().map(|(run, _)| run.place));
            let fits = page.into_iter().filter(|(_, hold)| self.wants(hold));
            found.extend(fits.take(most - found.len()));
            match last {
                Some(last) if !is_last && found.len() < most => self.filter.after = Some(last),
                _ => return Ok(found),
            }
        }
    }
}

/// The runs that a command is about: those that are named, all of which there are; or those that fit, after a person was
/// asked, or a script has said `--yes`. `verb` is what is done to them, and `otherwise` which runs are meant where no status
/// is given.
pub(crate) async fn targets(
    session: &Session,
    engine: &Engine,
    which: Named,
    verb: &str,
    otherwise: &[Status],
) -> Result<Vec<RunId>, CliError> {
    let Named { runs, pick, yes } = which;
    let is_filtered = is_filtered(&pick);
    if runs.is_empty() != is_filtered {
        let what = if is_filtered { "runs are named, and also described" } else { "no run is named" };
        return Err(CliError::usage(what).with_help(
            "name the runs, or describe them by options as for `runs list`: `--workflow`, `--label`, `--why` and so on",
        ));
    }
    if !is_filtered {
        let ids = runs.iter().map(|run| run_id(run)).collect::<Result<Vec<_>, _>>()?;
        // All are looked at before anything is done to any.
        for id in &ids {
            existing(engine, id).await?;
        }
        return Ok(ids);
    }
    let mut picked = Picked::of(pick)?;
    if picked.filter.statuses.is_empty() {
        picked.filter = picked.filter.statuses(otherwise.iter().copied());
    }
    let found = picked.runs(engine, usize::MAX).await?;
    let ids: Vec<_> = found.into_iter().map(|(run, _)| run.id).collect();
    if ids.is_empty() {
        return Err(CliError::new(Exit::NotFound, "no run fits"));
    }
    agree(session, &ids, verb, yes)?;
    Ok(ids)
}

/// Whether any option says which runs are meant.
pub(crate) fn is_filtered(pick: &Pick) -> bool {
    let Filter { status, open, workflow, version, label, id, queue, parent, since } = &pick.filter;
    let texts = [workflow, id, queue, parent].into_iter().any(Option::is_some);
    texts
        || *open
        || pick.stuck
        || !status.is_empty()
        || !label.is_empty()
        || !pick.why.is_empty()
        || version.is_some()
        || since.is_some()
}

/// Says how many runs it is about, and asks.
fn agree(session: &Session, ids: &[RunId], verb: &str, yes: bool) -> Result<(), CliError> {
    let names: Vec<_> = ids.iter().take(NAMED).map(RunId::as_str).collect();
    let more = if ids.len() > NAMED { ", .." } else { "" };
    let runs = if ids.len() == 1 { "run" } else { "runs" };
    let what = format!("{verb} {} {runs} ({}{more})", ids.len(), names.join(", "));
    if yes {
        session.screen.note(&what);
        return Ok(());
    }
    match session.screen.ask(&format!("{what}?"))? {
        Some(true) => Ok(()),
        Some(false) => Err(CliError::new(Exit::Failed, "nothing was done")),
        None => {
            Err(CliError::usage(format!("nobody is there to agree to this, so nothing was done: {what}"))
                .with_help("`runs list` with the same options shows them; `--yes` agrees"))
        }
    }
}
