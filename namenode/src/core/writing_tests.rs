//! Writing, leases, recovery, safe mode, reports: one scenario each.
