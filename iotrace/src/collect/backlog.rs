//! Records taken out of the ring buffer and not looked at yet.
//!
//! Some records take long: a process is looked up in /proc, a thread's slot of several KB is read and given back. When
//! thousands of processes begin or end at once, the ring buffer would overflow meanwhile. So it is emptied first, and again
//! every few records. A byte waiting here costs half of what it costs in the ring buffer, whose pages are mapped twice,
//! and only while it waits.

use std::collections::VecDeque;

use aya::maps::{MapData, RingBuf};
use bytes::{Buf as _, BufMut as _, BytesMut};

use super::events::{self, Event};

/// So many records are looked at before the ring buffer is emptied again: about 2 ms of the slowest kind.
const BATCH: usize = 64;
/// No more is taken than this, in bytes; then the ring buffer fills, and its losses are counted where they happen.
const LIMIT: usize = 512 << 10;
/// Memory comes and goes in pieces of this size, in bytes, so that what is looked at is given back.
const PIECE: usize = 256 << 10;

/// Records in the order of the ring buffer, each behind its length.
#[derive(Default)]
pub struct Backlog {
    /// None of them is empty but the last.
    pieces: VecDeque<BytesMut>,
    looked_at: usize,
}

impl Backlog {
    /// The next record; `Some(None)` for one that cannot be decoded. Takes what has come to the ring buffer now and then.
    pub fn next(&mut self, ring: Option<&mut RingBuf<MapData>>) -> Option<Option<Event>> {
        if let Some(ring) = ring
            && (self.looked_at >= BATCH || self.pieces.front().is_none_or(BytesMut::is_empty))
        {
            self.looked_at = 0;
            while self.pieces.len() < LIMIT / PIECE
                && let Some(record) = ring.next()
            {
                self.push(&record);
            }
        }
        self.pop()
    }

    fn push(&mut self, record: &[u8]) {
        let bytes = record.len() + size_of::<u32>();
        let piece = match self.pieces.back_mut().filter(|piece| piece.capacity() - piece.len() >= bytes) {
            Some(piece) => piece,
            None => self.pieces.push_back_mut(BytesMut::with_capacity(PIECE.max(bytes))),
        };
        piece.put_u32_ne(record.len() as u32);
        piece.put_slice(record);
    }

    fn pop(&mut self) -> Option<Option<Event>> {
        let piece = self.pieces.front_mut()?;
        let length = piece.try_get_u32_ne().ok()? as usize;
        self.looked_at += 1;
        let event = events::decode(&piece[..length]);
        piece.advance(length);
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in_and_memory_is_given_back() {
        let mut backlog = Backlog::default();
        let exit =
            |slot: u32| [iotrace_common::event::THREAD_EXIT.to_ne_bytes(), slot.to_ne_bytes()].concat();
        let count = 200_000;
        for slot in 0..count {
            backlog.push(&exit(slot));
        }
        backlog.push(&[]);
        backlog.push(&vec![0; 2 * PIECE]);
        assert!(backlog.pieces.len() > 2);
        for slot in 0..count {
            assert_eq!(backlog.next(None), Some(Some(Event::ThreadExit { slot })));
        }
        assert_eq!(backlog.next(None), Some(None), "an empty record cannot be decoded");
        assert_eq!(backlog.next(None), Some(None), "nor one longer than any");
        assert_eq!(backlog.next(None), None);
        assert!(backlog.pieces.is_empty());
        backlog.push(&exit(7));
        assert_eq!(backlog.next(None), Some(Some(Event::ThreadExit { slot: 7 })));
    }
}
