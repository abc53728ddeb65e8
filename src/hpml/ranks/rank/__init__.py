"""Inside a rank: from its fork to its end, with what records it and what stands for its network."""
