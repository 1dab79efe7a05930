//! Business keys: what an irreversible call is known by, and what becomes of a call whose key is taken.
//!
//! Promise: a call that is refused names the call that stands in its way; what a step does not take as an argument does
//! not make a call another one.

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
            // Of what the step takes, and nothing else: a model must not make a call new by an argument of its own.
            None => Digest::of(&self.ask_body(|body| body.canonical_args(&self.args))?)?.as_str().to_owned(),
        };
        Ok(Some(match self.options.scope {
            KeyScope::Run => format!("{}/{}:{key}", self.run.id, self.path),
            KeyScope::Store => format!("{STORE_WIDE}{}:{key}", self.path),
        }))
    }

    /// A crash came between the ledger's refusal and the step's end; who holds the key is looked up again.
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

    /// The business key belongs to another call: refused, for good.
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
