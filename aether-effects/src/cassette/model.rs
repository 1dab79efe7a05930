//! A client for models behind a cassette.

use aether_core::payload::{Payload, PayloadError};
use futures_util::future::BoxFuture;

use super::interaction::CallKind;
use super::player::Cassette;
use crate::model::chat::{ChatRequest, ChatResponse};
use crate::model::client::ModelClient;
use crate::model::error::ModelError;

/// A client for models behind a cassette; see [`Cassette::model`].
#[derive(Clone, Debug)]
pub struct CassetteModel<C> {
    cassette: Cassette,
    client: C,
}

impl Cassette {
    /// `client` with this cassette in front of it.
    pub fn model<C: ModelClient>(&self, client: C) -> CassetteModel<C> {
        CassetteModel { cassette: self.clone(), client }
    }
}

impl<C: ModelClient> CassetteModel<C> {
    async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let unusable = |error: PayloadError| ModelError::Setup(error.to_string());
        let asked = Payload::encode(&request).map_err(unusable)?;
        match self.cassette.answer(CallKind::Model, &asked) {
            Ok(Some(answer)) => answer.decode().map_err(unusable),
            Ok(None) => {
                let answer = self.client.chat(request).await?;
                self.cassette.keep(CallKind::Model, &asked, &Payload::encode(&answer).map_err(unusable)?);
                Ok(answer)
            }
            Err(refusal) => Err(ModelError::NotRecorded { refusal }),
        }
    }
}

impl<C: ModelClient> ModelClient for CassetteModel<C> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        Box::pin(self.ask(request))
    }
}
