//! The chain on restate: `INGRESS,ADMIN` URLs of a server that runs. The service with the steps is in this process.

#[path = "../../lanes.rs"]
mod lanes;

use bytes::Bytes;
use restate_sdk::ingress::{Client, RequestExecutor};
use restate_sdk::prelude::*;
use serde_json::json;

struct Chains;

#[service]
impl Chains {
    #[handler]
    async fn chain(&self, ctx: Context<'_>, steps: u32) -> HandlerResult<u64> {
        let mut length = 0;
        for number in 0..steps {
            let sent = ctx.run(|| async move { Ok(lanes::result_of(number)) }).name("send").await?;
            length += sent.len() as u64;
        }
        Ok(length)
    }
}

/// The client of requests, without TLS.
struct Plain(reqwest::Client);

impl RequestExecutor for Plain {
    type Error = reqwest::Error;

    async fn execute(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, reqwest::Error> {
        let reply = self.0.execute(request.try_into()?).await?;
        let (status, headers) = (reply.status(), reply.headers().clone());
        let mut response = http::Response::new(reply.bytes().await?);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Serves the steps, and tells the server where.
async fn serve(admin: &str) -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}", listener.local_addr()?);
    tokio::spawn(HttpServer::new(Endpoint::builder().bind(Chains).build()).serve(listener));
    let deployment = json!({ "uri": uri, "force": true });
    let told = reqwest::Client::new().post(format!("{admin}/deployments")).json(&deployment).send().await?;
    told.error_for_status()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let asked = lanes::Chain::parse()?;
    let (ingress, admin) = asked.at.split_once(',').ok_or("--at is not INGRESS,ADMIN")?;
    serve(admin).await.map_err(|e| e.to_string())?;
    let uri = ingress.parse().map_err(|_| format!("{ingress} is no URL"))?;
    let client = Client::new(uri, Plain(reqwest::Client::new())).map_err(|e| e.to_string())?;
    let steps = asked.steps;
    let one = move |id: String| {
        let chains = ChainsIngressClient::from_client(client.clone());
        async move {
            let reply = chains.chain(steps).idempotency_key(id).call().await.map_err(|e| e.to_string())?;
            let length = reply.into_body().map_err(|e| e.to_string())?;
            usize::try_from(length).map_err(|e| e.to_string())
        }
    };
    asked.measure(one, json!({ "peer": "restate-sdk 0.13.0" })).await
}
