"""The emulated network between ranks: links, veth pairs, token buckets, byte counters."""
