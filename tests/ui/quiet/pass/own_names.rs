#![deny(warnings)]
//! Types and modules of one's own that have the name of something that no replay repeats.

use aether::prelude::*;

use self::own::{Barrier, Command, Local, Notify, Semaphore, Timer, dirs, fs, glob, redis, task};

#[workflow]
async fn flow(cx: &mut Cx, names: Vec<String>) -> Result<u64> {
    let command = Command::Start.cost();
    let notify = [Notify::Email, Notify::Letter];
    let timer = Timer::after(3);
    let at = Local::now(timer);
    let next = task::next(&names);
    let price = redis::price(cx, 3).await?;
    let kept = fs::write(cx, price).await?;
    let found = glob::matches(&names) + dirs::of(&names) + fs::normalize(&names) + redis::slots();
    let open = matches!((Barrier::Toll, Semaphore::Green), (Barrier::Toll, Semaphore::Green));
    Ok(command + notify.len() as u64 + timer + at + next as u64 + kept + found as u64 + u64::from(open))
}

mod own {
    pub enum Command {
        Start,
    }
    impl Command {
        pub fn cost(self) -> u64 {
            3
        }
    }
    pub enum Notify {
        Email,
        Letter,
    }
    pub enum Barrier {
        Toll,
    }
    pub enum Semaphore {
        Green,
    }
    pub struct Timer;
    impl Timer {
        pub fn after(days: u64) -> u64 {
            days
        }
    }
    pub struct Local;
    impl Local {
        pub fn now(of: u64) -> u64 {
            of
        }
    }
    pub mod task {
        pub fn next(of: &[String]) -> usize {
            of.len()
        }
    }
    pub mod redis {
        use aether::prelude::*;

        #[step(effect = "read")]
        pub async fn price(_cx: &mut StepCx, article: u64) -> Result<u64> {
            Ok(article)
        }
        pub fn slots() -> usize {
            16
        }
    }
    pub mod fs {
        use aether::prelude::*;

        #[step(effect = "tool")]
        pub async fn write(_cx: &mut StepCx, price: u64) -> Result<u64> {
            Ok(price)
        }
        pub fn normalize(of: &[String]) -> usize {
            of.len()
        }
    }
    pub mod dirs {
        pub fn of(of: &[String]) -> usize {
            of.len()
        }
    }
    pub mod glob {
        pub fn matches(of: &[String]) -> usize {
            of.len()
        }
    }
}

fn main() {}
