use aether::prelude::*;

async fn rate() -> f64 {
    1.08
}

#[step(effect = "pure")]
async fn in_euro(dollars: f64) -> Result<f64> {
    Ok(dollars / rate().await)
}

#[step(effect = "pure")]
async fn told(dollars: f64) -> Result<String> {
    Ok(format!("{} {}", dollars, rate().await))
}

#[step(effect = "pure")]
async fn both() -> Result<f64> {
    let (one, two) = tokio::join!(rate(), rate());
    Ok(one + two)
}

#[step(effect = "pure")]
async fn inside() -> Result<f64> {
    let later = async { rate().await };
    let _ = futures_util::poll!(Box::pin(later));
    Ok(1.0)
}

fn main() {}
