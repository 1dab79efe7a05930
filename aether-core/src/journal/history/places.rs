//! A queue of places, as one text.
//!
//! Promise: what comes in first comes out first. A long history waits for a million answers: a place costs the bytes of its
//! text and those of its length.

use std::fmt::Write as _;
use std::ops::Range;

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
        // Writing to a string does not fail.
        let _written = write!(self.text, "{} {place}", place.len());
        self.count += 1;
    }

    /// The next one.
    pub(super) fn front(&self) -> Option<&str> {
        self.text.get(self.front_at()?)
    }

    /// Where the text of the next one is.
    fn front_at(&self) -> Option<Range<usize>> {
        let (length, _) = self.text.get(self.read..)?.split_once(' ')?;
        let begin = self.read + length.len() + 1;
        Some(begin..begin + length.parse::<usize>().ok()?)
    }

    pub(super) fn pop_front(&mut self) {
        let Some(front) = self.front_at() else { return };
        self.read = front.end;
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
        while let Some(place) = self.front() {
            if keep(place) {
                kept.push_back(place);
            }
            self.pop_front();
        }
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
        assert!(places.is_empty());
        places.pop_front();
        places.push_back("0");
        assert_eq!(places.front(), Some("0"));
    }

    #[test]
    fn any_text_is_a_place() {
        let mut places = Places::default();
        let odd = ["", "3 ", "\u{1f}", "7 äöü", "12"];
        odd.iter().for_each(|place| places.push_back(place));
        for place in odd {
            assert_eq!((places.is_empty(), places.front()), (false, Some(place)));
            places.pop_front();
        }
        assert!(places.is_empty());
    }
}
