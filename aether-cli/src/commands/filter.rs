//! Which runs: from arguments to the filter of the store.

use aether_core::store::RunFilter;

use crate::args::Filter;
use crate::error::CliError;
use crate::session::run_id;

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
