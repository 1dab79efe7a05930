//! A queue of places, as one text.
//!
//! Promise: what comes in first comes out first. A long history waits for a million answers: a place costs the bytes of its
//! text and one more.

/// Behind each place. No place that code gives to a command holds it.
const END: char = '\u{1f}';

/// What was read is let go of in parts of at least so many bytes.
const READ: usize = 64 * 1024;

/// Places in an order.
#[derive(Debug, Default)]
pub(super) struct Places {
    text: String,
    /// How much of it was taken out.
    read: usize,
    count: usize,
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    pub(super) fn push_back(&mut self, place: &str) {
        self.text.push_str(place);
        self.text.push(END);
        self.count += 1;
    }

    /// The next one.
    pub(super) fn front(&self) -> Option<&str> {
        self.text.get(self.read..)?.split_once(END).map(|(place, _)| place)
    }

    pub(super) fn pop_front(&mut self) {
        let Some(length) = self.front().map(str::len) else { return };
        self.read += length + END.len_utf8();
        self.count = self.count.saturating_sub(1);
        if self.read == self.text.len() {
            *self = Self::default();
        } else if self.read >= READ && self.read >= self.text.len() / 2 {
            self.text.drain(..self.read);
            self.text.shrink_to_fit();
            self.read = 0;
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let mut kept = Self::default();
        let rest = self.text.get(self.read..).unwrap_or_default();
        rest.split_terminator(END).filter(|place| keep(place)).for_each(|place| kept.push_back(place));
        *self = kept;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn it_is_a_queue_however_long() {
        let (mut places, mut model) = (Places::default(), VecDeque::new());
        for number in 0..40_000_u32 {
            let place = format!("{number}.b0.{}", number % 7);
            places.push_back(&place);
            model.push_back(place);
            if number % 3 == 0 {
                assert_eq!(places.front(), model.pop_front().as_deref());
                places.pop_front();
            }
        }
        places.retain(|place| !place.ends_with('3'));
        model.retain(|place| !place.ends_with('3'));
        while let Some(next) = model.pop_front() {
            assert_eq!((places.front(), places.len()), (Some(&*next), model.len() + 1));
            places.pop_front();
        }
        assert!(places.is_empty() && places.len() == 0);
        places.pop_front();
        places.push_back("0");
        assert_eq!(places.front(), Some("0"));
    }

    #[test]
    fn the_empty_place_is_one() {
        let mut places = Places::default();
        places.push_back("");
        assert_eq!((places.is_empty(), places.len(), places.front()), (false, 1, Some("")));
    }
}
