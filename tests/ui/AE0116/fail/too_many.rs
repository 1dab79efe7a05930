use aether::prelude::*;

// 16 * 16 * 16 * 16 awaits.
macro_rules! sixteen_times {
    ([$($done:tt)*]) => { flow! { $($done)* } };
    ([$($done:tt)*] $next:tt $($more:tt)*) => {
        sixteen_times! { [
            $($done)* $($done)* $($done)* $($done)* $($done)* $($done)* $($done)* $($done)*
            $($done)* $($done)* $($done)* $($done)* $($done)* $($done)* $($done)* $($done)*
        ] $($more)* }
    };
}

macro_rules! flow {
    ($($statements:tt)*) => {
        #[workflow]
        async fn flow(cx: &mut Cx) -> Result<()> {
            $($statements)*
            Ok(())
        }
    };
}

sixteen_times! { [f().await;] 1 2 3 4 }

fn main() {}
