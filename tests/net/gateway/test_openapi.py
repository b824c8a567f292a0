"""The documentation is what the gateway does: made of one table, and tried against it."""

import json
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig

from gateway_cases import FakeBroker, app_of, cloudevents, get, post
from penstock.model.events import Event
from penstock.net.gateway.cloudevents import from_structured, to_structured
from penstock.net.gateway.schemas import SCHEMAS, ref
from penstock.net.gateway.table import ENDPOINTS
from penstock.net.gateway.websocket import OPERATIONS

app = app_of(FakeBroker(ends_at_once=True))
schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=SchemathesisConfig())


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@schema.parametrize()
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_every_endpoint_does_what_the_document_says(case: "schemathesis.Case[Any]") -> None:
    # That text is a filter, and that headers together are a CloudEvent, no schema can say.
    case.call_and_validate(excluded_checks=[schemathesis.checks.positive_data_acceptance])


@pytest.mark.property
@given(cloudevents())
def test_every_cloudevent_that_is_delivered_has_the_documented_shape(document: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator({**ref("CloudEvent"), "components": {"schemas": SCHEMAS}})
    validator.validate(to_structured(from_structured(document), "b1", "origin", 1))
    validator.validate(to_structured(Event({"x": document["id"], "y": {"z": 1}}), "b1", "origin", 1))


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("Event", {"a": [{"": 1}]}),
        ("Event", {"a": {"b": {"": 1}}}),
        ("CloudEvent", {"specversion": "1.0", "id": "a", "source": "s"}),
        ("CloudEvent", {"specversion": "1.0", "id": "a", "source": "s", "type": "t\t"}),
        ("CloudEvent", {"specversion": "1.0", "id": "a", "source": "s", "type": "t", "data": {"": 1}}),
        ("CloudEvent", {"specversion": "1.0", "id": "a", "source": "s", "type": "t", "A": 1}),
    ],
)
def test_what_the_document_forbids_is_refused(name: str, document: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator({**ref(name), "components": {"schemas": SCHEMAS}})
    assert not validator.is_valid(document)
    content_type = "application/json" if name == "Event" else "application/cloudevents+json"
    assert post(app, json.dumps(document), content_type).status_code in (400, 422)


def test_the_document_and_the_page_name_every_endpoint_and_every_operation() -> None:
    document = get(app, "/openapi.json").json()
    named = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert named == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    assert set(document["x-websockets"]["/ws"]["operations"]) == set(OPERATIONS)
    page = get(app, "/docs").text
    assert all(f"<code>{endpoint.method} {endpoint.path}</code>" in page for endpoint in ENDPOINTS)
    assert all(f"<code>{name}: " in page for name in OPERATIONS)


def test_operations_have_names_of_their_own() -> None:
    document = get(app, "/openapi.json").json()
    names = [op["operationId"] for methods in document["paths"].values() for op in methods.values()]
    assert len(names) == len(set(names))
