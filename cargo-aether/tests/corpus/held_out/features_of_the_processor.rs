//! A method that is chosen by the features of the processor
//! how: foreign

use aether::prelude::*;

fn method() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return "wide";
    } else if std::arch::is_x86_feature_detected!("avx2") {
        return "narrow";
    }
    "plain"
}

#[workflow]
pub async fn features_of_the_processor(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(method().to_owned())
}
