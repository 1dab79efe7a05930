//! Plays one sin under the trap, or in two worlds, and prints what was noticed.

use aether::definition::Workflow;
use aether_testing::{Sim, SimError, Trap};

fn sim<W: Workflow<Input = u64>>() -> Sim<W> {
    Sim::new::<W>()
        .stub::<kit::count>(|words| Ok((0..words).map(|n| (format!("w{n}"), n)).collect()))
        .stub::<kit::weigh>(|word| Ok(word.len() as u64))
        .real::<kit::seed>()
}

/// Prints what caught the sin, or nothing.
pub fn play<W: Workflow<Input = u64>>(how: &str) {
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("{error}"),
    };
    let end = runtime.block_on(async {
        match how {
            "trap" => sim::<W>().try_run(0).await.map(|_report| ()),
            _ => sim::<W>().trap(Trap::off()).try_check_deterministic(0).await.map(|_report| ()),
        }
    });
    match end {
        Ok(()) => {}
        Err(SimError::Trapped(hit)) => println!("{:?}", hit.kind),
        Err(SimError::Nondeterministic { between, .. }) => println!("{between:?}"),
        Err(other) => panic!("{other}"),
    }
}
