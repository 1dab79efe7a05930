//! A client for models behind a cassette.

use aether_core::payload::{Payload, PayloadError};
use futures_util::future::BoxFuture;

use super::interaction::CallKind;
use super::player::Cassette;
use crate::model::chat::{ChatRequest, ChatResponse};
use crate::model::client::{ModelClient, OnText};
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
    /// Asks `client` with `ask` what is not on the cassette; says whether it was asked.
    async fn ask<'a>(
        &'a self,
        request: ChatRequest,
        ask: impl FnOnce(&'a C, ChatRequest) -> BoxFuture<'a, Result<ChatResponse, ModelError>>,
    ) -> Result<(ChatResponse, bool), ModelError> {
        let unusable = |error: PayloadError| ModelError::Setup(error.to_string());
        let asked = Payload::encode(&request).map_err(unusable)?;
        match self.cassette.answer(CallKind::Model, &asked) {
            Ok(Some(answer)) => Ok((answer.decode().map_err(unusable)?, false)),
            Ok(None) => {
                let answer = ask(&self.client, request).await?;
                self.cassette.keep(CallKind::Model, &asked, &Payload::encode(&answer).map_err(unusable)?);
                Ok((answer, true))
            }
            Err(refusal) => Err(ModelError::NotRecorded { refusal }),
        }
    }
}

impl<C: ModelClient> ModelClient for CassetteModel<C> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        Box::pin(async move { Ok(self.ask(request, |client, request| client.chat(request)).await?.0) })
    }

    /// What is played back is told as one piece.
    fn chat_streamed<'a>(
        &'a self,
        request: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<ChatResponse, ModelError>> {
        Box::pin(async move {
            let ask = move |client: &'a C, request| client.chat_streamed(request, on_text);
            let (answer, was_asked) = self.ask(request, ask).await?;
            answer.content.iter().filter(|_| !was_asked).for_each(|text| on_text(text));
            Ok(answer)
        })
    }

    fn model(&self) -> Option<&str> {
        self.client.model()
    }
}
