//! Parts of tokio that neither wait nor wake
//! how: clean

use std::sync::Arc;

use aether::prelude::*;
use tokio::sync::{Mutex, OnceCell, Semaphore, oneshot};

struct Slots {
    free: Arc<Semaphore>,
    names: Mutex<Vec<String>>,
}

impl Slots {
    fn reserve(&self, name: &str) -> std::result::Result<(), String> {
        let permit = self.free.try_acquire().map_err(|_| format!("no room for {name}"))?;
        permit.forget();
        self.names.try_lock().map_err(|error| error.to_string())?.push(name.to_owned());
        Ok(())
    }
}

fn booked(room: usize) -> String {
    let slots = Slots { free: Arc::new(Semaphore::new(room)), names: Mutex::const_new(Vec::new()) };
    let answers = ["ann", "bob", "cid"].map(|name| slots.reserve(name));
    let (sender, mut receiver) = oneshot::channel();
    let empty = receiver.try_recv().is_err();
    let _ = sender.send(slots.free.available_permits());
    let cell = OnceCell::new_with(Some(slots.names.into_inner()));
    format!("{answers:?} {empty} {:?} {:?}", receiver.try_recv(), cell.get())
}

#[workflow]
pub async fn semaphore_and_oneshot_local(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(booked((cx.random().await % 4) as usize))
}
