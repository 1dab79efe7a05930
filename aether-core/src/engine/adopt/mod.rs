//! Open runs under other code than recorded them: tried, adopted, or parked until there is code that they fit.
//!
//! Promise: nothing live happens in a run before its code was seen to fit all that is recorded; a run that does not fit is
//! parked durably and resumed without a command; none fails and nothing is done twice because of other code.

pub(crate) mod adopter;
pub(crate) mod check;
mod choice;
pub(crate) mod known;
pub(crate) mod park;
pub(crate) mod parked;
pub(crate) mod report;
pub(crate) mod trial;
pub(crate) mod unfit;
