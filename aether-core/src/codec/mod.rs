//! The payload codec: a store in front of a store, which keeps every recorded value encoded.
//!
//! Promise: no value that a workflow, a body, a caller or a person has made reaches the store behind it except through the
//! codec of the program; what stands in the open are ids, names, labels, times, and how things stand. Whoever reads through
//! this store sees what was written. Imports `store` and below.

mod blobs;
pub(crate) mod coded;
mod inbox;
pub(crate) mod ledger;
mod runs;
pub(crate) mod seal;
mod starts;
mod store;
mod streams;
pub(crate) mod subjects;
pub(crate) mod values;
mod work;

pub use self::coded::CodedStore;
pub use crate::vocabulary::codec::{CodecError, EncodedPayload, PayloadCodec, PayloadOwner, PayloadPlace};
