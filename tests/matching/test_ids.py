"""Ids in the order in which results name them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.matching import ids
from penstock.matching.ids import IdTable
from penstock.model.names import Id, id_order

IDS = st.lists(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
        st.sampled_from(["a\0", "a", "\U0010ffff", "\ue000", "é"]),
    ),
    unique_by=lambda one: (type(one), one),
    max_size=30,
)


@pytest.mark.parametrize("some", [0, 1_000])
@given(given_ids=IDS, data=st.data())
def test_integers_come_first_then_text_by_code_point(
    some: int, given_ids: list[Id], data: st.DataObject
) -> None:
    table = IdTable()
    numbers = table.intern(given_ids)
    chosen = np.array(
        data.draw(st.lists(st.sampled_from(numbers.tolist()), unique=True)) if given_ids else [], np.int32
    )
    wanted = sorted((given_ids[number] for number in chosen.tolist()), key=id_order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "_SOME", some)
        assert table.sorted_ids(chosen) == wanted
        assert [given_ids[number] for number in table.ordered(chosen).tolist()] == wanted
