//! Several databases behind one store: which of them has a run, and how that is found out again after a move.
//!
//! Promise: a database answers for a bucket only while it has it. Each knows that itself, in its table `buckets`; the map of
//! all buckets, in the first database, only says where to ask first. An answer that could also mean that the bucket is
//! somewhere else is not believed before `buckets` was looked at.
//!
//! * `map`: the map as this process knows it
//! * `shared`: the databases of a store
//! * `search`: asking the database of a run, and asking again
//! * `join`: databases become part of a store
//! * `keeper`: reads the map again, and completes moves that nobody completes
//! * `births`: runs that are being created
//! * `family`: children whose parents may be in another database
//! * `leases`: workers and their claims in several databases
//! * `leaving`: what a writer does with appends of a bucket that is gone

pub(crate) mod births;
pub(crate) mod family;
pub(crate) mod join;
pub(crate) mod keeper;
pub(crate) mod leases;
pub(crate) mod leaving;
pub(crate) mod map;
pub(crate) mod search;
pub(crate) mod shared;

/// Tables that say which buckets a database has; the last ones are used in the first database alone.
///
/// `buckets` is empty in a store of one database: it costs nothing to look there. A row says since which move, by number,
/// the bucket is here or not. `parcels` holds the rows of a bucket that is on its way to another database.
pub(crate) const TABLES: &str = r#"
ALTER TABLE workers ADD COLUMN serves text;

CREATE TABLE identity(
    one  int2 NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    home text COLLATE "C" NOT NULL
);

CREATE TABLE buckets(
    shard     int2 NOT NULL PRIMARY KEY,
    version   int8 NOT NULL,
    away      bool NOT NULL,
    elsewhere text COLLATE "C"
);

CREATE TABLE parcels(
    shard   int2 NOT NULL,
    version int8 NOT NULL,
    part    text COLLATE "C" NOT NULL,
    n       int8 NOT NULL,
    line    text NOT NULL,
    PRIMARY KEY(shard, version, part, n)
);

CREATE TABLE placement(
    shard      int2 NOT NULL PRIMARY KEY,
    database   text COLLATE "C" NOT NULL,
    version    int8 NOT NULL,
    target     text COLLATE "C",
    touched_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE workers ADD COLUMN backend int4;
ALTER TABLE workers ADD COLUMN backend_start timestamptz;
"#;
