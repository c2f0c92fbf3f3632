"""The errors of decoding JSON of others: files that were damaged, answers, annotations. Imports nothing of tfsteps."""

import msgspec

NOT_READABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Not JSON, or of another shape; not UTF-8, also as surrogates in a text; nested too deep."""
