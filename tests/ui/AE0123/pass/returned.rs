#![deny(warnings)]

use std::time::Duration;

use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<Vec<String>> {
    let _ = cx;
    Ok(vec![place.to_owned()])
}

#[workflow]
async fn child(_cx: &mut Cx, n: u64) -> Result<u64> {
    Ok(n)
}

#[workflow]
async fn returned(cx: &mut Cx, places: Vec<String>) -> Result<usize> {
    let mut seen = Vec::new();
    let found = cx
        .race((
            async |cx: &mut Cx| {
                let mut found = Vec::new();
                for place in &places {
                    found.extend(look(cx, place).await?);
                }
                found.sort();
                Ok::<_, Failure>(Some(found))
            },
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(30)).await;
                Ok(None)
            },
        ))
        .await?;
    seen.extend(found.unwrap_or_default());
    Ok(seen.len())
}

#[workflow]
async fn moved(cx: &mut Cx, mut place: String) -> Result<u64> {
    place.push('!');
    let started = cx.start_child::<child>(7).await?;
    cx.race((
        async move |cx: &mut Cx| {
            place.push('?');
            look(cx, &place).await.map(|found| found.len() as u64).map_err(Failure::from)
        },
        async |cx: &mut Cx| started.result(cx).await.map_err(Failure::from),
    ))
    .await
}

struct Catalog(Vec<String>);

impl Catalog {
    fn fetch_plan(&self, at: usize) -> &str {
        self.0.get(at).map_or("", String::as_str)
    }
}

#[workflow]
async fn planned(cx: &mut Cx, names: Vec<String>) -> Result<usize> {
    let catalog = Catalog(names);
    let quick = async |cx: &mut Cx| look(cx, catalog.fetch_plan(0)).await;
    let found = cx.race((quick, async |cx: &mut Cx| look(cx, catalog.fetch_plan(1)).await)).await?;
    Ok(found.len())
}

fn main() {}
