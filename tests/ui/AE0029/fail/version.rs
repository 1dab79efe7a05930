use aether::prelude::*;

#[workflow(of = "triage")]
async fn without_a_number(_cx: &mut Cx, ticket: String) -> Result<String> {
    Ok(ticket)
}

#[workflow(of = "triage", version = 2, name = "triage-2")]
async fn with_a_name(_cx: &mut Cx, ticket: String) -> Result<String> {
    Ok(ticket)
}

fn main() {}
