"""Changes to bytes, for tests of whatever reads them."""

from hypothesis import strategies as st


@st.composite
def changed(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes, of which a few are others, or missing, or doubled."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        stop = draw(st.integers(begin, min(begin + 6, len(data))))
        put = draw(
            st.one_of(
                st.binary(max_size=4),
                st.sampled_from(
                    [
                        *(
                            b"\xc0",
                            b"\x90",
                            b"\x91",
                            b"\x80",
                            b"\xdd\xff\xff\xff\xff",
                            b"\xdb\xff\xff\xff\xff",
                        ),
                        *(b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xa1\xff", b"\xa3\xed\xa0\x80"),
                        *(b"\x91" * 2000, b"\xcb\x7f\xf8" + bytes(6), data[begin:stop] * 2),
                    ]
                ),
            )
        )
        data = data[:begin] + put + data[stop:]
    return data
