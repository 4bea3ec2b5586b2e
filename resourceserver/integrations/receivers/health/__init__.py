"""Health from a phone: one address for three applications, recognised by what they send.

| application | what it sends | what comes again |
|---|---|---|
| Life Dashboard Companion | records with ids, or buckets | replaces a record, is added to a bucket |
| Health Auto Export | values of intervals, sleeps as sums or stages | replaces the value |
| Health Connect Webhook | records without ids | is known; the total of a day grows |

The readers are pure: a parsed message in, items out (``items``). ``messages`` recognises and parses a body,
and ``writing`` stores the items in the transaction that stores the digest of the body.
"""
