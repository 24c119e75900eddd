//! The regions lent from a ring. They may be returned in any order; the ring advances in the order
//! in which they were lent.

/// An end of a ring that advances by elements.
pub(super) trait Advance {
    /// Gives `elements` elements of `bytes` bytes to the other end.
    fn advance(&mut self, bytes: u64, elements: u64);
}

/// The state of a lent region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LoanStatus {
    Lent,
    Done,
    /// Dropped without having been filled.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
struct Loan {
    bytes: u64,
    elements: u64,
    status: LoanStatus,
}

/// The lent regions of one end.
#[derive(Debug)]
pub(super) struct Loans<E> {
    pub(super) ring_end: E,
    loans: Box<[Loan]>,
    /// Number of the oldest lent region.
    oldest: u64,
    /// Number that the next lent region gets.
    next: u64,
    /// Number of bytes that are lent or have been returned but wait for older regions.
    lent_bytes: u64,
    is_abandoned: bool,
}

impl<E: Advance> Loans<E> {
    /// Creates the state of a ring end that lends at most `limit` regions at a time. A limit of 0
    /// is treated as 1.
    pub(super) fn new(ring_end: E, limit: usize) -> Self {
        let none = Loan {
            bytes: 0,
            elements: 0,
            status: LoanStatus::Done,
        };
        Self {
            ring_end,
            loans: vec![none; limit.max(1)].into(),
            oldest: 0,
            next: 0,
            lent_bytes: 0,
            is_abandoned: false,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.loans.len()
    }

    /// Returns the number of regions that are lent or wait for older ones.
    pub(super) fn lent(&self) -> usize {
        // Fits, because it is at most the limit, which is a usize.
        (self.next - self.oldest) as usize
    }

    /// Returns the number of bytes between the position of the ring end and the next region.
    pub(super) fn lent_bytes(&self) -> u64 {
        self.lent_bytes
    }

    /// Returns true if a region was dropped unfinished.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Lends the next region and returns its number, or `None` if the limit is reached.
    pub(super) fn lend(&mut self, bytes: u64, elements: u64) -> Option<u64> {
        if self.lent() == self.limit() {
            return None;
        }
        let number = self.next;
        *self.loan(number) = Loan {
            bytes,
            elements,
            status: LoanStatus::Lent,
        };
        self.next += 1;
        self.lent_bytes += bytes;
        Some(number)
    }

    /// Takes a region back. Must be called once for each region.
    pub(super) fn take_back(&mut self, number: u64, status: LoanStatus) {
        debug_assert!((self.oldest..self.next).contains(&number));
        self.loan(number).status = status;
        self.is_abandoned |= status == LoanStatus::Abandoned;
        while self.oldest < self.next {
            let loan = *self.loan(self.oldest);
            if loan.status != LoanStatus::Done {
                break;
            }
            self.ring_end.advance(loan.bytes, loan.elements);
            self.lent_bytes -= loan.bytes;
            self.oldest += 1;
        }
    }

    fn loan(&mut self, number: u64) -> &mut Loan {
        // Fits, because it is below the length, which is a usize.
        let at = (number % self.loans.len() as u64) as usize;
        &mut self.loans[at]
    }
}
