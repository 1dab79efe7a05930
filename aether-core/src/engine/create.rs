//! How a run comes to be.
//!
//! Promise: a caller that goes away between the creation and its answer leaves no run that this worker owns and does
//! not advance.

use std::sync::Arc;

use tokio::sync::OwnedRwLockReadGuard;

use crate::engine::advance::launch::launch_run;
use crate::engine::advance::load::Launch;
use crate::engine::inner::{Inner, now, whole};
use crate::journal::event::RunCreated;
use crate::journal::frame::Frame;
use crate::journal::history::History;
use crate::journal::large_values::{LargeValue, large};
use crate::journal::obligations::Obligations;
use crate::policy::replay::Mode;
use crate::run::claim::Origin;
use crate::run::program::RegisteredWorkflow;
use crate::store::api::{Created, NewRun};
use crate::store::error::StoreError;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::{Digest, Payload, PayloadError, hex};

/// A run to be created.
pub(crate) struct NewRunOf {
    pub(super) workflow: RegisteredWorkflow,
    pub(super) id: RunId,
    pub(super) input: Payload,
    pub(super) parent: Option<RunId>,
    /// Whether the run's id was made for it, so that no other run can have it.
    pub(super) unique: bool,
}

/// Creates a run in a task of its own: a caller that goes away between the creation and its answer must not leave a
/// run that this worker holds and does not advance. `held` is let go when the run exists.
pub(crate) async fn create_whole(
    inner: &Arc<Inner>,
    new: NewRunOf,
    held: Option<OwnedRwLockReadGuard<()>>,
) -> Result<Created, StoreError> {
    if new.unique {
        return create(inner, new).await;
    }
    let engine = Arc::clone(inner);
    let creation = async move {
        let _held = held;
        create(&engine, new).await
    };
    whole(inner, creation).await
}

/// Creates a run and begins to advance it, unless its id is taken.
async fn create(inner: &Arc<Inner>, new: NewRunOf) -> Result<Created, StoreError> {
    let NewRunOf { workflow, id, input, parent, unique } = new;
    let def = workflow.def;
    let shared = &inner.shared;
    let mut seed = [0; 16];
    shared.environment.fill_random(&mut seed);
    let seed = hex(&seed);
    let corrupt = |error: PayloadError| StoreError::Unencodable {
        what: format!("the input of run `{id}`"),
        reason: error.to_string(),
    };
    let digest = Digest::of(&input).map_err(corrupt)?;
    let created = RunCreated {
        workflow: def.name.into(),
        module: def.module.into(),
        version: def.version,
        fingerprint: def.fingerprint.into(),
        input: input.clone(),
        digest: digest.clone(),
        seed: seed.clone(),
        parent: parent.clone(),
    };
    let at = now(inner);
    let created: crate::journal::event::Event = created.into();
    let events = std::slice::from_ref(&created);
    let kept = large(events, shared.limits.inline);
    for LargeValue { value, at } in &kept {
        shared.store.put_blob(&at.sha256, value.as_str().into()).await?;
    }
    let frame = Frame::referring(events, &kept).map_err(corrupt)?;
    let creation = shared.store.create(NewRun {
        id: id.clone(),
        workflow: def.name.into(),
        version: def.version,
        digest,
        parent: parent.clone(),
        frame,
        at,
        owner: Some(shared.worker.clone()),
        lease_until: later(at, inner.settings.lease),
    });
    let launch = || {
        let origin = Origin {
            id,
            def: workflow.def,
            epoch: 1,
            mode: Mode::Recover,
            seed,
            next: 1,
            history: History::default(),
            obligations: Obligations::default(),
            inbox: Vec::new(),
            effects: Vec::new(),
        };
        shared.observe(&origin.id, at, vec![created]);
        launch_run(inner, Launch { origin, workflow, input, parent, unwinding: None });
    };
    if unique {
        // Nobody else can have the id: the run begins while its first event is on its way to the disk. What leaves the
        // run waits for that event too, because a store keeps the order of appends.
        launch();
        return creation.await;
    }
    let answer = creation.await?;
    if answer == Created::New {
        launch();
    }
    Ok(answer)
}
