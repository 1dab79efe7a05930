use aether::prelude::*;

#[workflow(of = triage, version = 2)]
async fn a_path(_cx: &mut Cx) -> Result<()> {
    Ok(())
}

#[workflow(of = "crate::flows::triage", version = 2)]
async fn a_relative_path(_cx: &mut Cx) -> Result<()> {
    Ok(())
}

#[workflow(of = "the triage", version = 2)]
async fn no_name(_cx: &mut Cx) -> Result<()> {
    Ok(())
}

#[workflow(of = "triage", version = 0)]
async fn no_number(_cx: &mut Cx) -> Result<()> {
    Ok(())
}

fn main() {}
