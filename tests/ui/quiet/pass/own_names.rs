//! Types and modules of one's own that have the name of something that no replay repeats.

#![deny(warnings)]

use aether::prelude::*;

use crate::own::{Barrier, Command, Local, Notify, ObjectId, Semaphore, Timer, dirs, fs, glob, redis, task, time};

#[workflow]
async fn flow(cx: &mut Cx, names: Vec<String>) -> Result<u64> {
    let command = Command::new("start");
    let notify = [Notify::Email, Notify::Letter];
    let timer = Timer::after(3);
    let id = ObjectId::new(7);
    let at = Local::now(timer);
    let wait = time::timeout(timer) + time::sleep(timer);
    let next = task::spawn(names.len()) + task::next(&names);
    let price = redis::price(cx, 3).await?;
    let kept = fs::write(cx, price).await?;
    let found = glob::matches(&names) + dirs::of(&names) + fs::normalize(&names) + redis::slots();
    let open = matches!((Barrier::Toll, Semaphore::Green), (Barrier::Toll, Semaphore::Green));
    Ok(command + notify.len() as u64 + timer + id + at + wait + next as u64 + kept + found as u64 + u64::from(open))
}

mod own {
    pub struct Command;
    impl Command {
        pub fn new(name: &str) -> u64 {
            name.len() as u64
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
    pub struct ObjectId;
    impl ObjectId {
        pub fn new(id: u64) -> u64 {
            id
        }
    }
    pub struct Local;
    impl Local {
        pub fn now(of: u64) -> u64 {
            of
        }
    }
    pub mod time {
        pub fn timeout(of: u64) -> u64 {
            of
        }
        pub fn sleep(of: u64) -> u64 {
            of
        }
    }
    pub mod task {
        pub fn spawn(of: usize) -> usize {
            of
        }
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
