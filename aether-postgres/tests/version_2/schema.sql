-- The tables of version 2, as a build of that version made them. Never edited.
CREATE SCHEMA aether;
CREATE TABLE aether.blobs (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C",
    bytes bytea NOT NULL
);
CREATE TABLE aether.buckets (
    shard smallint NOT NULL,
    version bigint NOT NULL,
    away boolean NOT NULL,
    elsewhere text COLLATE pg_catalog."C"
);
CREATE TABLE aether.definitions (
    code text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL,
    version bigint NOT NULL,
    definition text NOT NULL,
    first_seen bigint NOT NULL
);
CREATE TABLE aether.due (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    wake_at bigint NOT NULL,
    code text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    notified boolean NOT NULL,
    queue text COLLATE pg_catalog."C",
    ready bigint,
    queue_key text COLLATE pg_catalog."C",
    begun boolean,
    rank bigint,
    place bigint
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');
CREATE TABLE aether.effects (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL,
    count bigint NOT NULL,
    events text NOT NULL,
    status smallint
);
CREATE TABLE aether.identity (
    one smallint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    home text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE aether.inbox (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    topic text NOT NULL COLLATE pg_catalog."C",
    payload text NOT NULL,
    at bigint NOT NULL,
    consumed bigint
)
WITH (fillfactor='70');
CREATE TABLE aether.journal (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    frame bigint NOT NULL,
    "position" bigint NOT NULL,
    count bigint NOT NULL,
    at bigint NOT NULL,
    epoch bigint NOT NULL,
    final boolean NOT NULL,
    events text NOT NULL,
    chain bytea NOT NULL
);
CREATE TABLE aether.keyed_starts (
    name text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    due_at bigint NOT NULL,
    record text NOT NULL,
    revision bigint NOT NULL
);
CREATE TABLE aether.labels (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C",
    place bigint NOT NULL,
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE aether.lanes (
    queue text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    "time" bigint NOT NULL,
    state smallint NOT NULL,
    begun boolean NOT NULL,
    until bigint
)
WITH (fillfactor='70');
CREATE TABLE aether.ledger (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    command text NOT NULL,
    invocation text NOT NULL,
    tool text NOT NULL,
    digest text NOT NULL,
    business_key text COLLATE pg_catalog."C",
    store_wide boolean NOT NULL,
    status smallint NOT NULL,
    result text,
    error text,
    committed boolean NOT NULL,
    epoch bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint
)
WITH (fillfactor='50');
CREATE TABLE aether.limits (
    pattern text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL,
    per bigint
);
CREATE TABLE aether.lost (
    worker text NOT NULL COLLATE pg_catalog."C",
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL
);
CREATE TABLE aether.notices (
    shard smallint NOT NULL,
    child text NOT NULL COLLATE pg_catalog."C",
    parent text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_cost_delay='0');
CREATE TABLE aether.parcels (
    shard smallint NOT NULL,
    version bigint NOT NULL,
    part text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL,
    line text NOT NULL
);
CREATE TABLE aether.placement (
    shard smallint NOT NULL,
    database text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    target text COLLATE pg_catalog."C",
    touched_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE aether.progress (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    command text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE aether.queues (
    queue text NOT NULL COLLATE pg_catalog."C",
    "time" bigint NOT NULL,
    served bigint NOT NULL,
    looked text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='50');
CREATE TABLE aether.reservations (
    shard smallint NOT NULL,
    business_key text NOT NULL COLLATE pg_catalog."C",
    run text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    at bigint NOT NULL,
    sealed text
);
CREATE TABLE aether.runs (
    shard smallint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    place bigint NOT NULL,
    workflow text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    code text NOT NULL COLLATE pg_catalog."C",
    parked boolean NOT NULL,
    status smallint NOT NULL,
    digest text NOT NULL,
    parent text COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    ended_at bigint,
    labels text NOT NULL,
    traceparent text,
    epoch bigint NOT NULL,
    owner text COLLATE pg_catalog."C",
    ending bigint,
    terms text,
    queue text COLLATE pg_catalog."C",
    queue_key text COLLATE pg_catalog."C",
    rank bigint,
    begun boolean DEFAULT false NOT NULL,
    slot boolean DEFAULT false NOT NULL,
    started_at bigint,
    lapses_at bigint
)
WITH (fillfactor='70');
CREATE TABLE aether.schedules (
    name text NOT NULL COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    due_at bigint,
    record text NOT NULL
);
CREATE TABLE aether.schema_version (
    one smallint NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE aether.snapshots (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    state text NOT NULL
);
CREATE TABLE aether.starts (
    counter text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE aether.waits (
    shard smallint NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    command text NOT NULL COLLATE pg_catalog."C",
    place bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    until bigint,
    site text,
    detail text NOT NULL
);
CREATE TABLE aether.worker_codes (
    worker text NOT NULL COLLATE pg_catalog."C",
    code text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE aether.workers (
    id text NOT NULL COLLATE pg_catalog."C",
    renewals bigint NOT NULL,
    lease bigint,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    serves text,
    backend integer,
    backend_start timestamp with time zone
)
WITH (fillfactor='50');
ALTER TABLE ONLY aether.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (shard, run, hash);
ALTER TABLE ONLY aether.buckets
    ADD CONSTRAINT buckets_pkey PRIMARY KEY (shard);
ALTER TABLE ONLY aether.definitions
    ADD CONSTRAINT definitions_pkey PRIMARY KEY (code);
ALTER TABLE ONLY aether.due
    ADD CONSTRAINT due_pkey PRIMARY KEY (shard, run);
ALTER TABLE ONLY aether.effects
    ADD CONSTRAINT effects_pkey PRIMARY KEY (shard, run, key);
ALTER TABLE ONLY aether.identity
    ADD CONSTRAINT identity_pkey PRIMARY KEY (one);
ALTER TABLE ONLY aether.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (shard, run, seq);
ALTER TABLE ONLY aether.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (shard, run, frame);
ALTER TABLE ONLY aether.keyed_starts
    ADD CONSTRAINT keyed_starts_pkey PRIMARY KEY (name);
ALTER TABLE ONLY aether.labels
    ADD CONSTRAINT labels_pkey PRIMARY KEY (key, value, place, shard, run);
ALTER TABLE ONLY aether.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (queue, key);
ALTER TABLE ONLY aether.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (shard, run, key);
ALTER TABLE ONLY aether.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (pattern, kind);
ALTER TABLE ONLY aether.lost
    ADD CONSTRAINT lost_pkey PRIMARY KEY (worker, shard, run, epoch);
ALTER TABLE ONLY aether.notices
    ADD CONSTRAINT notices_pkey PRIMARY KEY (shard, child);
ALTER TABLE ONLY aether.parcels
    ADD CONSTRAINT parcels_pkey PRIMARY KEY (shard, version, part, n);
ALTER TABLE ONLY aether.placement
    ADD CONSTRAINT placement_pkey PRIMARY KEY (shard);
ALTER TABLE ONLY aether.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (shard, run, command);
ALTER TABLE ONLY aether.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue);
ALTER TABLE ONLY aether.reservations
    ADD CONSTRAINT reservations_pkey PRIMARY KEY (shard, business_key);
ALTER TABLE ONLY aether.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (shard, id);
ALTER TABLE ONLY aether.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (name);
ALTER TABLE ONLY aether.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (one);
ALTER TABLE ONLY aether.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (shard, run);
ALTER TABLE ONLY aether.starts
    ADD CONSTRAINT starts_pkey PRIMARY KEY (counter, seq);
ALTER TABLE ONLY aether.waits
    ADD CONSTRAINT waits_pkey PRIMARY KEY (shard, run, command);
ALTER TABLE ONLY aether.worker_codes
    ADD CONSTRAINT worker_codes_pkey PRIMARY KEY (worker, code);
ALTER TABLE ONLY aether.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);
CREATE INDEX due_next ON aether.due USING btree (code, wake_at) WHERE (queue IS NULL);
CREATE INDEX due_queued ON aether.due USING btree (code, wake_at) WHERE (queue IS NOT NULL);
CREATE INDEX due_ready ON aether.due USING btree (queue, queue_key, begun, code, rank, place) WHERE (ready IS NOT NULL);
CREATE INDEX due_unready ON aether.due USING btree (queue, wake_at) WHERE ((queue IS NOT NULL) AND (ready IS NULL));
CREATE UNIQUE INDEX inbox_id ON aether.inbox USING btree (shard, run, id);
CREATE INDEX inbox_unread ON aether.inbox USING btree (shard, run, seq) WHERE (consumed IS NULL);
CREATE INDEX keyed_starts_due ON aether.keyed_starts USING btree (workflow, due_at, name);
CREATE INDEX labels_run ON aether.labels USING btree (shard, run);
CREATE INDEX lanes_active ON aether.lanes USING btree (queue, "time", key) WHERE (state = 0);
CREATE INDEX lanes_aside ON aether.lanes USING btree (queue, until) WHERE (state = 2);
CREATE INDEX lanes_begun ON aether.lanes USING btree (queue, "time", key) WHERE ((state = 0) AND begun);
CREATE INDEX lanes_idle ON aether.lanes USING btree (queue, "time") WHERE (state = 1);
CREATE UNIQUE INDEX ledger_business ON aether.ledger USING btree (shard, run, business_key) WHERE ((business_key IS NOT NULL) AND (NOT store_wide));
CREATE INDEX limits_queue ON aether.limits USING btree (queue, kind);
CREATE INDEX lost_run ON aether.lost USING btree (shard, run);
CREATE INDEX queues_served ON aether.queues USING btree (served);
CREATE INDEX runs_created ON aether.runs USING btree (created_at);
CREATE INDEX runs_lapses ON aether.runs USING btree (code, lapses_at) WHERE ((lapses_at IS NOT NULL) AND (owner IS NULL));
CREATE INDEX runs_open ON aether.runs USING btree (code, place) WHERE (status < 3);
CREATE INDEX runs_owner ON aether.runs USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX runs_parent ON aether.runs USING btree (parent, place) WHERE (parent IS NOT NULL);
CREATE INDEX runs_parked ON aether.runs USING btree (place) WHERE parked;
CREATE UNIQUE INDEX runs_place ON aether.runs USING btree (place);
CREATE INDEX runs_queue ON aether.runs USING btree (queue, place) WHERE (queue IS NOT NULL);
CREATE INDEX runs_queue_open ON aether.runs USING btree (queue, queue_key) WHERE ((queue IS NOT NULL) AND (status < 3));
CREATE INDEX runs_slots ON aether.runs USING btree (queue, queue_key) WHERE (slot AND (owner IS NOT NULL));
CREATE INDEX runs_status ON aether.runs USING btree (status, place);
CREATE INDEX runs_workflow ON aether.runs USING btree (workflow, status, place);
CREATE INDEX schedules_due ON aether.schedules USING btree (due_at, name) WHERE (due_at IS NOT NULL);
CREATE INDEX starts_at ON aether.starts USING btree (at);
CREATE INDEX waits_kind ON aether.waits USING btree (kind, place);
CREATE UNIQUE INDEX waits_place ON aether.waits USING btree (place);
