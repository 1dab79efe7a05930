//! Approval that an agent asks for, beyond what the step of a tool declares.
//!
//! Promise: it can require approval and never waives what the step declares; a rule that panics requires it.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::definition::def::Approval;
use crate::step::body::{Body, BodyError, BodyResult, Estimating, ProbeResult, Undo};
use crate::step::context::StepCx;
use crate::vocabulary::budget::{Spend, Spent};
use crate::vocabulary::payload::{Payload, PayloadError};

/// Says of arguments whether a call with them needs approval.
pub(crate) type ApprovalRule = Arc<dyn Fn(&Payload) -> bool + Send + Sync>;

/// A body with a rule of its own. All else is the body's.
pub(crate) struct RuledBody {
    pub(crate) body: Arc<dyn Body>,
    /// What the step itself declares.
    pub(crate) declared: Approval,
    pub(crate) rule: ApprovalRule,
}

impl Body for RuledBody {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        self.body.call(cx, args)
    }

    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        self.body.check(args)
    }

    fn business_key(&self, args: &Payload) -> Result<Option<String>, PayloadError> {
        self.body.business_key(args)
    }

    fn canonical_args(&self, args: &Payload) -> Result<Payload, PayloadError> {
        self.body.canonical_args(args)
    }

    fn needs_approval(&self, args: &Payload) -> Result<bool, PayloadError> {
        let declared = match self.declared {
            Approval::Never => false,
            Approval::Required => true,
            Approval::ByArguments => self.body.needs_approval(args)?,
        };
        Ok(declared || (self.rule)(args))
    }

    fn compensation(&self, args: &Payload, output: Option<&Payload>) -> Result<Option<Undo>, PayloadError> {
        self.body.compensation(args, output)
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        self.body.accepts(value)
    }

    fn failure(&self, error: &Payload) -> Result<BodyError, PayloadError> {
        self.body.failure(error)
    }

    fn estimate(&self, args: &Payload, facts: &Estimating<'_>) -> Result<Spend, String> {
        self.body.estimate(args, facts)
    }

    fn counts(&self) -> bool {
        self.body.counts()
    }

    fn spent(&self, value: &Payload) -> Option<Spent> {
        self.body.spent(value)
    }

    fn probe(&self, cx: StepCx, args: &Payload) -> Option<BoxFuture<'static, ProbeResult>> {
        self.body.probe(cx, args)
    }
}
