"""Who is let in as a broker: all that is set up has to hold; the certificate of a client is not enough."""

from itertools import product

import pytest

from penstock.errors import AccessError
from penstock.node.admission import Admission
from penstock.wire.greetings import VERSION, Hello, Welcome

SECRET = "what brokers know"  # noqa: S105 - of tests


def is_let_in(admission: Admission, *, secret: bool, certificate: bool, name: str = "b") -> bool:
    knows = Admission(secret=SECRET if secret else None)
    hello = Hello(VERSION, "broker", name, knows.proof("hello", "s", name), "s", 0)
    names = frozenset({name}) if certificate else frozenset[str]()
    try:
        admission.check_broker(hello, names, is_tls=certificate)
    except AccessError:
        return False
    return True


@pytest.mark.parametrize(("wants_secret", "wants_certificate"), [*product((False, True), repeat=2)])
def test_a_broker_needs_all_that_is_set_up_to_know_it_by(wants_secret: bool, wants_certificate: bool) -> None:
    admission = Admission(secret=SECRET if wants_secret else None, has_ca=wants_certificate, peers=["b"])
    for secret, certificate in product((False, True), repeat=2):
        needed = (secret or not wants_secret) and (certificate or not wants_certificate)
        assert is_let_in(admission, secret=secret, certificate=certificate) is needed
        assert not is_let_in(admission, secret=secret, certificate=certificate, name="alice")


def test_a_certificate_alone_lets_nobody_join() -> None:
    assert not is_let_in(Admission(has_ca=True), secret=False, certificate=True)
    assert is_let_in(Admission(has_ca=True, peers=["*"]), secret=False, certificate=True)
    assert is_let_in(Admission(has_ca=True, secret=SECRET), secret=True, certificate=True)


def test_without_anything_set_up_any_broker_joins_unless_clients_need_tokens() -> None:
    assert is_let_in(Admission(), secret=False, certificate=False)
    assert not is_let_in(Admission(required=True), secret=False, certificate=False)
    assert not is_let_in(Admission(required=True, peers=["b"]), secret=False, certificate=False)


def test_a_broker_that_answers_needs_the_secret_and_the_certificate() -> None:
    admission = Admission(secret=SECRET, has_ca=True)
    good = Welcome("a", 1, False, 0, 1, 1, admission.proof("welcome", "s", "a"))
    admission.check_answer(good, "s", frozenset({"a"}), is_tls=True)
    with pytest.raises(AccessError, match="certificate"):
        admission.check_answer(good, "s", frozenset({"z"}), is_tls=True)
    with pytest.raises(AccessError, match="secret"):
        admission.check_answer(Welcome("a", 1, False, 0, 1, 1, ""), "s", frozenset({"a"}), is_tls=True)
