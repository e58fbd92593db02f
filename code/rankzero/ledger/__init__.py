"""The memory ledger: what training holds, to the byte. Predicted from sizes, measured on a model that runs."""
