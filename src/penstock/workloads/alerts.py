"""Alert rules of many tenants as SQL text, from a seed: what people write, with the slips that they make.

Most rules are about one tenant and a threshold, so that some cover others. A few are about hosts, countries
or codes. Of a thousand, ten say the same as an earlier one, one contradicts itself, and one has an
alternative that can never match.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

_RULES_OF_TENANT: Final = 40
_COUNTRIES: Final = tuple(a + b for a in "abcdefgh" for b in "klmnopqr")
_AGAIN: Final = 0.01
_SLIP: Final = 0.001


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield so many rules."""
    random = Random(seed)
    tenants = max(1, count // _RULES_OF_TENANT)
    earlier: list[str] = []
    for _ in range(count):
        if earlier and random.random() < _AGAIN:
            yield random.choice(earlier)
            continue
        made = _rule(f"tenant = 't{random.randrange(tenants)}'", random)
        if len(earlier) < count // 10:
            earlier.append(made)
        yield made


def _rule(tenant: str, random: Random) -> str:
    amount, chance = random.randrange(1, 100_000) / 4, random.random()
    if chance < _SLIP:
        return f"{tenant} and amount > {amount} and amount < {amount - 1}"
    if chance < 2 * _SLIP:
        return f"{tenant} and (amount between {amount} and {amount - 1} or status = 'failed')"
    kind = random.randrange(8)
    if kind < 3:
        return f"{tenant} and amount > {amount}"
    if kind == 3:
        return f"{tenant} and latency_ms between {random.randrange(100)} and {random.randrange(100, 10_000)}"
    if kind == 4:
        countries = ", ".join(f"'{code}'" for code in random.sample(_COUNTRIES, 3))
        return f"{tenant} and country in ({countries}) and amount > {amount}"
    if kind == 5:
        return f"host like 'web-{random.randrange(10**6):06d}%' and latency_ms > {random.randrange(10_000)}"
    if kind == 6:
        return f"{tenant} and (code = {random.randrange(1_000)} or amount > {amount})"
    return f"{tenant} and status not in ('ok', 'retried') and latency_ms > {random.randrange(10_000)}"
