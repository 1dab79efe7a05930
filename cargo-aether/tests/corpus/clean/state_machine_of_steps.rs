//! A plan in a helper that decides which steps are called
//! how: clean

use std::collections::{HashMap, VecDeque};

use aether::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Draft,
    Review,
    Done,
}

impl Stage {
    const ALL: [Self; 3] = [Self::Draft, Self::Review, Self::Done];
}

struct Plan {
    open: VecDeque<Stage>,
    visits: HashMap<Stage, u32>,
}

impl Plan {
    fn new() -> Self {
        Self { open: VecDeque::from([Stage::Draft]), visits: HashMap::new() }
    }

    fn next(&mut self, score: u64) -> Option<Stage> {
        let stage = self.open.pop_front()?;
        let visits = self.visits.entry(stage).and_modify(|n| *n += 1).or_insert(1);
        match stage {
            Stage::Draft => self.open.push_back(Stage::Review),
            Stage::Review if score % 3 == 0 && *visits < 3 => self.open.push_back(Stage::Draft),
            Stage::Review => self.open.push_back(Stage::Done),
            Stage::Done => {}
        }
        Some(stage)
    }
}

#[step(effect = "read")]
pub async fn state_machine_of_steps_score(_cx: &mut StepCx, stage: &str) -> Result<u64> {
    Ok(stage.len() as u64)
}

#[workflow]
pub async fn state_machine_of_steps(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut plan = Plan::new();
    let mut score = cx.random().await;
    while let Some(stage) = plan.next(score) {
        score ^= state_machine_of_steps_score(cx, &format!("{stage:?}")).await?;
    }
    Ok(Stage::ALL.map(|stage| plan.visits.get(&stage).copied().unwrap_or(0).to_string()).join("-"))
}
