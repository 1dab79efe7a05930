//! Business keys: the identity of an irreversible call, and the refusal of a call whose key is taken.
//!
//! Promise: a refused call names the call that holds the key; only what the step takes as arguments distinguishes calls.

use crate::definition::def::KeyScope;
use crate::perform::call::StepCall;
use crate::store::ledger::{LedgerEntry, STORE_WIDE};
use crate::vocabulary::failure::{KeyHolder, StepError};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Answered, Digest, PayloadError};

impl StepCall {
    /// Irreversible steps hold a business key: their own, or tool and argument digest; within the run or the store.
    pub(crate) fn business_key(&self) -> Result<Option<String>, PayloadError> {
        if !self.options.irreversible {
            return Ok(None);
        }
        let key = match self.ask_body(|body| body.business_key(&self.args))? {
            Some(key) => key,
            // Only of the arguments that the step takes: a model must not get a new key by inventing an argument.
            None => Digest::of(&self.ask_body(|body| body.canonical_args(&self.args))?)?.as_str().to_owned(),
        };
        Ok(Some(match self.options.scope {
            KeyScope::Run => format!("{}/{}:{key}", self.run.id, self.path),
            KeyScope::Store => format!("{STORE_WIDE}{}:{key}", self.path),
        }))
    }

    /// Completes a refusal that a crash interrupted. The journal does not name the holder, so it is looked up again.
    pub(crate) async fn refused_before(&mut self) -> Answered {
        let holder = match self.business_key() {
            Ok(Some(key)) => {
                let _in_flight = self.run.in_flight();
                match self.run.shared.store.holder(&key).await {
                    Ok(holder) => holder,
                    Err(error) => return self.run.stop(error).await,
                }
            }
            Ok(None) | Err(_) => None,
        };
        self.refuse(holder).await
    }

    /// Refuses the call for good, because its business key belongs to another call.
    pub(crate) async fn refuse(&mut self, holder: Option<LedgerEntry>) -> Answered {
        let holder = holder.map(|row| {
            let in_doubt = !row.committed;
            KeyHolder { step: self.name.to_string(), run: row.run, command: row.command, in_doubt }
        });
        let error = match holder {
            Some(holder) => StepError::Taken(holder),
            None => {
                let reason = format!(
                    "irreversible step `{}` was called before with the same business key; that call has failed since",
                    self.name
                );
                StepError::Rejected(self.run.failure(&self.command, reason))
            }
        };
        self.commit_failure(Outcome::PermanentFailure, &error, None).await
    }
}
