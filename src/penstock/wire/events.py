"""Events on the wire: the bytes in which one travels, is kept and is matched.

The form is said, and made, in `penstock.model.packed`: the matcher reads it too, without the wire. Whoever
takes such bytes from outside has them checked, by decoding or by `penstock.matching.packed_events`; who
forwards them afterwards leaves them as they are.
"""

from penstock.model.packed import TIME_BYTES, TIME_CODE, decode_event, encode_event, encode_mapping

__all__ = ["TIME_BYTES", "TIME_CODE", "decode_event", "encode_event", "encode_mapping"]
