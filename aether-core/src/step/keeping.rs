//! What a body's context does with contents: keeping them and reading them.
//!
//! Promise: a body finds what its own run keeps before it looks at what another one does.

use sha2::{Digest as _, Sha256};

use crate::step::contents::{Contents, NoContents};
use crate::step::context::StepCx;
use crate::vocabulary::id::RunId;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::hex;

impl StepCx {
    /// Keeps bytes of this run in the store, and returns their SHA-256, by which a recorded value names them: for effect
    /// crates, and for contents that are too large to be a value. Durable when it returns. Equal bytes are kept once. They
    /// stay until the run is purged, also where the body fails afterwards. A store that is locked or full is waited for,
    /// and that time counts neither in the body's timeout nor in that of its heartbeats.
    ///
    /// A fork of the run gets the contents that its values name in a list that is called `contents`.
    ///
    /// # Errors
    /// [`NoContents`] in a `pure` step, and when the body is over.
    pub async fn keep_content(&self, bytes: Vec<u8>) -> Result<String, NoContents> {
        let contents = self.contents()?;
        if self.is_over() {
            return Err(NoContents::Over);
        }
        let sha256 = hex(&Sha256::digest(&bytes));
        let _waits = self.store_waits().begin();
        contents.put(sha256.clone(), bytes).await;
        Ok(sha256)
    }

    /// The bytes that this run keeps under `sha256`, or else the run `keeper` does. `None` where neither has them: they were
    /// purged with it. They are checked by whoever reads them.
    ///
    /// # Errors
    /// [`NoContents`] in a `pure` step.
    pub async fn content(&self, keeper: &RunId, sha256: &str) -> Result<Option<Vec<u8>>, NoContents> {
        let contents = self.contents()?;
        let _waits = self.store_waits().begin();
        let own = contents.get(self.run_id().clone(), sha256.to_owned()).await;
        if own.is_some() || keeper == self.run_id() {
            return Ok(own);
        }
        Ok(contents.get(keeper.clone(), sha256.to_owned()).await)
    }

    /// Whether the engine replaces what must not be recorded. It does not look into contents.
    pub fn redacts(&self) -> bool {
        self.all_contents().redacts()
    }

    fn contents(&self) -> Result<&dyn Contents, NoContents> {
        if self.class() == EffectClass::Pure { Err(NoContents::Pure) } else { Ok(self.all_contents()) }
    }
}
